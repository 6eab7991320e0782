"use strict";
// The story has one state. Controls, the place on the page and the address set it; all panels show it.

(function () {
  const source = document.getElementById("live-data");
  if (!source) return;
  const { model: data, paths } = JSON.parse(source.textContent);
  const transformer = makeTransformer(data);
  const { steps } = transformer;
  const last = steps[steps.length - 1];
  const find = (id) => document.getElementById(id);
  const read = (text, options) => ({ text, ...transformer.read(text, options) });
  const swaps = makeSwaps(data);
  const panels = makePanels(data, paths, { read, swaps, find });
  const known = new Set(data.vocabulary);
  const drawChips = makeChips(find("play-chips"), data.slots, (word) => known.has(word), (text) => write(text));

  // ---- the state

  const SECTIONS = ["one-word", "where", "what", "break", "learned"];
  const start = { text: data.sentence, word: null, edits: null, step: last, section: "" };
  const state = { ...start };
  const PRESET = { ...NO_EDITS, "reflect-v": 1 }; // what step 4 shows until the reader edits
  const edits = () => state.edits ?? PRESET;

  // All readings that the page shows of the state.
  function readings() {
    const plain = read(state.text);
    const token = state.word !== null && state.word < plain.tokens.length ? state.word : strongest(plain);
    const list = editList(edits(), token);
    const after = list.length ? read(state.text, { edits: list }) : plain;
    const then = state.step === last ? plain : read(state.text, { step: state.step });
    return { plain, token, after, then };
  }

  // ---- drawing: what is far from the window waits until it comes near

  const DRAWN = {
    "one-word": ({ plain }) => panels.oneWord(plain),
    where: ({ plain }) => panels.where(plain),
    what: ({ plain }) => panels.what(plain),
    break: (all) => panels.breakIt({ ...all, chosen: state.word, edits: edits() }),
    learned: ({ then }) => panels.learned(then, state.step, steps.indexOf(state.step)),
  };
  const near = new Set(SECTIONS);
  const stale = new Set();

  function drawStrip({ plain, after, then }) {
    if (state.section === "break") panels.strip(after, after === plain ? "" : "edited: ");
    else if (state.section === "learned") panels.strip(then, then === plain ? "" : `step ${state.step}: `);
    else panels.strip(plain, "");
  }

  function draw() {
    const all = readings();
    drawChips(all.plain);
    panels.play(all.plain);
    drawStrip(all);
    for (const name of SECTIONS) {
      if (near.has(name)) DRAWN[name](all);
      else stale.add(name);
    }
  }

  function drawStale(names) {
    const waiting = [...names].filter((name) => stale.delete(name));
    const all = waiting.length ? readings() : null;
    for (const name of waiting) DRAWN[name](all);
  }

  function show(change) {
    if ("text" in change) find("play-note").textContent = "";
    Object.assign(state, change);
    draw();
    pageState.changed();
  }

  function say(text) {
    find("play-note").textContent = text;
    announce(text);
  }

  // ---- the sentence

  // Swap a word, and say what that does.
  function swap(place) {
    const before = read(state.text);
    const i = place(before);
    show({ text: swaps.swapped(before, i) });
    const after = read(state.text);
    const effect = after.label === before.label ? "the verdict stays" : "the verdict flips";
    say(`“${before.words[i]}” → “${after.words[i]}”: the logit goes from ${signed(before.logit)} to ${signed(after.logit)}, and ${effect}.`);
  }

  function write(text) {
    show({ text, word: null });
    announce(find("play-verdict").textContent);
  }

  find("swap-read").addEventListener("click", () => swap(strongest));
  find("swap-unread").addEventListener("click", () => swap(swaps.unreadOf));
  find("put-in-front").addEventListener("click", () => write(`${FRONT}${state.text}`));
  find("play-text").addEventListener("input", (event) => write(event.target.value));
  find("play-example").addEventListener("change", (event) => event.target.value && write(event.target.value));
  find("play-reset").addEventListener("click", () => {
    play(false);
    show({ ...start, section: state.section });
  });
  // Beside the sentence: its plain reading. Beside the steps: what the step shows.
  find("export-csv").addEventListener("click", () => save("sentence.csv", asCsv(read(state.text), last, [])));
  find("export-step").addEventListener("click", () => {
    const list = state.section === "break" ? editList(edits(), readings().token) : [];
    const step = state.section === "learned" ? state.step : last;
    save("sentence.csv", asCsv(read(state.text, { step, edits: list }), step, list));
  });

  // ---- steps 4 and 5

  // The reader's edits begin with none: what is shown until then is not theirs.
  function edit(change) {
    show(change);
    announce(find("edit-verdict").textContent);
  }
  find("edit-word").addEventListener("change", (event) => edit({ word: tokenIn(event.target.value), edits: edits() }));
  for (const name of Object.keys(NO_EDITS)) {
    find(`edit-${name}`).addEventListener("input", (event) => edit({ edits: { ...(state.edits ?? NO_EDITS), [name]: Number(event.target.value) } }));
  }
  find("edit-reset").addEventListener("click", () => edit({ edits: NO_EDITS, word: null }));

  let playing = null;
  function play(on) {
    clearInterval(playing);
    playing = on ? setInterval(forward, 250) : null;
    find("learn-play").textContent = on ? "Pause" : "Play";
  }
  function forward() {
    const number = Math.min(steps.indexOf(state.step) + 1, steps.length - 1);
    if (number === steps.length - 1) play(false);
    show({ step: steps[number] });
  }
  find("learn-play").addEventListener("click", () => {
    if (!playing && state.step === last) show({ step: steps[0] });
    play(!playing);
  });
  find("learn-step").addEventListener("input", (event) => {
    play(false);
    show({ step: steps[Number(event.target.value)] });
  });

  // ---- the place on the page: the step in the middle of the window sets the state

  pagePlace.listen((name) => show({ section: SECTIONS.includes(name) ? name : "" }));

  const nearby = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) near.add(target.id);
      else near.delete(target.id);
    }
    drawStale(near);
  }, { rootMargin: "30%" });
  for (const name of SECTIONS) nearby.observe(find(name));
  window.addEventListener("beforeprint", () => drawStale(SECTIONS));
  narrow.addEventListener("change", draw); // of pictures.js: other boxes

  // ---- the address

  let waiting = false;
  function set(change) {
    play(false);
    Object.assign(state, change);
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => { // after all parts are set
      waiting = false;
      draw();
    });
  }
  pageState.add({
    text: { get: () => (state.text === start.text ? "" : state.text), set: (text) => set({ text: text || start.text }) },
    word: { get: () => (state.word === null ? "" : String(state.word)), set: (text) => set({ word: tokenIn(text) }) },
    edits: { get: () => (state.edits === null ? "" : textOfEdits(state.edits)), set: (text) => set({ edits: text ? editsOfText(text) : null }) },
    step: { get: () => (state.step === last ? "" : String(state.step)), set: (text) => set({ step: steps.find((step) => String(step) === text) ?? last }) },
  });

  // The model for the console, for teachers and for tests.
  window.slr = { read: transformer.read, steps, show, state: () => ({ ...state, edits: edits() }) };
  draw();
})();

"use strict";
// The views of pretrained models: what the reader has chosen, with menus, mouse, keyboard and address.

(function () {
  const source = document.getElementById("views-data");
  if (!source) return;
  const find = (name) => document.getElementById("views-" + name);
  const models = JSON.parse(source.textContent).map(decodedViews);
  const start = { view: models[0].key, sentence: firstViewsSentence(models[0].sentences), show: "attention", head: "mean" };
  const state = { ...start };
  let chosen = null; // the cell that was chosen: {layer, token}; null for the strongest of the informative word

  const model = () => models.find(({ key }) => key === state.view);
  let reading = new ViewsReading(model(), state);
  let map = null;
  const cell = () => (chosen ? reading.within(chosen) : reading.strongest);

  // ---- drawing

  let waiting = false;
  function draw() {
    waiting = false;
    reading = new ViewsReading(model(), state);
    fillMenus();
    find("title").textContent = viewsTitle(reading);
    find("bar").replaceChildren(drawViewsBar(reading));
    const box = find("scroll");
    const [hadFocus, scrolled] = [box.contains(document.activeElement), box.scrollLeft];
    map = drawViewsMap(reading, box.clientWidth, cell());
    box.replaceChildren(map.svg);
    find("legend").textContent = viewsLegend(reading);
    fillTable();
    point(cell());
    // where not all fits, the cell that is told about is in sight
    box.scrollLeft = chosen ? scrolled : Math.max(0, map.x(cell().token) - 0.7 * box.clientWidth);
    if (hadFocus) stop().focus({ preventScroll: true });
  }

  // Several changes at a time, such as those of a hash, are drawn once.
  function redraw() {
    if (!waiting) queueMicrotask(draw);
    waiting = true;
  }

  // Show a cell: its frame, its values, and its layer in the curves.
  let curvesShown = "";
  function point(to) {
    map.cursor.setAttribute("x", map.x(to.token));
    map.cursor.setAttribute("y", map.y(to.layer));
    find("detail").replaceChildren(...viewsDetail(reading, to));
    const width = find("side").clientWidth;
    const key = [state.view, state.sentence, to.layer, width].join();
    if (key !== curvesShown) find("side").replaceChildren(...["k", "v"].map((name) => drawViewsCurves(reading, name, to.layer, width)));
    curvesShown = key;
  }

  function fillTable() {
    find("table").replaceChildren(...(find("details").open ? viewsTable(reading) : []));
  }

  function fillMenus() {
    const option = ([value, label]) => htmlElement("option", { value }, label);
    const heads = Array.from({ length: model().heads }, (_, i) => [i + 1, `head ${i + 1} of every layer`]);
    const bySplit = new Map();
    model().sentences.forEach(({ split, text }, i) => bySplit.set(split, [...(bySplit.get(split) ?? []), [i, text]]));
    const menus = {
      view: models.map(({ key, name }) => option([key, name])),
      show: [["attention", "attention of the summary token"], ["k", "along k̂: where to look"], ["v", "along v̂: what to read"]].map(option),
      head: [["mean", "mean over heads"], ["largest", "largest over heads"], ...heads].map(option),
      sentence: [...bySplit].map(([label, texts]) => htmlElement("optgroup", { label }, ...texts.map(option))),
    };
    for (const [name, options] of Object.entries(menus)) {
      find(name).replaceChildren(...options);
      find(name).value = String(state[name]);
    }
    find("head").disabled = !reading.isAttention;
  }

  // ---- what the reader sets

  const VALID = {
    view: (x) => models.some(({ key }) => key === x),
    show: (x) => Object.hasOwn(VIEWS_QUANTITIES, x),
    head: (x) => x === "mean" || x === "largest" || (/^[1-9]\d*$/.test(x) && Number(x) <= model().heads),
    sentence: (x) => /^\d+$/.test(x) && Number(x) < model().sentences.length,
  };

  function set(name, x) {
    const valid = VALID[name](x) ? x : start[name];
    const value = name === "sentence" ? Number(valid) : valid;
    if (value === state[name]) return;
    state[name] = value;
    if (name === "view" || name === "sentence") chosen = null;
    if (!VALID.head(state.head)) state.head = start.head;
    if (!VALID.sentence(String(state.sentence))) state.sentence = start.sentence;
    redraw();
  }

  // The model comes first: which heads there are depends on it.
  for (const name of ["view", "sentence", "show", "head"]) {
    pageState.add({ [name]: { get: () => (state[name] === start[name] ? "" : String(state[name])), set: (x) => set(name, x) } });
    find(name).addEventListener("change", (event) => {
      set(name, event.target.value);
      pageState.changed();
    });
  }

  // ---- the cell that is told about

  const stop = () => map.svg.querySelector('[tabindex="0"]');

  function choose(to) {
    chosen = to;
    stop().setAttribute("tabindex", -1);
    map.svg.querySelector(`[data-token="${to.token}"][data-layer="${to.layer}"]`).setAttribute("tabindex", 0);
    point(to);
    return stop();
  }

  const scroll = find("scroll");
  const follow = (type, use) => scroll.addEventListener(type, (event) => {
    const { token, layer } = event.target.dataset;
    if (token !== undefined) use({ token: Number(token), layer: Number(layer) }, event);
  });
  follow("click", (to) => choose(to).focus({ preventScroll: true }));
  follow("focusin", choose);
  follow("pointerover", (to, event) => { if (event.pointerType === "mouse") point(to); });
  scroll.addEventListener("pointerleave", () => point(cell()));
  scroll.addEventListener("keydown", (event) => {
    const { layer, token } = cell();
    const target = {
      ArrowRight: { layer, token: token + 1 }, ArrowLeft: { layer, token: token - 1 },
      ArrowUp: { layer: layer + 1, token }, ArrowDown: { layer: layer - 1, token },
      Home: { layer, token: 0 }, End: { layer, token: Infinity }, PageUp: { layer: Infinity, token }, PageDown: { layer: 0, token },
    }[event.key];
    if (!target || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(reading.within(target)).focus();
  });
  find("details").addEventListener("toggle", fillTable);

  find("panel").hidden = false;
  draw();
  let width = scroll.clientWidth;
  new ResizeObserver(() => {
    if (scroll.clientWidth !== width) redraw();
    width = scroll.clientWidth;
  }).observe(scroll);
})();

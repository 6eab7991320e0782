"use strict";
// What the sentence and the five steps show of a reading, in words, bars and pictures.

const percent = (x) => `${(100 * x).toFixed(x > 0.9995 || x < 0.9 ? 0 : 1)}%`;
const verdict = (reading) => `${reading.label} (logit ${signed(reading.logit)}, ${percent(reading.probability)})`;
const bold = (text) => htmlElement("b", {}, text);
const cell = (text, attributes = {}) => htmlElement("td", attributes, ...[text].flat());
const rowHead = (text) => htmlElement("th", { scope: "row" }, text);

const NAMES = { "erase-v": "erased along v̂", "reflect-v": "reflected along v̂", "steer-v": "steered along v̂", "erase-k": "erased along k̂" };

// A bar from the middle, by the logit.
function gauge(fill, logit) {
  const share = Math.min(50, (Math.abs(logit) / 5) * 50);
  fill.style.width = `${share}%`;
  fill.style.left = `${logit < 0 ? 50 - share : 50}%`;
}

// The words of a reading, shaded by attention.
function pieces(reading) {
  return reading.words.flatMap((word, i) => {
    const made = htmlElement("span", { class: reading.spans[i] ? "piece" : "piece special" }, word);
    made.style.setProperty("--share", reading.attention[i].toFixed(4));
    return [made, " "];
  });
}

const FRONT = "The city is clean. ";

function makePanels(data, paths, { read, swaps, find }) {
  const { swapped, unreadOf } = swaps;
  const known = new Set(data.vocabulary);

  // The table behind a picture of tokens: made when it is opened, as many rows take time.
  const unmade = new Map();

  function numbers(name, reading) {
    const body = find(`${name}-numbers`);
    unmade.set(body, () => body.replaceChildren(...reading.words.map((word, i) => htmlElement("tr", {},
      rowHead(reading.unknown[i] ? `${word} (read as [UNK])` : word),
      ...[reading.attention[i].toFixed(4), fixed(reading.k[i], 3), fixed(reading.v[i], 3)].map((text) => cell(text, { class: "measure" })),
    ))));
    makeIfOpen(body);
  }

  function makeIfOpen(body) {
    if (!unmade.has(body) || !body.closest("details").open) return;
    unmade.get(body)();
    unmade.delete(body);
  }

  document.addEventListener("toggle", () => [...unmade.keys()].forEach(makeIfOpen), true);

  function play(plain) {
    const top = strongest(plain);
    const away = plain.unknown[top] ? ", a word that it never saw" : plain.spans[top] ? "" : ": it has found no word";
    hint(plain, top);
    find("play-verdict").replaceChildren(
      "It attends to ", bold(`“${plain.words[top]}”`), ` (${percent(plain.attention[top])})${away}, and says `, bold(verdict(plain)), ".",
    );
    gauge(find("play-gauge"), plain.logit);
    if (find("play-text").value !== plain.text) find("play-text").value = plain.text;
    find("play-example").value = plain.text; // or none of them
    if (find("play-example").selectedIndex < 0) find("play-example").value = "";
    find("swap-unread").disabled = unreadOf(plain) < 0;
    find("swap-read").disabled = swapped(plain, top) === null;
    numbers("play", plain);
  }

  // Why no word is found, where that is so, and what helps; and what is not read at all.
  function hint(plain, top) {
    const lost = !plain.spans[top];
    const inFront = read(FRONT + plain.text);
    find("put-in-front").hidden = !lost || !inFront.spans[strongest(inFront)];
    const long = `The model has places for ${data.most_tokens - 2} words and marks; it does not read the last ${plain.dropped}.`;
    find("play-hint").textContent = plain.dropped ? long : lost ? reasons(plain) : "";
  }

  function reasons(plain) {
    const list = (words) => words.slice(0, 3).map((word) => `“${word}”`).join(", ") + (words.length > 3 ? ", …" : "");
    const deciding = plain.words.filter((word, i) => plain.spans[i] && !plain.unknown[i] && swaps.decides(word));
    if (deciding.length) return `It knows ${list(deciding)}, but at other places of a sentence: those that such words had in training.`;
    const unknown = plain.words.filter((_, i) => plain.unknown[i]);
    if (!unknown.length) return "None of these words decided a label in training.";
    const capitals = unknown.some((word) => word !== word.toLowerCase() && known.has(word.toLowerCase()));
    return `It never saw ${list(unknown)} in training${capitals ? ", and tells capitals from small letters" : ""}.`;
  }

  function oneWord(plain) {
    const rows = [["nothing", plain.text]];
    for (const [i, which] of [[unreadOf(plain), ""], [strongest(plain), ", which it reads"]]) {
      const text = i < 0 ? null : swapped(plain, i);
      if (text !== null) rows.push([`“${plain.words[i]}”${which}`, text]);
    }
    find("swap-rows").replaceChildren(...rows.map(([what, text]) => {
      const reading = text === plain.text ? plain : read(text);
      const most = strongest(reading);
      return htmlElement("tr", {}, rowHead(what),
        cell(pieces(reading).slice(2, -2), { "data-label": "sentence", class: "pieces" }),
        cell(`${reading.words[most]} (${reading.attention[most].toFixed(2)})`, { "data-label": "attention goes to" }),
        cell(`${reading.label} (${signed(reading.logit)})`, { "data-label": "verdict" }));
    }));
  }

  function where(plain) {
    drawWhere(find("where-picture"), plain);
  }

  function what(plain) {
    drawPlane(find("what-picture"), plain);
    const total = plain.attention.reduce((sum, a, i) => sum + a * plain.v[i], 0);
    find("what-read").textContent = `The sum of attention × v̂ over the tokens is ${signed(total)}, and the logit ${signed(plain.logit)}.`;
  }

  // The menu of tokens to edit; chosen is null for the one with most attention.
  function editMenu(plain, chosen) {
    const asks = (i) => (plain.spans[i] ? "" : i ? ", the end" : ", which asks");
    const texts = [`the one with most attention: ${plain.words[strongest(plain)]}`, ...plain.words.map((word, i) => `${i}: ${word}${asks(i)}`)];
    const select = find("edit-word");
    if (select.options.length !== texts.length) {
      select.replaceChildren(...texts.map((_, i) => htmlElement("option", { value: i ? String(i - 1) : "" })));
    }
    texts.forEach((text, i) => { select.options[i].textContent = text; });
    select.value = chosen === null || chosen >= plain.words.length ? "" : String(chosen);
  }

  function breakIt({ plain, token, chosen, edits, after }) {
    editMenu(plain, chosen);
    for (const [name, amount] of Object.entries(edits)) {
      find(`edit-${name}`).value = amount;
      find(`edit-${name}-value`).textContent = name === "steer-v" ? signed(amount) : fixed(amount);
    }
    const done = Object.entries(edits).filter(([, amount]) => amount !== 0).map(([name, amount]) => `${NAMES[name]} by ${name === "steer-v" ? signed(amount) : fixed(amount)}`);
    find("edit-verdict").replaceChildren("Before: ", bold(verdict(plain)), `. “${plain.words[token]}” ${done.join(", ") || "as it is"}: `, bold(verdict(after)),
      `, attention on this token ${plain.attention[token].toFixed(2)} → ${after.attention[token].toFixed(2)}.`);
    // Without the label in its state the word may as well be another one.
    const other = swapped(plain, token);
    const same = other === null ? null : read(other, { edits: editList(edits, token) });
    find("edit-other").textContent = same ? `With “${same.words[token]}” in its place, and the same edits: ${verdict(same)}.` : "";
    gauge(find("edit-gauge"), after.logit);
    find("edit-before").style.left = `${50 + Math.max(-50, Math.min(50, plain.logit * 10))}%`;
    drawPlane(find("edit-picture"), after, { before: plain });
    numbers("edit", after);
  }

  function learned(reading, step, number) {
    find("learn-step").value = number;
    find("learn-step").setAttribute("aria-valuetext", `step ${step}`);
    find("learn-step-value").textContent = step;
    const top = strongest(reading);
    find("learn-verdict").replaceChildren(`After ${step} steps most attention (${percent(reading.attention[top])}) is on `, bold(`“${reading.words[top]}”`),
      "; it says ", bold(verdict(reading)), `. κ = ${fixed(data.curve.kappa[number])}, ν = ${fixed(data.curve.nu[number])}.`);
    drawPlane(find("learn-picture"), reading, { box: SQUARE });
    numbers("learn", reading);
    drawAlignment(find("learn-path"), data.curve, number, paths);
  }

  // What the model makes of the sentence at this place of the page, in one line that stays in sight.
  function strip(reading, when) {
    const line = find("strip-line");
    line.replaceChildren(...pieces(reading));
    find("strip-said").textContent = `${when}${reading.label} ${signed(reading.logit)}`;
    line.scrollLeft = line.children[strongest(reading)].offsetLeft - line.offsetLeft - line.clientWidth / 2; // on a phone
  }

  return { play, oneWord, where, what, breakIt, learned, strip };
}

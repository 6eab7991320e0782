"use strict";
// Views of pretrained models, computed beforehand: attention and coordinates of a sentence as a map of
// layers and tokens, and two curves over layers. The data is the JSON of studies/pages/views.py.

(function () {
  const source = document.getElementById("views-data");
  if (!source) return;
  const find = (id) => document.getElementById("views-" + id);
  const ROLES = ["neutral", "informative", "distractor", "special"]; // as in studies/pages/views.py
  const NAMES = { informative: "informative word", distractor: "distractor", neutral: "neutral word", special: "special token" };
  const QUANTITIES = { attention: "attention", k: "coordinate along k̂", v: "coordinate along v̂" };
  const SIGNED = 1.5; // the ends of the scale of coordinates
  const models = JSON.parse(source.textContent).map(unpacked);

  // ---- the data

  function bytesOf(text) {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  }

  // A model with its arrays decoded; each sentence knows its first token's row.
  function unpacked(model) {
    const coordinates = (text) => {
      const view = new DataView(bytesOf(text).buffer);
      return Float64Array.from({ length: view.byteLength / 2 }, (_, i) => view.getInt16(2 * i, true) * model.step);
    };
    let row = 0;
    const sentences = model.sentences.map((sentence) => {
      const first = row;
      row += sentence.tokens.length;
      return { ...sentence, first, roles: sentence.roles.map((role) => ROLES[role]) };
    });
    return { ...model, sentences, attention: bytesOf(model.attention), k: coordinates(model.k), v: coordinates(model.v) };
  }

  // The sentence to begin with: of held-out structure or words, with the informative word inside.
  const sentences = models[0].sentences;
  const FIRST = Math.max(0, sentences.findIndex((one) => one.split !== sentences[0].split && one.roles.lastIndexOf("informative") < one.tokens.length - 2));
  const start = { view: models[0].key, sentence: FIRST, show: "attention", head: "mean" };
  const state = { ...start };
  let chosen = null; // the cell that was chosen: {layer, token}; null for the strongest of the informative word

  const model = () => models.find((one) => one.key === state.view);
  const sentence = () => model().sentences[state.sentence];
  const lowest = () => (state.show === "attention" ? 1 : 0);
  const size = () => ({ n: sentence().tokens.length, from: lowest(), to: model().layers });

  function heads(token, layer) {
    const { attention, heads: n, layers } = model();
    const at = ((sentence().first + token) * layers + layer - 1) * n;
    return Array.from(attention.subarray(at, at + n), (byte) => byte / 255);
  }

  function attentionOf(token, layer, head = state.head) {
    const all = heads(token, layer);
    if (head === "mean") return all.reduce((a, b) => a + b) / all.length;
    return head === "largest" ? Math.max(...all) : all[Number(head) - 1];
  }

  const coordinate = (name, token, layer) => model()[name][(sentence().first + token) * (model().layers + 1) + layer];
  const value = (token, layer) => (state.show === "attention" ? attentionOf(token, layer) : coordinate(state.show, token, layer));
  const text = (x) => (state.show === "attention" ? fixed(x) : signed(x));
  const scale = () => (state.show !== "attention" ? SIGNED : state.head === "mean" ? 0.4 : 1);
  const beyond = (x) => Math.abs(x) > scale() + 1e-9;

  const places = (role) => sentence().roles.flatMap((one, i) => (one === role ? [i] : []));
  const spelled = (role) => places(role).map((i) => sentence().tokens[i]).join(" ");
  const layerName = (layer) => (layer ? `layer ${layer}` : "layer 0, the embeddings");
  const headName = () => ({ mean: `mean over ${model().heads} heads`, largest: `largest over ${model().heads} heads` })[state.head] || `head ${state.head}`;

  // The word with the highest coordinate along k of a layer.
  function highest(layer) {
    const words = sentence().tokens.map((_, i) => i).filter((i) => sentence().roles[i] !== "special");
    return words.reduce((best, i) => (coordinate("k", i, layer) > coordinate("k", best, layer) ? i : best), words[0]);
  }

  function cell() {
    const { n, from, to } = size();
    if (chosen) return { layer: Math.min(to, Math.max(from, chosen.layer)), token: Math.min(n - 1, chosen.token) };
    const token = places("informative")[0];
    let layer = from;
    for (let l = from; l <= to; l++) if (Math.abs(value(token, l)) > Math.abs(value(token, layer))) layer = l;
    return { layer, token };
  }

  // ---- the map

  function map() {
    const { n, from, to } = size();
    const s = sentence();
    const rows = to - from + 1;
    const edge = { left: 46, right: 12, top: state.show === "attention" ? 24 : 6, bottom: 74 };
    const width = Math.min(46, Math.max(16, Math.floor((find("scroll").clientWidth - edge.left - edge.right) / n)));
    const height = rows > 12 ? 17 : 30;
    const x = (token) => edge.left + token * width;
    const y = (layer) => edge.top + (to - layer) * height;
    const svg = svgElement("svg", {
      id: "views-map", width: edge.left + n * width + edge.right, height: edge.top + rows * height + edge.bottom,
      role: "grid", "aria-label": `${title()} Arrow keys move between layers and tokens.`,
    });
    const now = cell();
    for (let layer = to; layer >= from; layer--) {
      const line = svgElement("g", { role: "row" });
      const dotted = state.show === "k" ? highest(layer) : null;
      for (let token = 0; token < n; token++) line.append(...square({ layer, token }, { x: x(token), y: y(layer), width, height }, now, dotted));
      svg.append(line);
    }
    const side = svgElement("g", { "aria-hidden": "true" });
    for (let layer = from; layer <= to; layer++) {
      if (rows <= 12 || layer === from || layer === to || layer % 5 === 0) {
        side.append(svgElement("text", { x: edge.left - 7, y: y(layer) + height / 2 + 4.5, "text-anchor": "end", class: "views-small" }, layer));
      }
    }
    const middle = edge.top + (rows * height) / 2;
    side.append(svgElement("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, "layer"));
    s.tokens.forEach((token, i) => {
      const [cx, cy] = [x(i) + width / 2 + 4, edge.top + rows * height + 14];
      const shown = token.length > 11 ? token.slice(0, 10) + "…" : token;
      side.append(svgElement("text", { x: cx, y: cy, "text-anchor": "end", transform: `rotate(${width < 20 ? -64 : -50} ${cx} ${cy})`, class: `views-word ${s.roles[i]}` }, shown));
    });
    const left = s.summary < n / 2;
    if (state.show === "attention") side.append(svgElement("text", {
      x: x(s.summary) + width / 2 + (left ? -5 : 5), y: edge.top - 8, "text-anchor": left ? "start" : "end", class: "views-small",
    }, left ? "▼ summary token" : "summary token ▼"));
    for (const role of ["distractor", "informative"]) {
      for (const [a, b] of runs(places(role))) {
        side.append(svgElement("rect", { x: x(a), y: edge.top, width: (b - a + 1) * width, height: rows * height, class: `views-frame ${role}` }));
      }
    }
    side.append(svgElement("rect", { id: "views-cursor", width, height, class: "views-cursor" }));
    svg.append(side);
    svg.place = { x, y };
    return svg;
  }

  // Neighbours in a list of numbers, as pairs of first and last.
  function runs(numbers) {
    const found = [];
    for (const i of numbers) {
      if (found.length && found.at(-1)[1] === i - 1) found.at(-1)[1] = i;
      else found.push([i, i]);
    }
    return found;
  }

  function square({ layer, token }, box, now, dotted) {
    const found = value(token, layer);
    const s = sentence();
    const { x, y, width, height } = box;
    const cellOf = svgElement("rect", {
      ...box, role: "gridcell", class: `views-cell views-${state.show}${found < 0 ? " low" : ""}`,
      "fill-opacity": Math.min(1, Math.abs(found) / scale()).toFixed(3),
      "data-token": token, "data-layer": layer, tabindex: token === now.token && layer === now.layer ? 0 : -1,
      "aria-label": `${s.tokens[token]}, ${NAMES[s.roles[token]]}, ${layerName(layer)}: ${text(found)}`,
    });
    const made = [svgElement("rect", { ...box, class: "views-paper" }), cellOf];
    if (beyond(found)) {
      made.push(svgElement("line", { x1: x + width / 2 - 4, x2: x + width / 2 + 4, y1: y + height / 2 + 4, y2: y + height / 2 - 4, class: "views-beyond" }));
    }
    if (token === dotted) {
      made.push(svgElement("circle", { cx: x + width / 2, cy: y + height / 2, r: 3.8, class: "views-mark" }));
    }
    return made;
  }

  function bar() {
    const [low, top] = [state.show === "attention" ? 0 : -scale(), scale()];
    const [left, width, steps] = [20, 240, 48];
    const at = linear(low, top, left, left + width);
    const svg = svgElement("svg", { width: 300, height: 40, "aria-hidden": "true" });
    for (let i = 0; i < steps; i++) {
      const x = low + ((top - low) * (i + 0.5)) / steps;
      svg.append(svgElement("rect", {
        x: at(low) + (width * i) / steps, y: 2, width: width / steps, height: 14,
        class: `views-${state.show}${x < 0 ? " low" : ""}`, "fill-opacity": Math.abs(x) / top,
      }));
    }
    svg.append(svgElement("rect", { x: left, y: 2, width, height: 14, class: "frame" }));
    const ticks = state.show === "attention" ? (top < 1 ? [0, 0.1, 0.2, 0.3, 0.4] : [0, 0.2, 0.4, 0.6, 0.8, 1]) : [-1.5, -1, 0, 1, 1.5];
    for (const tick of ticks) svg.append(svgElement("text", { x: at(tick), y: 32, "text-anchor": "middle", class: "views-small" }, fixed(tick, 1)));
    return svg;
  }

  // ---- the words around the map

  function title() {
    const s = sentence();
    const what = { attention: `attention of its summary token, “${s.tokens[s.summary]}”, ${headName()}`, k: "coordinate along k̂", v: "coordinate along v̂" }[state.show];
    return `${model().name} reads “${s.text}” (${s.label}); ${what}.`;
  }

  function detail({ layer, token }) {
    const s = sentence();
    const parts = [`“${s.tokens[token]}” (${NAMES[s.roles[token]]}), ${layerName(layer)}: `];
    parts.push(htmlElement("strong", {}, `${QUANTITIES[state.show]} ${text(value(token, layer))}`));
    if (state.show === "attention") parts.push(` (${headName()})`);
    if (layer) {
      const all = heads(token, layer);
      const [mean, most] = [attentionOf(token, layer, "mean"), Math.max(...all)];
      if (state.show !== "attention") parts.push(`; attention ${fixed(mean)}`);
      else if (state.head !== "mean") parts.push(`; mean over heads ${fixed(mean)}`);
      parts.push(`, most in head ${all.indexOf(most) + 1}: ${fixed(most)}`);
    }
    for (const name of ["k", "v"]) if (name !== state.show) parts.push(`; along ${name}̂ ${signed(coordinate(name, token, layer))}`);
    find("detail").replaceChildren(...parts, ".");
  }

  function legend() {
    const { n, from, to } = size();
    const said = [`Solid frame: the informative word, “${spelled("informative")}”`];
    said[0] += places("distractor").length ? `; dashed frame: a distractor, “${spelled("distractor")}”.` : "; this sentence has no distractor.";
    if (state.show === "attention") {
      said.push("Each row of one head sums to 1 over the tokens.");
    } else {
      said.push(state.show === "k" ? "Blue: above 0; grey: below 0." : "Orange: positive; purple: negative.");
    }
    if (state.show === "k") {
      let hits = 0;
      for (let l = from; l <= to; l++) if (sentence().roles[highest(l)] === "informative") hits++;
      said.push(`Dot: the highest word of the layer, which is the informative one in ${hits} of ${to - from + 1} layers.`);
    }
    let [outside, farthest] = [0, 0];
    for (let l = from; l <= to; l++) {
      for (let i = 0; i < n; i++) {
        const found = value(i, l);
        if (beyond(found)) outside++;
        if (Math.abs(found) > Math.abs(farthest)) farthest = found;
      }
    }
    const end = `${state.show === "attention" ? "" : "±"}${scale()}`;
    if (outside) said.push(`Stroke: beyond the scale, in the colour of its end, ${end} (${outside} of ${n * (to - from + 1)} values; the farthest is ${text(farthest)}).`);
    find("legend").textContent = said.join(" ");
  }

  function table() {
    const { from, to } = size();
    if (!find("details").open) return find("table").replaceChildren();
    const head = htmlElement("tr", {}, htmlElement("th", { scope: "col" }, "layer"));
    for (const token of sentence().tokens) head.append(htmlElement("th", { scope: "col", class: "number" }, token));
    const lines = [];
    for (let layer = to; layer >= from; layer--) {
      const line = htmlElement("tr", {}, htmlElement("th", { scope: "row" }, String(layer)));
      sentence().tokens.forEach((_, i) => line.append(htmlElement("td", { class: "number" }, text(value(i, layer)))));
      lines.push(line);
    }
    find("table").replaceChildren(htmlElement("caption", {}, title()), htmlElement("thead", {}, head), htmlElement("tbody", {}, ...lines));
  }

  // ---- the curves over layers

  const RANGES = { k: [-1, 1.6, [-1, 0, 1]], v: [-1.8, 1.8, [-1, 0, 1]] };

  function curves(name, layer) {
    const width = Math.min(430, Math.max(280, find("side").clientWidth || 320));
    const box = { left: 52, right: width - 96, top: 26, bottom: 158 };
    const last = model().layers;
    const [low, top, ticks] = RANGES[name];
    const [xs, ys] = [linear(0, last, box.left, box.right), linear(low, top, box.bottom, box.top)];
    const others = sentence().roles.flatMap((role, i) => (role === "neutral" || role === "distractor") && i > 0 ? [i] : []);
    const lines = [
      { key: name, label: "informative", tokens: places("informative") },
      { key: "distractor", label: "distractor", tokens: places("distractor") },
      { key: "others", label: "other words", tokens: others },
    ].filter((one) => one.tokens.length);
    const at = (tokens, l) => tokens.reduce((sum, i) => sum + coordinate(name, i, l), 0) / tokens.length;
    const ends = (tokens) => tokens.map((_, l) => l);
    const svg = svgElement("svg", { viewBox: `0 0 ${width} 206`, role: "img" });
    const xTicks = (last > 12 ? [0, 10, 20, 30].filter((l) => l <= last) : ends([...Array(last + 1)])).map((l) => [l, l]);
    svg.append(svgElement("text", { x: box.left, y: 16, class: "views-name" }, `Along ${name}̂`));
    svg.append(axes(box, xs, ys, { xTicks, yTicks: ticks.map((t) => [t, fixed(t, 0)]), xLabel: "layer", yLabel: "coordinate" }));
    for (const tick of ticks) svg.append(svgElement("line", { x1: box.left, x2: box.right, y1: ys(tick), y2: ys(tick), class: "views-zero" }));
    svg.append(svgElement("line", { x1: xs(layer), x2: xs(layer), y1: box.top, y2: box.bottom, class: "views-here" }));
    const said = [];
    for (const line of lines) {
      const points = [...Array(last + 1)].map((_, l) => [l, Math.max(low, Math.min(top, at(line.tokens, l)))]);
      svg.append(polyline(points, xs, ys, { class: `views-line ${line.key}` }));
      line.y = ys(points.at(-1)[1]);
      said.push(`${line.label} ${signed(at(line.tokens, layer))}`);
    }
    let above = -Infinity; // labels keep their distance, from top to bottom
    for (const line of [...lines].sort((a, b) => a.y - b.y)) {
      above = Math.max(line.y, above + 15);
      svg.append(svgElement("text", { x: box.right + 7, y: above + 4, class: `views-label-${line.key}` }, line.label));
    }
    svg.setAttribute("aria-label", `Coordinates along ${name}̂ by layer; at layer ${layer}: ${said.join(", ")}.`);
    return svg;
  }

  // ---- drawing

  let waiting = false;
  function draw() {
    waiting = false;
    fillSelects();
    find("title").replaceChildren(title());
    find("bar").replaceChildren(bar());
    const focused = find("scroll").contains(document.activeElement);
    const scrolled = find("scroll").scrollLeft;
    find("scroll").replaceChildren(map());
    find("scroll").scrollLeft = scrolled;
    legend();
    table();
    point(cell());
    const box = find("scroll"); // where not all fits, the cell that is told about is in sight
    if (!chosen) box.scrollLeft = Math.max(0, find("map").place.x(cell().token) - 0.7 * box.clientWidth);
    if (focused) box.querySelector('[tabindex="0"]').focus({ preventScroll: true });
  }

  // Several changes at a time, such as those of a hash, are drawn once.
  function redraw() {
    if (!waiting) queueMicrotask(draw);
    waiting = true;
  }

  // Show a cell: its frame, its values, and its layer in the curves.
  let curvesAt = "";
  function point({ layer, token }) {
    const place = find("map").place;
    find("cursor").setAttribute("x", place.x(token));
    find("cursor").setAttribute("y", place.y(layer));
    detail({ layer, token });
    const key = [state.view, state.sentence, layer, find("side").clientWidth].join();
    if (key !== curvesAt) find("side").replaceChildren(curves("k", layer), curves("v", layer));
    curvesAt = key;
  }

  const option = (value, label) => htmlElement("option", { value }, label);

  function fillSelects() {
    fill("view", models.map((one) => option(one.key, one.name)));
    fill("show", [option("attention", "attention of the summary token"), option("k", "along k̂: where to look"), option("v", "along v̂: what to read")]);
    const numbered = [...Array(model().heads)].map((_, i) => option(i + 1, `head ${i + 1} of every layer`));
    fill("head", [option("mean", "mean over heads"), option("largest", "largest over heads"), ...numbered]);
    find("head").disabled = state.show !== "attention";
    const groups = new Map();
    model().sentences.forEach((one, i) => {
      if (!groups.has(one.split)) groups.set(one.split, htmlElement("optgroup", { label: one.split }));
      groups.get(one.split).append(option(i, one.text));
    });
    fill("sentence", [...groups.values()]);
  }

  function fill(name, options) {
    find(name).replaceChildren(...options);
    find(name).value = String(state[name]);
  }

  // ---- what the reader sets

  const VALID = {
    view: (x) => models.some((one) => one.key === x),
    show: (x) => Object.hasOwn(QUANTITIES, x),
    head: (x) => x === "mean" || x === "largest" || (/^[1-9]\d*$/.test(x) && Number(x) <= model().heads),
    sentence: (x) => /^\d+$/.test(x) && Number(x) < model().sentences.length,
  };

  function set(name, x) {
    const asked = VALID[name](x) ? x : start[name];
    const made = name === "sentence" ? Number(asked) : asked;
    if (made === state[name]) return;
    state[name] = made;
    if (name !== "show" && name !== "head") chosen = null;
    if (!VALID.head(state.head)) state.head = start.head;
    if (!VALID.sentence(String(state.sentence))) state.sentence = start.sentence;
    redraw();
  }

  // The model comes first: which heads there are depends on it.
  for (const name of ["view", "sentence", "show", "head"]) {
    pageState.add({ [name]: { get: () => (state[name] === start[name] ? "" : String(state[name])), set: (x) => set(name, x) } });
    find(name).addEventListener("change", (event) => { set(name, event.target.value); pageState.changed(); });
  }

  function cellAt(event) {
    const { token, layer } = event.target.dataset || {};
    return token === undefined ? null : { token: Number(token), layer: Number(layer) };
  }

  function choose(to) {
    chosen = to;
    find("map").querySelector('[tabindex="0"]').setAttribute("tabindex", -1);
    const now = find("map").querySelector(`[data-token="${to.token}"][data-layer="${to.layer}"]`);
    now.setAttribute("tabindex", 0);
    point(to);
    return now;
  }

  const scroll = find("scroll");
  scroll.addEventListener("click", (event) => { if (cellAt(event)) choose(cellAt(event)).focus({ preventScroll: true }); });
  scroll.addEventListener("focusin", (event) => { if (cellAt(event)) choose(cellAt(event)); });
  scroll.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse" && cellAt(event)) point(cellAt(event)); });
  scroll.addEventListener("pointerleave", () => point(cell()));
  scroll.addEventListener("keydown", (event) => {
    const { n, from, to } = size();
    const { layer, token } = cell();
    const target = {
      ArrowRight: { layer, token: Math.min(n - 1, token + 1) }, ArrowLeft: { layer, token: Math.max(0, token - 1) },
      ArrowUp: { layer: Math.min(to, layer + 1), token }, ArrowDown: { layer: Math.max(from, layer - 1), token },
      Home: { layer, token: 0 }, End: { layer, token: n - 1 }, PageUp: { layer: to, token }, PageDown: { layer: from, token },
    }[event.key];
    if (!target || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    choose(target).focus();
  });
  find("details").addEventListener("toggle", table);

  find("panel").hidden = false;
  draw();
  let width = scroll.clientWidth;
  new ResizeObserver(() => {
    if (scroll.clientWidth !== width) redraw();
    width = scroll.clientWidth;
  }).observe(scroll);
})();

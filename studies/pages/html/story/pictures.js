"use strict";
// The pictures of the five steps: functions that draw a reading into an SVG.

const SQUARE = { left: 56, right: 404, top: 16, bottom: 330 };
const narrow = window.matchMedia("(max-width: 40rem)");
// On a phone pictures have fewer units, so that their text is as large as elsewhere.
const boxOf = (bottom) => ({ left: 56, right: narrow.matches ? 404 : 600, top: 16, bottom });

function frame(svg, box) {
  svg.setAttribute("viewBox", `0 0 ${box.right + 20} ${box.bottom + 50}`);
}

const kRange = [-0.6, 1.5];
const vRange = [-1.6, 1.6];
const within = (x, [low, high]) => Math.max(low, Math.min(high, x));
const ticks = (...values) => values.map((x) => [x, String(x).replace("-", "−")]);

// Labels of the first few points that have room beside or above them.
function labels(points, discs, box) {
  const group = svgElement("g", { class: "labels" });
  const taken = discs.map(({ x, y, r }) => [x - r, x + r, y - r, y + r]);
  const free = ([x0, x1, y0, y1]) => x0 > box.left && y1 < box.bottom
    && taken.every(([a0, a1, b0, b1]) => x1 < a0 || a1 < x0 || y1 < b0 || b1 < y0);
  let placed = 0;
  for (const { x, y, r, text, strong } of points) {
    const width = 7.4 * text.length;
    const spots = [[x + r + 4, y + 4], [x - r - 4 - width, y + 4], [x - width / 2, y - r - 5]]; // left end, base line
    if (x > (box.left + box.right) / 2) spots.unshift(spots.splice(1, 1)[0]); // to the left, where there is room
    const spot = spots.find(([left, base]) => left + width < box.right + 18 && free([left, left + width, base - 10, base + 2]));
    if (!spot || placed === 5) continue;
    const [left, base] = spot;
    taken.push([left, left + width, base - 10, base + 2]);
    placed += 1;
    group.append(svgElement("text", { x: left + width / 2, y: base, "text-anchor": "middle", class: strong ? "halo strong" : "halo" }, text));
  }
  return group;
}

const describe = (reading, i) => `${reading.words[i]}: attention ${reading.attention[i].toFixed(3)}, k ${fixed(reading.k[i])}, v ${fixed(reading.v[i])}`;

function disc({ x, y, r, i }, reading) {
  const made = svgElement("circle", {
    cx: x.toFixed(1), cy: y.toFixed(1), r: r.toFixed(1), class: "disc", "fill-opacity": (0.25 + 0.65 * reading.attention[i]).toFixed(2),
  });
  made.append(svgElement("title", {}, describe(reading, i)));
  return made;
}

// Where each token is drawn, its name, and an arrow if it lies beyond the edge.
function placesOf(reading, xs, ys, values) {
  return reading.words.map((word, i) => {
    const [k, value, range] = [reading.k[i], values[i], ys.range];
    const beyond = k > kRange[1] ? " →" : k < kRange[0] ? " ←" : value > range[1] ? " ↑" : value < range[0] ? " ↓" : "";
    const short = word.length > 14 ? `${word.slice(0, 13)}…` : word;
    return {
      x: xs(within(k, kRange)), y: ys.at(within(value, range)), r: 4 + 12 * Math.sqrt(reading.attention[i]),
      text: short + beyond, beyond, strong: i === strongest(reading), i,
    };
  });
}

// Attention against k.
function drawWhere(svg, reading) {
  const box = boxOf(240);
  frame(svg, box);
  const xs = linear(...kRange, box.left, box.right);
  const at = linear(-0.03, 1.06, box.bottom, box.top);
  const parts = [axes(box, xs, at, {
    xTicks: ticks(-0.5, 0, 0.5, 1, 1.5), yTicks: ticks(0, 0.5, 1), xLabel: "coordinate along k̂", yLabel: "attention",
  })];
  const places = placesOf(reading, xs, { at, range: [0, 1] }, reading.attention);
  parts.push(...places.map((place) => disc(place, reading)));
  const named = places.filter(({ i }) => reading.attention[i] > 0.05 || reading.k[i] > 0.1);
  parts.push(labels(named.sort((a, b) => b.r - a.r || b.x - a.x), places, box));
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", `Attention of each token against its coordinate along k; most is on ${describe(reading, strongest(reading))}`);
}

// The plane of k and v. before: another reading of the same tokens, shown as rings with a line to the discs.
function drawPlane(svg, reading, { box = boxOf(330), before = null } = {}) {
  frame(svg, box);
  const xs = linear(...kRange, box.left, box.right);
  const at = linear(...vRange, box.bottom, box.top);
  const parts = [axes(box, xs, at, {
    xTicks: ticks(-0.5, 0, 0.5, 1, 1.5), yTicks: ticks(-1.5, -1, 0, 1, 1.5), xLabel: "k̂: where to look", yLabel: "v̂: what it says",
  })];
  const level = (ends, name) => svgElement("line", { ...ends, class: `level ${name}` });
  parts.push(...[-1, 1].map((v) => level({ x1: box.left, x2: box.right, y1: at(v), y2: at(v) }, "v")));
  parts.push(...[0, 1].map((k) => level({ x1: xs(k), x2: xs(k), y1: box.top, y2: box.bottom }, "k")));
  const ys = { at, range: vRange };
  const places = placesOf(reading, xs, ys, reading.v);
  const old = before && placesOf(before, xs, ys, before.v);
  const moved = ({ i }) => before && (before.k[i] !== reading.k[i] || before.v[i] !== reading.v[i]);
  for (const place of places.filter(moved)) {
    const { x, y } = old[place.i];
    parts.push(svgElement("line", { x1: x, y1: y, x2: place.x, y2: place.y, class: "move" }));
    parts.push(svgElement("circle", { cx: x, cy: y, r: 6, class: "ring" }));
  }
  parts.push(...places.map((place) => disc(place, reading)));
  const weight = (place) => (moved(place) ? 4 : 0) + reading.attention[place.i] + Math.abs(reading.v[place.i]) / 4;
  const named = places.filter((p) => moved(p) || reading.attention[p.i] > 0.1 || reading.k[p.i] > 0.4 || Math.abs(reading.v[p.i]) > 0.6);
  parts.push(labels(named.sort((a, b) => weight(b) - weight(a)), places, box));
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", `Tokens in the plane of k and v; most attention is on ${describe(reading, strongest(reading))}`);
}

// The square of kappa and nu: the Transformer's path with its present place, and those of the theory.
function drawAlignment(svg, curve, number, paths) {
  const xs = linear(-0.3, 1.08, SQUARE.left, SQUARE.right);
  const ys = linear(-0.3, 1.08, SQUARE.bottom, SQUARE.top);
  const parts = [axes(SQUARE, xs, ys, {
    xTicks: ticks(0, 0.5, 1), yTicks: ticks(0, 0.5, 1), xLabel: "κ: alignment of k", yLabel: "ν: alignment of v",
  })];
  for (const [name, rows] of Object.entries(paths ?? {})) parts.push(polyline(rows, xs, ys, { class: `path ${name}` }));
  const rows = curve.kappa.map((kappa, i) => [kappa, curve.nu[i]]);
  parts.push(polyline(rows, xs, ys, { class: "path own" }));
  for (const [x, y] of rows) parts.push(svgElement("circle", { cx: xs(x), cy: ys(y), r: 2.5, class: "stop" }));
  const [kappa, nu] = rows[number];
  parts.push(svgElement("circle", { cx: xs(kappa), cy: ys(nu), r: 8, class: "here" }));
  const legend = [["own", "this Transformer"], ["erf", "theory, erf"], ["softmax", "theory, softmax"]];
  legend.filter(([name]) => name === "own" || paths?.[name]).forEach(([name, text], i) => {
    const y = SQUARE.bottom - 56 + 18 * i;
    parts.push(svgElement("line", { x1: 250, x2: 276, y1: y, y2: y, class: `path ${name}` }));
    parts.push(svgElement("text", { x: 284, y: y + 4, class: "halo" }, text));
  });
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", `At step ${curve.step[number]} k is aligned by ${fixed(kappa)} and v by ${fixed(nu)}`);
}

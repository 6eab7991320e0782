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

// Labels for the tokens that stand out; each is moved up until it is clear of those before.
function labels(points, box) {
  const group = svgElement("g", { class: "labels" });
  const placed = [];
  for (const { x, y, text, strong, gap } of points) {
    const end = x > (box.left + box.right) / 2;
    const width = 7.2 * text.length;
    const left = end ? x - gap - width : x + gap;
    let base = y + 4;
    while (placed.some((p) => Math.abs(p.base - base) < 14 && left < p.left + p.width && p.left < left + width)) base -= 14;
    placed.push({ base, left, width });
    group.append(svgElement("text", {
      x: end ? x - gap : x + gap, y: base, "text-anchor": end ? "end" : "start", class: strong ? "halo strong" : "halo",
    }, text));
  }
  return group;
}

const describe = (reading, i) => `${reading.words[i]}: attention ${reading.attention[i].toFixed(3)}, k ${fixed(reading.k[i])}, v ${fixed(reading.v[i])}`;

const radius = (attention) => 4 + 12 * Math.sqrt(attention);

function disc(x, y, attention, title) {
  const made = svgElement("circle", {
    cx: x.toFixed(1), cy: y.toFixed(1), r: radius(attention).toFixed(1), class: "disc",
    "fill-opacity": (0.25 + 0.65 * attention).toFixed(2),
  });
  made.append(svgElement("title", {}, title));
  return made;
}

// Attention against k.
function drawWhere(svg, reading) {
  const box = boxOf(240);
  frame(svg, box);
  const xs = linear(...kRange, box.left, box.right);
  const ys = linear(-0.03, 1.06, box.bottom, box.top);
  const parts = [axes(box, xs, ys, {
    xTicks: ticks(-0.5, 0, 0.5, 1, 1.5), yTicks: ticks(0, 0.5, 1), xLabel: "coordinate along k̂", yLabel: "attention",
  })];
  const points = reading.words.map((word, i) => ({
    x: xs(within(reading.k[i], kRange)), y: ys(reading.attention[i]), text: word, gap: radius(reading.attention[i]) + 4,
    strong: i === strongest(reading), shown: reading.attention[i] > 0.05 || reading.k[i] > 0.15, i,
  }));
  for (const { x, y, i } of points) parts.push(disc(x, y, reading.attention[i], describe(reading, i)));
  parts.push(labels(points.filter((p) => p.shown).sort((a, b) => b.y - a.y), box));
  svg.replaceChildren(...parts);
  svg.setAttribute("aria-label", `Attention of each token against its coordinate along k; most is on ${describe(reading, strongest(reading))}`);
}

// The plane of k and v. before: another reading of the same tokens, shown as rings with a line to the discs.
function drawPlane(svg, reading, { box = boxOf(330), before = null } = {}) {
  frame(svg, box);
  const xs = linear(...kRange, box.left, box.right);
  const ys = linear(...vRange, box.bottom, box.top);
  const at = (each, i) => [xs(within(each.k[i], kRange)), ys(within(each.v[i], vRange))];
  const parts = [axes(box, xs, ys, {
    xTicks: ticks(-0.5, 0, 0.5, 1, 1.5), yTicks: ticks(-1.5, -1, 0, 1, 1.5), xLabel: "k̂: where to look", yLabel: "v̂: what it says",
  })];
  for (const value of [-1, 1]) {
    parts.push(svgElement("line", { x1: box.left, x2: box.right, y1: ys(value), y2: ys(value), class: "level v" }));
  }
  for (const value of [0, 1]) {
    parts.push(svgElement("line", { x1: xs(value), x2: xs(value), y1: box.top, y2: box.bottom, class: "level k" }));
  }
  const points = [];
  reading.words.forEach((word, i) => {
    const [x, y] = at(reading, i);
    const moved = before && (before.k[i] !== reading.k[i] || before.v[i] !== reading.v[i]);
    if (moved) {
      const [x0, y0] = at(before, i);
      parts.push(svgElement("line", { x1: x0, y1: y0, x2: x, y2: y, class: "move" }));
      parts.push(svgElement("circle", { cx: x0, cy: y0, r: 6, class: "ring" }));
    }
    parts.push(disc(x, y, reading.attention[i], describe(reading, i)));
    const far = reading.k[i] > 0.4 || Math.abs(reading.v[i]) > 0.6;
    if (moved || reading.attention[i] > 0.1 || far) {
      points.push({ x, y, text: word, strong: i === strongest(reading), gap: radius(reading.attention[i]) + 4 });
    }
  });
  parts.push(labels(points, box));
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
  const ends = [];
  for (const [name, rows] of Object.entries(paths ?? {})) {
    parts.push(polyline(rows, xs, ys, { class: `path ${name}` }));
    const [kappa, nu] = rows[Math.floor(rows.length * (name === "erf" ? 0.5 : 0.25))];
    ends.push([name, kappa, nu]);
  }
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

"use strict";
// The curves of the views: mean coordinates of the informative word and of others, by layer.

const VIEWS_RANGES = { k: [-1, 1.6], v: [-1.8, 1.8] };
const VIEWS_TICKS = [-1, 0, 1];

// The lines along k or v: a mean over tokens for each layer, from the embeddings on.
function viewsCurves(reading, name) {
  const layers = Array.from({ length: reading.model.layers + 1 }, (_, layer) => layer);
  return [
    { key: name, label: "informative", tokens: reading.tokensOf("informative") },
    { key: "distractor", label: "distractor", tokens: reading.tokensOf("distractor") },
    { key: "others", label: "other words", tokens: reading.otherTokens },
  ].filter(({ tokens }) => tokens.length).map((line) => ({
    ...line,
    values: layers.map((layer) => line.tokens.reduce((sum, i) => sum + reading.coordinate(name, i, layer), 0) / line.tokens.length),
  }));
}

// Labels at the ends of lines, with a distance between them, from top to bottom.
function viewsCurveLabels(ends, x) {
  let above = -Infinity;
  return [...ends].sort((a, b) => a.y - b.y).map(({ key, label, y }) => {
    above = Math.max(y, above + 15);
    return svgElement("text", { x, y: above + 4, class: `views-label-${key}` }, label);
  });
}

// The picture along k or v, with a line at one layer.
function drawViewsCurves(reading, name, layer, available) {
  const width = Math.min(430, Math.max(280, available || 320));
  const box = { left: 52, right: width - 96, top: 26, bottom: 158 };
  const { layers: last } = reading.model;
  const [low, high] = VIEWS_RANGES[name];
  const [xs, ys] = [linear(0, last, box.left, box.right), linear(low, high, box.bottom, box.top)];
  const xTicks = Array.from({ length: last + 1 }, (_, l) => [l, l]).filter(([l]) => last <= 12 || l % 10 === 0);
  const yTicks = VIEWS_TICKS.map((tick) => [tick, fixed(tick, 0)]);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} 206`, role: "img" });
  svg.append(svgElement("text", { x: box.left, y: 16, class: "views-name" }, `Along ${name}̂`));
  svg.append(axes(box, xs, ys, { xTicks, yTicks, xLabel: "layer", yLabel: "coordinate" }));
  for (const tick of VIEWS_TICKS) {
    svg.append(svgElement("line", { x1: box.left, x2: box.right, y1: ys(tick), y2: ys(tick), class: "views-zero" }));
  }
  svg.append(svgElement("line", { x1: xs(layer), x2: xs(layer), y1: box.top, y2: box.bottom, class: "views-here" }));
  const lines = viewsCurves(reading, name);
  const inside = (x) => Math.max(low, Math.min(high, x));
  for (const { key, values } of lines) {
    svg.append(polyline(values.map((x, l) => [l, inside(x)]), xs, ys, { class: `views-line ${key}` }));
  }
  const ends = lines.map((line) => ({ ...line, y: ys(inside(line.values.at(-1))) }));
  svg.append(...viewsCurveLabels(ends, box.right + 7));
  const said = lines.map(({ label, values }) => `${label} ${signed(values[layer])}`).join(", ");
  svg.setAttribute("aria-label", `Coordinates along ${name}̂ by layer; at layer ${layer}: ${said}.`);
  return svg;
}

"use strict";
// The heat map of the views: a row per layer, a column per token, and the bar of its scale.

// Neighbours in a list of numbers, as pairs of first and last.
function viewsRuns(numbers) {
  const runs = [];
  for (const i of numbers) {
    if (runs.length && runs.at(-1)[1] === i - 1) runs.at(-1)[1] = i;
    else runs.push([i, i]);
  }
  return runs;
}

// Where the cells are: x and y of a token and a layer, in pixels, of a map so wide at most.
function viewsGrid({ n, from, to, isAttention }, available) {
  const edge = { left: 46, right: 12, top: isAttention ? 24 : 6, bottom: 74 };
  const rows = to - from + 1;
  const width = Math.min(46, Math.max(16, Math.floor((available - edge.left - edge.right) / n)));
  const height = rows > 12 ? 17 : 30;
  return {
    ...edge, rows, width, height, bottom: edge.top + rows * height,
    size: { width: edge.left + n * width + edge.right, height: edge.top + rows * height + edge.bottom },
    x: (token) => edge.left + token * width,
    y: (layer) => edge.top + (to - layer) * height,
  };
}

// The class and opacity that show a value.
function viewsShade({ show, scale }, x) {
  return { class: `views-${show}${x < 0 ? " low" : ""}`, "fill-opacity": Math.min(1, Math.abs(x) / scale).toFixed(3) };
}

// The elements of one cell; the one that Tab stops at has the focus.
function viewsCell(reading, { layer, token }, { x, y, width, height }, { isStop, hasDot }) {
  const value = reading.value(token, layer);
  const [box, shade] = [{ x: x(token), y: y(layer), width, height }, viewsShade(reading, value)];
  const [word, role, place] = viewsCellName(reading, { layer, token });
  const [cx, cy] = [box.x + width / 2, box.y + height / 2];
  const parts = [
    svgElement("rect", { ...box, class: "views-paper" }),
    svgElement("rect", {
      ...box, ...shade, class: `views-cell ${shade.class}`, role: "gridcell", tabindex: isStop ? 0 : -1,
      "data-token": token, "data-layer": layer, "aria-label": `${word}, ${role}, ${place}: ${viewsNumber(reading, value)}`,
    }),
  ];
  if (reading.isBeyond(value)) parts.push(svgElement("line", { x1: cx - 4, x2: cx + 4, y1: cy + 4, y2: cy - 4, class: "views-beyond" }));
  if (hasDot) parts.push(svgElement("circle", { cx, cy, r: 3.8, class: "views-mark" }));
  return parts;
}

// The numbers of the layers and the name of their axis.
function viewsLayerLabels({ layers, from, to }, { left, top, bottom, rows, y, height }) {
  const shown = layers.filter((layer) => rows <= 12 || layer === from || layer === to || layer % 5 === 0);
  const middle = (top + bottom) / 2;
  return [
    ...shown.map((layer) => svgElement("text", { x: left - 7, y: y(layer) + height / 2 + 4.5, "text-anchor": "end", class: "views-small" }, layer)),
    svgElement("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, "layer"),
  ];
}

// The tokens below the map, and above it the mark of the summary token, whose attention is shown.
function viewsTokenLabels({ sentence, n, isAttention }, { x, width, top, bottom }) {
  const labels = sentence.tokens.map((token, i) => {
    const [cx, cy] = [x(i) + width / 2 + 4, bottom + 14];
    const text = token.length > 11 ? token.slice(0, 10) + "…" : token;
    const transform = `rotate(${width < 20 ? -64 : -50} ${cx} ${cy})`;
    return svgElement("text", { x: cx, y: cy, "text-anchor": "end", transform, class: `views-word ${sentence.roles[i]}` }, text);
  });
  if (isAttention) {
    const isLeft = sentence.summary < n / 2;
    const place = { x: x(sentence.summary) + width / 2 + (isLeft ? -5 : 5), y: top - 8, "text-anchor": isLeft ? "start" : "end" };
    labels.push(svgElement("text", { ...place, class: "views-small" }, isLeft ? "▼ summary token" : "summary token ▼"));
  }
  return labels;
}

function viewsFrames(reading, { x, top, width, height, rows }) {
  return ["distractor", "informative"].flatMap((role) => viewsRuns(reading.tokensOf(role)).map(([first, last]) => svgElement("rect", {
    x: x(first), y: top, width: (last - first + 1) * width, height: rows * height, class: `views-frame ${role}`,
  })));
}

// The map as an element, the cursor in it, and the places of its cells.
function drawViewsMap(reading, available, stop) {
  const grid = viewsGrid(reading, available);
  const label = `${viewsTitle(reading)} Arrow keys move between layers and tokens.`;
  const svg = svgElement("svg", { id: "views-map", ...grid.size, role: "grid", "aria-label": label });
  for (const layer of [...reading.layers].reverse()) {
    const row = svgElement("g", { role: "row" });
    const dotted = reading.show === "k" ? reading.highest(layer) : null;
    for (let token = 0; token < reading.n; token++) {
      const marks = { isStop: token === stop.token && layer === stop.layer, hasDot: token === dotted };
      row.append(...viewsCell(reading, { layer, token }, grid, marks));
    }
    svg.append(row);
  }
  const cursor = svgElement("rect", { id: "views-cursor", width: grid.width, height: grid.height, class: "views-cursor" });
  const side = svgElement("g", { "aria-hidden": "true" });
  side.append(...viewsLayerLabels(reading, grid), ...viewsTokenLabels(reading, grid), ...viewsFrames(reading, grid), cursor);
  svg.append(side);
  return { svg, cursor, x: grid.x, y: grid.y };
}

function drawViewsBar(reading) {
  const { scale, isAttention } = reading;
  const [low, left, width, steps] = [isAttention ? 0 : -scale, 20, 240, 48];
  const box = { x: left, y: 2, width, height: 14 };
  const place = linear(low, scale, left, left + width);
  const svg = svgElement("svg", { width: 300, height: 40, "aria-hidden": "true" });
  svg.append(svgElement("rect", { ...box, class: "views-paper" }));
  const each = (scale - low) / steps;
  for (let i = 0; i < steps; i++) {
    const shade = viewsShade(reading, low + each * (i + 0.5));
    svg.append(svgElement("rect", { ...box, ...shade, x: place(low + each * i), width: width / steps }));
  }
  svg.append(svgElement("rect", { ...box, class: "frame" }));
  const ticks = !isAttention ? [-1.5, -1, 0, 1, 1.5] : scale < 1 ? [0, 0.1, 0.2, 0.3, 0.4] : [0, 0.2, 0.4, 0.6, 0.8, 1];
  for (const tick of ticks) svg.append(svgElement("text", { x: place(tick), y: 32, "text-anchor": "middle", class: "views-small" }, fixed(tick, 1)));
  return svg;
}

"use strict";
// Small parts of pictures that several sections share. Colours are classes: style.css has them for
// light and for dark pages.

function svgElement(name, attributes = {}, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function htmlElement(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// The map of [low, high] to [from, to].
const linear = (low, high, from, to) => (x) => from + ((x - low) / (high - low)) * (to - from);

// Numbers as people write them: with a minus sign, and with a plus where the sign matters.
const fixed = (x, digits = 2) => x.toFixed(digits).replace("-", "−");
const signed = (x, digits = 2) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);

// The frame, ticks and labels of a picture. A box says where it is: {left, right, top, bottom} in the
// units of the viewBox; ticks are [place, label] pairs, and xs, ys map values to places.
function axes(box, xs, ys, { xTicks, yTicks, xLabel, yLabel }) {
  const group = svgElement("g", { class: "axes" });
  group.append(svgElement("rect", {
    x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, class: "frame",
  }));
  for (const [at, label] of xTicks) {
    group.append(svgElement("line", { x1: xs(at), x2: xs(at), y1: box.bottom, y2: box.bottom + 5, class: "frame" }));
    group.append(svgElement("text", { x: xs(at), y: box.bottom + 19, "text-anchor": "middle" }, label));
  }
  for (const [at, label] of yTicks) {
    group.append(svgElement("line", { x1: box.left - 5, x2: box.left, y1: ys(at), y2: ys(at), class: "frame" }));
    group.append(svgElement("text", { x: box.left - 8, y: ys(at) + 4, "text-anchor": "end" }, label));
  }
  const middle = (box.top + box.bottom) / 2;
  group.append(svgElement("text", { x: (box.left + box.right) / 2, y: box.bottom + 40, "text-anchor": "middle" }, xLabel));
  group.append(svgElement("text", {
    x: box.left - 40, y: middle, "text-anchor": "middle", transform: `rotate(-90 ${box.left - 40} ${middle})`,
  }, yLabel));
  return group;
}

// A line through [x, y] points, which are maps' arguments.
function polyline(points, xs, ys, attributes) {
  const places = points.map(([x, y]) => `${xs(x).toFixed(2)},${ys(y).toFixed(2)}`);
  return svgElement("polyline", { points: places.join(" "), fill: "none", ...attributes });
}


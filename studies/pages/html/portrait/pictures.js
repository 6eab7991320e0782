"use strict";
// The three pictures of the phase portrait: the (kappa, nu) square, the (theta, eta) square, and the
// risk against time. Each is made once; a draw changes the attributes of what is there.

const portraitPictures = (function () {
  const { short, pair, tenths } = portraitNumbers;
  const BOX = { left: 52, right: 394, top: 24, bottom: 366 };
  const toX = linear(-1.06, 1.06, BOX.left, BOX.right);
  const toY = linear(-1.06, 1.06, BOX.bottom, BOX.top);
  const TICKS = [-1, -0.5, 0, 0.5, 1].map((x) => [x, String(x).replace("-", "−")]);
  const inSquare = (rows, i, j) => rows.map((row) => `${tenths(toX(row[i]))},${tenths(toY(row[j]))}`).join(" ");

  // Fixed points by kind: the shape says it, and the colour says it again.
  function marker(x, y, kind, title) {
    const attributes = { class: `fixed-point ${kind}` };
    const made = {
      minimum: () => svgElement("circle", { cx: x, cy: y, r: 8, ...attributes }),
      saddle: () => svgElement("rect", { x: x - 7, y: y - 7, width: 14, height: 14, ...attributes }),
      maximum: () => svgElement("path", { d: `M${x} ${y - 9}L${x + 9} ${y + 7}L${x - 9} ${y + 7}Z`, ...attributes }),
      edge: () => svgElement("rect", { x: toX(-1), y: y - 4, width: toX(1) - toX(-1), height: 8, ...attributes }),
    }[kind.split(" ")[0]]();
    made.append(svgElement("title", {}, title));
    return made;
  }

  // The reader's path: a line on a light or dark rim, so that it stands out of the shades.
  function ownLine() {
    const lines = ["own rim", "own"].map((name) => svgElement("polyline", { class: name, fill: "none" }));
    return { lines, set: (points) => lines.forEach((line) => line.setAttribute("points", points)) };
  }

  function ownStart() {
    const circle = svgElement("circle", { r: 6, class: "own start" });
    return { circle, set: (x, y) => { circle.setAttribute("cx", x.toFixed(1)); circle.setAttribute("cy", y.toFixed(1)); } };
  }

  function manifoldSquare(svg, count) {
    const field = portraitField.make(BOX, toX, toY);
    const lines = Array.from({ length: count }, () => svgElement("polyline", { class: "path", fill: "none" }));
    const starts = lines.map(() => svgElement("circle", { r: 3, class: "path start" }));
    const [own, start, markers] = [ownLine(), ownStart(), svgElement("g")];
    const frame = axes(BOX, toX, toY, { xTicks: TICKS, yTicks: TICKS, xLabel: "κ = k · k*", yLabel: "ν = v · v*" });
    svg.replaceChildren(...field.behind, frame, ...field.above, ...lines, ...starts, ...own.lines, markers, start.circle);
    function drawGate(gate, points, paths) {
      field.draw(gate);
      paths.forEach((rows, i) => {
        lines[i].setAttribute("points", inSquare(rows, 1, 2));
        starts[i].setAttribute("cx", toX(rows[0][1]).toFixed(1));
        starts[i].setAttribute("cy", toY(rows[0][2]).toFixed(1));
      });
      markers.replaceChildren(...points.map(({ kappa, nu, kind, edge }) => marker(
        toX(kappa), toY(nu), edge ? `edge ${kind}` : kind,
        `${kind} of the risk ${edge ? `along ν = ${nu}` : `at (${short(kappa)},\u00a0${nu})`}`.replace(/-/g, "−"),
      )));
    }
    function drawOwn(rows) {
      own.set(inSquare(rows, 1, 2));
      start.set(toX(rows[0][1]), toY(rows[0][2]));
    }
    // The place of a mouse on the picture as [kappa, nu].
    function placeOf(event) {
      const box = svg.getBoundingClientRect();
      const back = (at, from, to) => Math.max(-1, Math.min(1, -1.06 + (2.12 * (at - from)) / (to - from)));
      const scale = svg.viewBox.baseVal.width / box.width;
      const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      return [back(x, BOX.left, BOX.right), back(y, BOX.bottom, BOX.top)];
    }
    return { drawGate, drawOwn, placeOf };
  }

  function swappedSquare(svg) {
    const [own, start, markers] = [ownLine(), ownStart(), svgElement("g")];
    const frame = axes(BOX, toX, toY, { xTicks: TICKS, yTicks: TICKS, xLabel: "θ = v · k*", yLabel: "η = k · v*" });
    const ground = { x: BOX.left, y: BOX.top, width: BOX.right - BOX.left, height: BOX.bottom - BOX.top, class: "ground" };
    svg.replaceChildren(svgElement("rect", ground), frame, ...own.lines, markers, start.circle);
    const label = (x, y, text) => svgElement("text", { x, y, "text-anchor": "middle", class: "halo" }, text);
    function drawGate(others) {
      const parts = [marker(toX(0), toY(0), "minimum", "the aligned point, θ = η = 0"), label(toX(0), toY(0) + 25, "aligned")];
      for (const { overlaps: [, , theta, eta], swapped } of others) {
        const [x, y] = [toX(theta), toY(eta)];
        parts.push(marker(x, y, "minimum", `another minimum of the risk, (θ, η) = ${pair(theta, eta)}`));
        const inside = Math.max(BOX.left + 32, Math.min(BOX.right - 32, x));
        parts.push(label(inside, y + (eta > 0 ? 25 : -15), swapped ? "swapped" : "neither"));
      }
      markers.replaceChildren(...parts);
    }
    function drawOwn(rows) {
      own.set(inSquare(rows, 3, 4));
      start.set(toX(rows[0][3]), toY(rows[0][4]));
    }
    return { drawGate, drawOwn };
  }

  // Risks of the paths against time, on axes that hold them all: rows are [t, risk].
  function riskPicture(svg, count, end) {
    const first = 1e-2;
    const log = linear(Math.log10(first), Math.log10(end), BOX.left, BOX.right);
    const xs = (t) => log(Math.log10(Math.max(first, t)));
    const xTicks = [-2, -1, 0, 1, 2, 3].map((p) => [10 ** p, String(Number((10 ** p).toPrecision(1)))]);
    const frame = svgElement("g");
    const lines = Array.from({ length: count }, () => svgElement("polyline", { class: "path", fill: "none" }));
    const own = ownLine();
    const levels = ["zero", "oracle"].map((name) => svgElement("line", { x1: BOX.left, x2: BOX.right, class: `level ${name}` }));
    const labels = ["zero predictor", "oracle (k*, v*)"].map((text) =>
      svgElement("text", { x: BOX.right - 6, "text-anchor": "end", class: "halo" }, text));
    const ground = { x: BOX.left, y: BOX.top, width: BOX.right - BOX.left, height: BOX.bottom - BOX.top, class: "ground" };
    svg.replaceChildren(svgElement("rect", ground), frame, ...levels, ...lines, ...own.lines, ...labels);
    let shown = {};
    function drawGate(key, paths, zero, oracle, top) {
      const scale = linear(0, top, BOX.bottom, BOX.top);
      const ys = (risk) => Math.max(BOX.top, scale(risk));
      if (key === shown.key && top === shown.top) return ys;
      if (top !== shown.top) frame.replaceChildren(axes(BOX, xs, ys, { xTicks, ...risksOf(top) }));
      shown = { key, top };
      paths.forEach((rows, i) => lines[i].setAttribute("points", line(rows, ys)));
      [zero, oracle].forEach((level, i) => {
        levels[i].setAttribute("y1", ys(level));
        levels[i].setAttribute("y2", ys(level));
        // where the two lines are close, one label is above and one below
        const below = Math.abs(ys(zero) - ys(oracle)) < 20 && (i === 0) === (zero < oracle);
        labels[i].setAttribute("y", ys(level) + (below ? 15 : -5));
      });
      return ys;
    }
    const line = (rows, ys) => [...rows, [end, rows[rows.length - 1][1]]].map(([t, risk]) => `${tenths(xs(t))},${tenths(ys(risk))}`).join(" ");
    return { drawGate, drawOwn: (rows, ys) => own.set(line(rows, ys)) };
  }

  function risksOf(top) {
    const power = 10 ** Math.floor(Math.log10(top));
    const step = power * (top > 5 * power ? 2 : top > 2 * power ? 1 : 0.5);
    const unit = top < 1e4 ? 1 : power; // large numbers would not fit beside the axis
    const yTicks = [];
    for (let y = 0; y <= top; y += step) yTicks.push([y, short(y / unit)]);
    return { yTicks, xLabel: "time t = steps × step size (log scale)", yLabel: unit === 1 ? "excess risk" : `excess risk / ${short(unit)}` };
  }

  return { manifoldSquare, swappedSquare, riskPicture };
})();

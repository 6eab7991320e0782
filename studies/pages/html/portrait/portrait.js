"use strict";
// The interactive phase portrait: a switch and sliders in, two SVG pictures out. The mathematics is in
// flow.js, and in one file for each gate.

(function () {
  const square = document.getElementById("portrait-square");
  if (!square) return;
  const curve = document.getElementById("portrait-risk");
  const summary = document.getElementById("portrait-summary");
  const GATES = { erf: erfGate, softmax: softmaxGate };
  const COLOURS = { minimum: "#009E73", saddle: "#E69F00", maximum: "#D55E00" };
  const BLUE = "#0072B2";
  const PURPLE = "#CC79A7";
  const SIZE = 420;
  const EDGE = { left: 52, right: 26, top: 24, bottom: 54 };
  const END = 1000;

  const fixed = (x) => x.toFixed(2).replace("-", "−");

  // A number with so many digits, as 1.23×10⁵ where it is very large or very small.
  function short(x, digits = 3) {
    if (x === 0 || (Math.abs(x) < 1e4 && Math.abs(x) >= 1e-3)) return String(Number(x.toPrecision(digits))).replace("-", "−");
    const [factor, exponent] = x.toExponential(digits - 1).split("e");
    const raised = [...exponent.replace("+", "")].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${Number(factor)}×10${raised}`.replace("-", "−").replace(/^1×/, "");
  }

  // 1, 2, ..., 10, and ten lengths for each further decade up to a million.
  const LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  for (let decade = 10; decade < 1e6; decade *= 10) {
    LENGTHS.push(...[1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].map((x) => Math.round(x * decade)));
  }

  // Sliders hold positions; what they mean is here. lam, d and L have logarithmic scales.
  const SLIDERS = {
    lam: { value: (x) => 10 ** x, text: (v) => v.toPrecision(2) },
    gamma: { value: (x) => x, text: (v) => `${v.toFixed(2)} (γ² = ${(v * v).toFixed(2)})` },
    d: { value: (x) => Math.max(2, Math.round(10 ** x)), text: (v) => String(v) },
    L: { value: (x) => LENGTHS[x], text: (v) => v.toLocaleString("en") },
    kappa: { value: (x) => x, text: fixed },
    nu: { value: (x) => x, text: fixed },
  };

  function read() {
    const found = {};
    for (const [name, { value, text }] of Object.entries(SLIDERS)) {
      const input = document.getElementById("portrait-" + name);
      found[name] = value(Number(input.value));
      const shown = text(found[name]);
      document.getElementById("portrait-" + name + "-value").textContent = shown;
      input.setAttribute("aria-valuetext", shown);
    }
    found.gate = document.querySelector("[name=portrait-gate]:checked").value;
    return found;
  }

  function element(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function axes(xs, ys, xTicks, yTicks, xLabel, yLabel) {
    const group = element("g", {});
    const bottom = SIZE - EDGE.bottom;
    group.append(element("rect", {
      x: EDGE.left, y: EDGE.top, width: SIZE - EDGE.left - EDGE.right,
      height: bottom - EDGE.top, fill: "none", stroke: "#777",
    }));
    for (const [at, label] of xTicks) {
      group.append(element("line", { x1: xs(at), x2: xs(at), y1: bottom, y2: bottom + 5, stroke: "#777" }));
      group.append(element("text", { x: xs(at), y: bottom + 19, "text-anchor": "middle" }, label));
    }
    for (const [at, label] of yTicks) {
      group.append(element("line", { x1: EDGE.left - 5, x2: EDGE.left, y1: ys(at), y2: ys(at), stroke: "#777" }));
      group.append(element("text", { x: EDGE.left - 8, y: ys(at) + 4, "text-anchor": "end" }, label));
    }
    const middle = (EDGE.top + bottom) / 2;
    group.append(element("text", { x: (EDGE.left + SIZE - EDGE.right) / 2, y: SIZE - 8, "text-anchor": "middle" }, xLabel));
    group.append(element("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, yLabel));
    return group;
  }

  const linear = (low, high, from, to) => (x) => from + ((x - low) / (high - low)) * (to - from);
  const toX = linear(-1.06, 1.06, EDGE.left, SIZE - EDGE.right);
  const toY = linear(-1.06, 1.06, SIZE - EDGE.bottom, EDGE.top);

  function path(rows, xs, ys, attributes) {
    const points = rows.map(([x, y]) => `${xs(x).toFixed(2)},${ys(y).toFixed(2)}`);
    return element("polyline", { points: points.join(" "), fill: "none", ...attributes });
  }

  // Arrows of one length: direction only. Fainter where the flow is slower, on a log scale.
  function arrows(gate) {
    const group = element("g", { stroke: "#666", fill: "none", "stroke-width": 1.2 });
    const cells = [];
    for (let i = 0; i < 17; i++) {
      for (let j = 0; j < 17; j++) {
        const kappa = -0.96 + 0.12 * i;
        const nu = -0.96 + 0.12 * j;
        const [dk, dn] = velocity(gate, kappa, nu);
        cells.push({ kappa, nu, dk, dn, speed: Math.hypot(dk, dn) });
      }
    }
    const fastest = Math.max(...cells.map((cell) => cell.speed));
    for (const { kappa, nu, dk, dn, speed } of cells) {
      if (!(speed > 1e-12)) continue;
      const ux = dk / speed;
      const uy = -dn / speed;
      const x = toX(kappa);
      const y = toY(nu);
      const [tx, ty] = [x + 7 * ux, y + 7 * uy];
      const wing = (side) => `${(tx - 5 * ux - side * 3.5 * uy).toFixed(1)} ${(ty - 5 * uy + side * 3.5 * ux).toFixed(1)}`;
      group.append(element("path", {
        d: `M${(x - 7 * ux).toFixed(1)} ${(y - 7 * uy).toFixed(1)}L${tx.toFixed(1)} ${ty.toFixed(1)}M${wing(1)}L${tx.toFixed(1)} ${ty.toFixed(1)}L${wing(-1)}`,
        opacity: Math.max(0.2, 1 + Math.log10(speed / fastest) / 4).toFixed(2),
      }));
    }
    return group;
  }

  const pair = (kappa, nu) => `(${short(kappa)},\u00a0${nu})`.replace(/-/g, "−");

  function marker({ kappa, nu, kind, edge }) {
    const x = toX(kappa);
    const y = toY(nu);
    const style = { fill: COLOURS[kind], stroke: "#000", "stroke-width": 1.2 };
    const shape = edge ? element("rect", { x: toX(-1), y: y - 4, width: toX(1) - toX(-1), height: 8, ...style }) : {
      minimum: () => element("circle", { cx: x, cy: y, r: 8, ...style }),
      saddle: () => element("rect", { x: x - 7, y: y - 7, width: 14, height: 14, ...style }),
      maximum: () => element("path", { d: `M${x} ${y - 9}L${x + 9} ${y + 7}L${x - 9} ${y + 7}Z`, ...style }),
    }[kind]();
    shape.append(element("title", {}, `${kind} of the risk ${edge ? `along ν = ${nu}` : `at ${pair(kappa, nu)}`}`));
    return shape;
  }

  const STARTS = [];
  for (let i = 0; i < 12; i++) {
    const angle = (2 * Math.PI * (i + 0.5)) / 12;
    STARTS.push([0.45 * Math.cos(angle), 0.45 * Math.sin(angle)]);
  }

  function drawSquare(gate, points, paths, own) {
    const ticks = [-1, -0.5, 0, 0.5, 1].map((x) => [x, String(x).replace("-", "−")]);
    const parts = [axes(toX, toY, ticks, ticks, "κ = k · k*", "ν = v · v*"), arrows(gate)];
    for (const rows of [...paths, own]) {
      const mine = rows === own;
      const style = { stroke: mine ? PURPLE : BLUE, "stroke-width": mine ? 3.5 : 1.6 };
      parts.push(path(rows.map((row) => row.slice(1)), toX, toY, style));
      const [, kappa, nu] = rows[0];
      parts.push(element("circle", { cx: toX(kappa), cy: toY(nu), r: mine ? 6 : 3, fill: "#fff", stroke: style.stroke, "stroke-width": mine ? 3 : 1.5 }));
    }
    square.replaceChildren(...parts, ...points.map(marker));
  }

  function drawRisk(gate, zero, paths, own) {
    const first = 1e-2;
    const xs = (t) => linear(Math.log10(first), Math.log10(END), EDGE.left, SIZE - EDGE.right)(Math.log10(Math.max(first, t)));
    const risks = (rows) => rows.map(([t, kappa, nu]) => [t, gate.excessRisk(kappa, nu)]);
    const all = [...paths, own].map(risks);
    const oracle = gate.excessRisk(1, 1);
    const top = 1.08 * Math.max(zero, ...all.flat().map((row) => row[1]));
    const ys = linear(0, top, SIZE - EDGE.bottom, EDGE.top);
    const power = 10 ** Math.floor(Math.log10(top));
    const step = power * (top > 5 * power ? 2 : top > 2 * power ? 1 : 0.5);
    const yTicks = [];
    const unit = top < 1e4 ? 1 : power; // large numbers would not fit beside the axis
    for (let y = 0; y <= top; y += step) yTicks.push([y, short(y / unit)]);
    const xTicks = [-2, -1, 0, 1, 2, 3].map((p) => [10 ** p, String(Number((10 ** p).toPrecision(1)))]);
    const parts = [axes(xs, ys, xTicks, yTicks, "time t = steps × step size (log scale)", unit === 1 ? "excess risk" : `excess risk / ${short(unit)}`)];
    for (const [level, dash] of [[zero, "2 4"], [oracle, "8 4"]]) {
      parts.push(path([[first, level], [END, level]], xs, ys, { stroke: "#000", "stroke-dasharray": dash }));
    }
    all.forEach((rows, i) => {
      const mine = i === all.length - 1;
      const ended = [...rows, [END, rows[rows.length - 1][1]]];
      parts.push(path(ended, xs, ys, { stroke: mine ? PURPLE : BLUE, "stroke-width": mine ? 3.5 : 1.4 }));
    });
    // On top of the curves; where the two lines are close, one label above and one below.
    const close = Math.abs(ys(zero) - ys(oracle)) < 20;
    const label = (level, text, below) => parts.push(element("text", {
      x: SIZE - EDGE.right - 6, y: ys(level) + (below ? 15 : -5), "text-anchor": "end", class: "halo",
    }, text));
    label(zero, "zero predictor", close && zero < oracle);
    label(oracle, "oracle (k*, v*)", close && oracle <= zero);
    curve.replaceChildren(...parts);
    return oracle;
  }

  // The number of fixed points of each kind, in words.
  function counted(points) {
    const plural = { minimum: "minima", saddle: "saddles", maximum: "maxima" };
    const words = [];
    for (const [kind, many] of Object.entries(plural)) {
      const n = points.filter((point) => point.kind === kind).length;
      if (n) words.push(`${n} ${n === 1 ? kind : many}`);
    }
    return words.join(", ");
  }

  function where(points, kappa, nu) {
    const near = points.find((point) => Math.hypot(point.edge ? 0 : point.kappa - kappa, point.nu - nu) < 0.02);
    if (!near) return "at no fixed point yet: the gate is saturated there, or the flow has hardly begun";
    if (near.edge) return "on an edge where all points are at rest: one token has all the weight, whatever κ";
    return `near the ${near.kind} ${pair(near.kappa, near.nu)}`;
  }

  function describe(chosen, gate, points, own, oracle) {
    const [, kappa, nu] = own[own.length - 1];
    const zero = chosen.gamma ** 2;
    const weight = -gate.riskGradient(kappa, nu)[1] / (2 * zero); // R_nu = -2 g^2 E[weight] for every gate
    const place = (x, y) => `(${fixed(x)},\u00a0${fixed(y)})`;
    summary.textContent =
      `${chosen.gate}: from ${place(chosen.kappa, chosen.nu)} the flow is at ${place(kappa, nu)} at t = ${END}, ` +
      `${where(points, kappa, nu)}. The mean weight of the informative token is then ${short(weight)}, ` +
      `and the excess risk ${short(gate.excessRisk(kappa, nu))}; oracle ${short(oracle)}, ` +
      `zero predictor ${short(zero)}. λ√(d/2) = ${short(chosen.lam * Math.sqrt(chosen.d / 2))}.`;
    square.setAttribute(
      "aria-label",
      `Phase portrait of the ${chosen.gate} gate: arrows of the flow, twelve paths, your path, ` +
        `fixed points (${counted(points)})`,
    );
    curve.setAttribute(
      "aria-label",
      `Excess risk of the ${chosen.gate} gate along the same paths against time, with the zero predictor and the oracle`,
    );
  }

  function draw() {
    const chosen = read();
    const gate = GATES[chosen.gate]({ lam: chosen.lam, gamma: chosen.gamma, d: chosen.d, L: chosen.L });
    const points = gate.fixedPoints();
    const paths = STARTS.map(([kappa, nu]) => trajectory(gate, kappa, nu, { end: END }));
    const own = trajectory(gate, chosen.kappa, chosen.nu, { end: END });
    drawSquare(gate, points, paths, own);
    const oracle = drawRisk(gate, chosen.gamma ** 2, paths, own);
    describe(chosen, gate, points, own, oracle);
  }

  for (const name of Object.keys(SLIDERS)) {
    document.getElementById("portrait-" + name).addEventListener("input", draw);
  }
  const switches = document.querySelectorAll("[name=portrait-gate]");
  for (const input of switches) input.addEventListener("change", draw);
  square.addEventListener("click", (event) => {
    const box = square.getBoundingClientRect();
    const back = (at, from, to) => Math.max(-1, Math.min(1, -1.06 + (2.12 * (at - from)) / (to - from)));
    const x = ((event.clientX - box.left) / box.width) * SIZE;
    const y = ((event.clientY - box.top) / box.height) * SIZE;
    document.getElementById("portrait-kappa").value = back(x, EDGE.left, SIZE - EDGE.right);
    document.getElementById("portrait-nu").value = back(y, SIZE - EDGE.bottom, EDGE.top);
    draw();
  });
  document.getElementById("portrait-reset").addEventListener("click", () => {
    for (const name of Object.keys(SLIDERS)) {
      const input = document.getElementById("portrait-" + name);
      input.value = input.defaultValue;
    }
    for (const input of switches) input.checked = input.defaultChecked;
    draw();
  });
  draw();
})();

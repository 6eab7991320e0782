"use strict";
// The speed of the flow in the (kappa, nu) square as shades, and its direction as arrows.

const portraitField = (function () {
  const CELLS = 40; // along each side
  const LEVELS = 12; // shades, each a quarter of a decade; what is slower has none
  const PER_DECADE = 4;
  const OPACITY = 0.7; // of the fastest
  const { tenths } = portraitNumbers;

  // visit(i, j, d kappa/dt, d nu/dt, kappa, nu) for the centres of n x n cells of the square from -size to
  // size. At one kappa R_nu is constant, and R_kappa linear in nu: two gradients give a column.
  function forEachCell(gate, n, size, visit) {
    for (let i = 0; i < n; i++) {
      const kappa = size * ((2 * i + 1) / n - 1);
      const [low, byNu] = gate.riskGradient(kappa, -1);
      const [high] = gate.riskGradient(kappa, 1);
      for (let j = 0; j < n; j++) {
        const nu = size * ((2 * j + 1) / n - 1);
        const byKappa = ((1 - nu) * low + (1 + nu) * high) / 2;
        visit(i, j, -(1 - kappa * kappa) * byKappa, -(1 - nu * nu) * byNu, kappa, nu);
      }
    }
  }

  // The path data of each shade, and log10 of the fastest shade's upper end.
  function shades(gate, xs, ys) {
    const logs = new Float64Array(CELLS * CELLS);
    let fastest = -Infinity;
    forEachCell(gate, CELLS, 1, (i, j, dk, dn) => {
      const log = Math.log10(dk * dk + dn * dn) / 2;
      logs[i * CELLS + j] = log;
      if (log > fastest) fastest = log;
    });
    const top = Math.ceil(PER_DECADE * fastest) / PER_DECADE;
    const level = (i, j) => Math.max(0, Math.min(LEVELS, Math.ceil(PER_DECADE * (logs[i * CELLS + j] - top)) + LEVELS)) || 0;
    const paths = Array.from({ length: LEVELS }, () => []);
    const edge = (scale) => Array.from({ length: CELLS + 1 }, (_, i) => tenths(scale((2 * i) / CELLS - 1)));
    const [left, bottom] = [edge(xs), edge(ys)];
    for (let i = 0; i < CELLS; i++) {
      let first = 0;
      for (let j = 1; j <= CELLS; j++) {
        const shade = level(i, first);
        if (j < CELLS && level(i, j) === shade) continue;
        if (shade > 0) paths[shade - 1].push(`M${left[i]} ${bottom[first]}H${left[i + 1]}V${bottom[j]}H${left[i]}Z`);
        first = j;
      }
    }
    return { paths: paths.map((parts) => parts.join("")), top };
  }

  // Arrows of one length, as the data of one path.
  function arrows(gate, xs, ys) {
    const parts = [];
    forEachCell(gate, 17, 1.02, (i, j, dk, dn, kappa, nu) => {
      const speed = Math.hypot(dk, dn);
      if (!(speed > 1e-12)) return;
      const [ux, uy] = [dk / speed, -dn / speed];
      const [x, y] = [xs(kappa), ys(nu)];
      const at = (along, aside) => `${tenths(x + along * ux - aside * uy)} ${tenths(y + along * uy + aside * ux)}`;
      parts.push(`M${at(-6, 0)}L${at(6, 0)}M${at(2, 3)}L${at(6, 0)}L${at(2, -3)}`);
    });
    return parts.join("");
  }

  // The elements of a picture, and a function that draws the field of a gate with them.
  function make(box, xs, ys) {
    const shade = (i) => ({ class: "speed", "fill-opacity": ((OPACITY * (i + 1)) / LEVELS).toFixed(3) });
    const areas = Array.from({ length: LEVELS }, (_, i) => svgElement("path", shade(i)));
    const ground = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, class: "ground" };
    const field = svgElement("g", { class: "field" });
    field.append(svgElement("rect", ground), ...areas);
    const directions = svgElement("path", { class: "arrows" });
    const bar = svgElement("g", { class: "bar" });
    const numbers = svgElement("g");
    const y = box.bottom + 58;
    const across = linear(-LEVELS, 0, box.left, box.right); // quarters of a decade below the top
    bar.append(svgElement("rect", { ...ground, y, height: 12 }));
    for (let i = 0; i < LEVELS; i++) {
      bar.append(svgElement("rect", { x: across(i - LEVELS), y, width: across(1) - across(0), height: 12, ...shade(i) }));
    }
    bar.append(svgElement("rect", { ...ground, y, height: 12, class: "frame" }), numbers);
    bar.append(svgElement("text", { x: (box.left + box.right) / 2, y: y + 46, "text-anchor": "middle" }, "speed of the flow, |d(κ, ν)/dt| (log scale)"));
    function draw(gate) {
      const { paths, top } = shades(gate, xs, ys);
      paths.forEach((data, i) => areas[i].setAttribute("d", data));
      directions.setAttribute("d", arrows(gate, xs, ys));
      const ticks = [];
      for (let decade = Math.floor(top); decade >= top - LEVELS / PER_DECADE; decade--) {
        const x = across(PER_DECADE * (decade - top));
        const label = portraitNumbers.short(10 ** decade, 1);
        ticks.push(
          svgElement("line", { x1: x, x2: x, y1: y + 12, y2: y + 16, class: "frame" }),
          svgElement("text", { x, y: y + 28, "text-anchor": "middle" }, label),
        );
      }
      numbers.replaceChildren(...(Number.isFinite(top) ? ticks : []));
    }
    return { behind: [field], above: [directions, bar], draw };
  }

  return { make };
})();

"use strict";
// The picture of one gate: shades of the risk, arrows along the flow, its points of rest, and a path.

function portraitSquare(svg) {
  const LEVELS = 12; // shades of the risk, which lie on each other
  const ARROWS = 13; // along each side
  const BOX = { left: 52, right: 394, top: 12, bottom: 354 };
  const BAR = { y: BOX.bottom + 56, height: 12 };
  const toX = linear(-1.06, 1.06, BOX.left, BOX.right);
  const toY = linear(-1.06, 1.06, BOX.bottom, BOX.top);
  const place = (kappa, nu) => `${toX(kappa).toFixed(1)} ${toY(nu).toFixed(1)}`;
  const ticks = [-1, -0.5, 0, 0.5, 1].map((x) => [x, String(x).replace("-", "−")]);
  const rect = (x, y, width, height, name) => svgElement("rect", { x, y, width, height, class: name });

  const shades = Array.from({ length: LEVELS }, () => svgElement("path", { class: "risk" }));
  const arrows = svgElement("path", { class: "arrows" });
  const own = ["own rim", "own"].map((name) => svgElement("path", { class: name }));
  const start = svgElement("circle", { r: 6, class: "own start" });
  const markers = svgElement("g");
  const ends = ["start", "end"].map((anchor, i) => svgElement("text", { x: i ? BOX.right : BOX.left, y: BAR.y + 28, "text-anchor": anchor }));
  const across = linear(0, LEVELS, BOX.left, BOX.right);
  const bar = Array.from({ length: LEVELS }, (_, i) => rect(across(i), BAR.y, BOX.right - across(i), BAR.height, "risk"));
  svg.replaceChildren(
    rect(toX(-1), toY(1), toX(1) - toX(-1), toY(-1) - toY(1), "ground"), ...shades,
    axes(BOX, toX, toY, { xTicks: ticks, yTicks: ticks, xLabel: "κ = k · k*", yLabel: "ν = v · v*" }),
    arrows, ...own, markers, start,
    rect(BOX.left, BAR.y, BOX.right - BOX.left, BAR.height, "ground"), ...bar, ...ends,
    svgElement("text", { x: (BOX.left + BOX.right) / 2, y: BAR.y + 28, "text-anchor": "middle" }, "excess risk"),
  );

  function arrow(flow, kappa, nu) {
    const [dk, dn] = flow.velocity(kappa, nu);
    const speed = Math.hypot(dk, dn);
    if (!(speed > 1e-12)) return "";
    const [ux, uy] = [dk / speed, -dn / speed];
    const at = (along, aside) => `${(toX(kappa) + along * ux - aside * uy).toFixed(1)} ${(toY(nu) + along * uy + aside * ux).toFixed(1)}`;
    return `M${at(-7, 0)}L${at(7, 0)}M${at(2, 3.5)}L${at(7, 0)}L${at(2, -3.5)}`;
  }

  // A point of rest: its shape says the kind, and its colour says it again.
  function marker([kappa, nu, kind]) {
    const [x, y] = [toX(kappa), toY(nu)];
    const made = {
      minimum: () => svgElement("circle", { cx: x, cy: y, r: 8 }),
      saddle: () => svgElement("rect", { x: x - 7, y: y - 7, width: 14, height: 14 }),
      maximum: () => svgElement("path", { d: `M${x} ${y - 9}L${x + 9} ${y + 7}L${x - 9} ${y + 7}Z` }),
    }[kind]();
    made.setAttribute("class", `fixed-point ${kind}`);
    made.append(svgElement("title", {}, kind));
    return made;
  }

  function drawFlow(flow) {
    shades.forEach((shade, i) => {
      const rows = flow.above(linear(0, LEVELS, flow.least, flow.most)(i + 0.5));
      const [lower, upper] = [1, 2].map((j) => rows.map((row) => place(row[0], row[j])));
      shade.setAttribute("d", `M${[...upper, ...lower.reverse()].join("L")}Z`);
    });
    const places = Array.from({ length: ARROWS }, (_, i) => (2 * i + 1) / ARROWS - 1);
    arrows.setAttribute("d", places.flatMap((kappa) => places.map((nu) => arrow(flow, kappa, nu))).join(""));
    markers.replaceChildren(...flow.points.map(marker));
    [flow.least, flow.most].forEach((risk, i) => { ends[i].textContent = risk.toFixed(2); });
  }

  function drawPath(rows) {
    for (const line of own) line.setAttribute("d", `M${rows.map((row) => place(row[1], row[2])).join("L")}`);
    start.setAttribute("cx", toX(rows[0][1]));
    start.setAttribute("cy", toY(rows[0][2]));
  }

  // The place of a mouse on the picture as [kappa, nu].
  function placeOf(event) {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return [
      linear(BOX.left, BOX.right, -1.06, 1.06)((event.clientX - box.left) * scale),
      linear(BOX.bottom, BOX.top, -1.06, 1.06)((event.clientY - box.top) * scale),
    ];
  }
  return { drawFlow, drawPath, placeOf };
}

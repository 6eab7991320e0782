"use strict";
// The interactive phase portrait: a switch, a menu and sliders in, three pictures, a table and two
// sentences out. The mathematics is in flow.js, stiff.js and swapped.js, and in one file for each gate.

(function () {
  const find = (name) => document.getElementById("portrait-" + name);
  if (!find("square")) return;
  const { short, rounded, pair } = portraitNumbers;
  const GATES = { erf: erfGate, softmax: softmaxGate };
  const END = 1000;
  const TIMES = [0, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 200, 500, 1000]; // of the table
  const STARTS = Array.from({ length: 12 }, (_, i) => {
    const angle = (2 * Math.PI * (i + 0.5)) / 12;
    return [0.45 * Math.cos(angle), 0.45 * Math.sin(angle)];
  });
  const pictures = {
    square: portraitPictures.manifoldSquare(find("square"), STARTS.length),
    swapped: portraitPictures.swappedSquare(find("exchange")),
    risk: portraitPictures.riskPicture(find("risk"), STARTS.length, END),
  };
  const cells = TIMES.map((time) => {
    const row = htmlElement("tr", {}, htmlElement("th", { scope: "row", class: "number" }, String(time)));
    for (let i = 0; i < 6; i++) row.append(htmlElement("td", { class: "number" }));
    return row;
  });
  find("table").replaceChildren(...cells);

  // What depends on the settings alone, not on the reader's start: it is kept while only that moves.
  let kept = { key: null };
  function settingOf({ gate: name, lam, gamma, d, L }) {
    const key = [name, lam, gamma, d, L].join();
    if (key === kept.key) return kept;
    const gate = GATES[name]({ lam, gamma, d, L });
    const points = gate.fixedPoints();
    const paths = STARTS.map(([kappa, nu]) => trajectory(gate, kappa, nu, { end: END, tolerance: 3e-5 }));
    const others = swappedPoints(gate);
    const risks = paths.map((rows) => rows.map(([t, kappa, nu]) => [t, gate.excessRisk(kappa, nu)]));
    const highest = Math.max(gamma * gamma, ...risks.flat().map((row) => row[1]));
    const aligned = { risk: gate.excessRisk(1, 1), stability: stability(flowJacobian(gate, [1, 1, 0, 0, 0])) };
    kept = { key, name, gate, points, paths, others, risks, highest, aligned, zero: gamma * gamma };
    pictures.square.drawGate(gate, points, paths);
    pictures.swapped.drawGate(others);
    for (const picture of ["square", "exchange", "risk"]) find(picture).setAttribute("data-gate", name);
    describeSetting(kept);
    return kept;
  }

  // The reader's path as [t, kappa, nu, theta, eta, rho] rows.
  function pathFrom(gate, overlaps) {
    const [kappa, nu, ...off] = overlaps;
    if (off.some((x) => x !== 0)) return fullTrajectory(gate, overlaps, { end: END, stops: TIMES });
    return trajectory(gate, kappa, nu, { end: END, stops: TIMES }).map((row) => [...row, 0, 0, 0]);
  }

  function drawRisk({ key, gate, risks, highest, zero, aligned }, own) {
    const mine = own.map(([t, ...overlaps]) => [t, gate.excessRisk(...overlaps)]);
    // long sequences punish rho so much at the start that nothing else would be seen
    const top = 1.08 * Math.max(highest, ...mine.filter(([t]) => t >= 0.01).map((row) => row[1]));
    const ys = pictures.risk.drawGate(key, risks, zero, aligned.risk, top);
    pictures.risk.drawOwn(mine, ys);
    return mine;
  }

  function fillTable(own, risks) {
    TIMES.forEach((time, i) => {
      const at = own.findIndex((row) => row[0] >= time);
      const last = at < 0 ? own.length - 1 : at; // a path ends where it is at rest
      const texts = [...own[last].slice(1).map((x) => rounded(x, 3)), short(risks[last][1])];
      texts.forEach((text, j) => { cells[i].children[j + 1].textContent = text; });
    });
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

  function where({ points, others }, [kappa, nu, theta, eta, rho]) {
    const overlaps = [kappa, nu, theta, eta, rho];
    const other = others.find((point) => Math.hypot(...point.overlaps.map((x, i) => x - overlaps[i])) < 0.05);
    if (other) return `near ${other.swapped ? "the swapped point" : "a minimum that is neither aligned nor swapped,"} (θ, η) = ${pair(...other.overlaps.slice(2, 4))}`;
    const away = Math.hypot(theta, eta, rho) > 0.05;
    const near = points.find((point) => Math.hypot(point.edge ? 0 : point.kappa - kappa, point.nu - nu) < 0.02);
    if (away || !near) return "at no fixed point yet: the gate is saturated there, or the flow has hardly begun";
    if (near.edge) return "on an edge where all points are at rest: one token has all the weight, whatever κ";
    return `near the ${near.kind} (${short(near.kappa)},\u00a0${near.nu})`.replace(/-/g, "−");
  }

  function list(points) {
    const texts = points.map(({ overlaps }) => pair(overlaps[2], overlaps[3]));
    return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts[texts.length - 1]}`;
  }

  // On the swapped point, and on other minima where there are any.
  function describeSetting({ name, others, points, aligned }) {
    const swapped = others.filter((point) => point.swapped);
    const rest = others.filter((point) => !point.swapped);
    const unstable = aligned.stability === "unstable" ? ", which is not even a minimum here once θ, η and ρ may change" : "";
    const risks = (found) => [...new Set(found.map(({ risk }) => short(risk)))].join(" and ");
    const sentences = [swapped.length
      ? `With ${name} there ${swapped.length === 1 ? "is a swapped point" : "are swapped points"} here, at (θ, η) = ${list(swapped)}. The excess risk is ${risks(swapped)} there, and ${short(aligned.risk)} at the aligned point${unstable}.`
      : `With ${name} there is no swapped point here${rest.length ? "" : ": training leaves all four corners of this square"}. The excess risk is ${short(aligned.risk)} at the aligned point${unstable}.`];
    if (rest.length) {
      sentences.push(`There ${rest.length === 1 ? "is a minimum" : "are minima"} that ${rest.length === 1 ? "is" : "are"} neither aligned nor swapped, with k near ±v*, at (θ, η) = ${list(rest)}: excess risk ${risks(rest)}.`);
    }
    find("swapped").textContent = sentences.join(" ");
    find("square").setAttribute("aria-label",
      `Phase portrait of the ${name} gate in κ and ν: speed and direction of the flow, twelve paths, your path, fixed points (${counted(points)})`);
    find("exchange").setAttribute("aria-label",
      `The same path in θ and η, with the ${name} gate: the aligned point, ${swapped.length ? `swapped points at ${list(swapped)}` : "no swapped point"}`);
    find("risk").setAttribute("aria-label",
      `Excess risk of the ${name} gate along the same paths against time, with the zero predictor and the oracle`);
  }

  function describePath(chosen, setting, own) {
    const [reached, ...last] = own[own.length - 1];
    const atRest = Math.hypot(...fullVelocity(setting.gate, last)) < 1e-8;
    const [kappa, nu] = last;
    const weight = -setting.gate.riskGradient(...last)[1] / (2 * setting.zero); // R_nu = -2 g^2 E[weight] for every gate
    find("summary").textContent =
      `${setting.name}: from ${pair(chosen.kappa, chosen.nu)} the flow is at ${pair(kappa, nu)} at t = ${atRest ? END : short(reached)}, ` +
      `${where(setting, last)}. The mean weight of the informative token is then ${Math.abs(weight) < 1e-9 ? "about 0" : short(weight)}, ` +
      `and the excess risk ${short(setting.gate.excessRisk(...last))}; oracle ${short(setting.aligned.risk)}, ` +
      `zero predictor ${short(setting.zero)}. λ√(d/2) = ${short(chosen.lam * Math.sqrt(chosen.d / 2))}.`;
  }

  function draw() {
    const chosen = controls.read();
    const setting = settingOf(chosen);
    const own = pathFrom(setting.gate, chosen.overlaps);
    pictures.square.drawOwn(own);
    pictures.swapped.drawOwn(own);
    fillTable(own, drawRisk(setting, own));
    describePath(chosen, setting, own);
  }

  // One drawing for all parts of the hash.
  let waiting = 0;
  function drawSoon() {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      draw();
    });
  }
  function changed() {
    draw();
    pageState.changed();
  }

  const { starts } = JSON.parse(find("data").textContent);
  const controls = portraitControls.make(starts, { changed, restored: drawSoon });
  find("square").addEventListener("click", (event) => {
    controls.moveTo(...pictures.square.placeOf(event));
    changed();
  });
  find("reset").addEventListener("click", () => {
    controls.reset();
    changed();
  });
  pageState.add(controls.parts);
  draw();
})();

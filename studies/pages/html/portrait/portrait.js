"use strict";
// The interactive phase portrait: a switch, a menu and sliders in, three pictures, a table and words
// out. The mathematics is in flow.js, stiff.js and swapped.js, and in one file for each gate.

(function () {
  const find = (name) => document.getElementById("portrait-" + name);
  if (!find("square")) return;
  const { short, rounded } = portraitNumbers;
  const GATES = { erf: erfGate, softmax: softmaxGate };
  const END = 1000;
  const TIMES = [0, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 200, 500, 1000]; // of the table
  const THIN = { end: END, tolerance: 3e-4 }; // the thin lines, within 0.3 pixels
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
    const paths = STARTS.map(([kappa, nu]) => trajectory(gate, kappa, nu, THIN));
    const others = swappedPoints(gate);
    const risks = paths.map((rows) => rows.map(([t, kappa, nu]) => [t, gate.excessRisk(kappa, nu)]));
    const highest = Math.max(gamma * gamma, ...risks.flat().map((row) => row[1]));
    const aligned = { risk: gate.excessRisk(1, 1), stability: stability(flowJacobian(gate, [1, 1, 0, 0, 0])) };
    kept = { key, name, gate, points, paths, others, risks, highest, aligned, zero: gamma * gamma };
    pictures.square.drawGate(gate, points, paths);
    pictures.swapped.drawGate(others);
    for (const [picture, label] of Object.entries(portraitWords.ofPictures(kept))) {
      find(picture).setAttribute("data-gate", name);
      find(picture).setAttribute("aria-label", label);
    }
    find("swapped").textContent = portraitWords.ofSetting(kept);
    return kept;
  }

  const isOff = ([, , ...off]) => off.some((x) => x !== 0); // off the manifold

  // The reader's path as [t, kappa, nu, theta, eta, rho] rows.
  function pathFrom(gate, overlaps) {
    if (isOff(overlaps)) return fullTrajectory(gate, overlaps, { end: END, stops: TIMES });
    const [kappa, nu] = overlaps;
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

  function draw() {
    const chosen = controls.read();
    const setting = settingOf(chosen);
    const own = pathFrom(setting.gate, chosen.overlaps);
    // off the manifold the flow is not the one that shades and arrows show
    find("square").classList.toggle("off-manifold", isOff(chosen.overlaps));
    find("off").hidden = !isOff(chosen.overlaps);
    pictures.square.drawOwn(own);
    pictures.swapped.drawOwn(own);
    fillTable(own, drawRisk(setting, own));
    find("summary").textContent = portraitWords.ofPath(chosen, setting, own.at(-1), END);
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

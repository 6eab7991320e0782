"use strict";
// The phase portrait: lam, and a start by sliders, buttons or a click, in; two squares and a sentence
// on each out. The numbers come from studies/pages/portrait.py.

(function () {
  const find = (name) => document.getElementById("portrait-" + name);
  const { lams, gates, zero } = JSON.parse(find("data").textContent);
  const END = 1000; // of the paths, in time
  const NEAR = 0.05; // a path has arrived at a point of rest
  const number = (x) => fixed(Number(x.toFixed(2)) + 0); // −0.00 is 0.00
  const pair = (...point) => `(${point.map((x) => String(Number(x.toFixed(2)) + 0).replace("-", "−")).join(",\u00a0")})`;
  const pictures = Object.keys(gates).map((gate) => [gate, portraitSquare(find(gate))]);
  const starts = [...document.querySelectorAll("#portrait [data-start]")];

  // Sliders: what a position means, and back; how a value is written.
  const same = (x) => x;
  const START = { value: same, place: (x) => (Math.abs(x) <= 0.99 ? x : NaN), shown: number };
  const sliders = {
    lam: { value: (i) => lams[i], place: (lam) => lams.indexOf(lam), shown: String },
    kappa: START,
    nu: START,
  };
  const valueOf = (name) => sliders[name].value(Number(find(name).value));

  let [shownLam, flows] = [null, []];
  function draw() {
    const [lam, ...start] = Object.keys(sliders).map(valueOf);
    for (const [name, { shown }] of Object.entries(sliders)) {
      find(name + "-value").textContent = shown(valueOf(name));
      find(name).setAttribute("aria-valuetext", shown(valueOf(name)));
    }
    if (lam !== shownLam) {
      flows = pictures.map(([gate]) => portraitFlow(gates[gate][lams.indexOf(lam)]));
      pictures.forEach(([, picture], i) => picture.drawFlow(flows[i]));
      shownLam = lam;
    }
    pictures.forEach(([gate, picture], i) => {
      const rows = flows[i].path(...start, END);
      picture.drawPath(rows);
      const count = (kind) => flows[i].points.filter((point) => point[2] === kind).length;
      find(gate).setAttribute("aria-label", `Risk and flow of ${gate} in κ and ν; `
        + `minima: ${count("minimum")}, saddles: ${count("saddle")}, maxima: ${count("maximum")}; and a run`);
      find(gate + "-says").textContent = sentence(flows[i], rows);
    });
    for (const button of starts) button.setAttribute("aria-pressed", button.dataset.start === start.join());
  }

  function sentence(flow, rows) {
    const risk = (row) => number(flow.risk(row[1], row[2]));
    const [first, last] = [rows[0], rows.at(-1)];
    const distance = (row, point) => Math.hypot(row[1] - point[0], row[2] - point[1]);
    const end = flow.points.find((point) => distance(last, point) < NEAR);
    const arrived = end && rows.find((row) => distance(row, end) < NEAR)[0];
    const where = end
      ? `comes near the ${end[2]} at ${pair(end[0], end[1])} at t\u00a0=\u00a0${Number(arrived.toPrecision(2))}`
      : `is at ${pair(last[1], last[2])} at t\u00a0=\u00a0${END}, where the flow is slow`;
    return `The run from ${pair(first[1], first[2])} ${where}. Its excess risk falls from ${risk(first)} to ${risk(last)}; guessing 0 would have ${number(zero)}.`;
  }

  function changed() {
    draw();
    pageState.changed();
  }
  function startAt(...start) {
    ["kappa", "nu"].forEach((name, i) => { find(name).value = Math.max(-0.99, Math.min(0.99, start[i])); });
    changed();
  }
  for (const name of Object.keys(sliders)) find(name).addEventListener("input", changed);
  for (const button of starts) button.addEventListener("click", () => startAt(...button.dataset.start.split(",")));
  for (const [gate, picture] of pictures) find(gate).addEventListener("click", (event) => startAt(...picture.placeOf(event)));

  const parts = {};
  for (const [name, { value, place }] of Object.entries(sliders)) {
    const input = find(name);
    parts[name] = {
      get: () => (input.value === input.defaultValue ? "" : String(value(Number(input.value)))),
      set: (text) => {
        const chosen = text.trim() === "" ? NaN : place(Number(text));
        input.value = chosen >= Number(input.min) ? chosen : input.defaultValue; // also where it is NaN
        draw();
      },
    };
  }
  pageState.add(parts);
  draw();
})();

"use strict";
// What the phase portrait says in words about a setting, and about the reader's path.
// setting: { name, gate, points, others, aligned, zero } of portrait.js.

const portraitWords = (function () {
  const { short, pair } = portraitNumbers;
  const isOrAre = (points) => (points.length === 1 ? "is a" : "are");
  const places = (points) => listed(points.map(({ overlaps }) => pair(overlaps[2], overlaps[3])));
  const risks = (points) => [...new Set(points.map(({ risk }) => short(risk)))].join(" and ");

  function listed(texts) {
    return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
  }

  // The number of fixed points of each kind.
  function counted(points) {
    const plural = { minimum: "minima", saddle: "saddles", maximum: "maxima" };
    const words = [];
    for (const [kind, many] of Object.entries(plural)) {
      const n = points.filter((point) => point.kind === kind).length;
      if (n) words.push(`${n} ${n === 1 ? kind : many}`);
    }
    return words.join(", ");
  }

  // On the swapped point, and on other minima where there are any.
  function ofSetting({ name, others, aligned }) {
    const swapped = others.filter((point) => point.swapped);
    const rest = others.filter((point) => !point.swapped);
    const unstable = aligned.stability === "unstable"
      ? ", which is not even a minimum here once θ, η and ρ may change" : "";
    const sentences = [];
    if (swapped.length) {
      sentences.push(
        `With ${name} there ${isOrAre(swapped)} swapped point${swapped.length === 1 ? "" : "s"} here, at (θ, η) = ${places(swapped)}.`,
        `The excess risk is ${risks(swapped)} there, and ${short(aligned.risk)} at the aligned point${unstable}.`,
      );
    } else {
      sentences.push(
        `With ${name} there is no swapped point here${rest.length ? "" : ": training leaves all four corners of this square"}.`,
        `The excess risk is ${short(aligned.risk)} at the aligned point${unstable}.`,
      );
    }
    if (rest.length) {
      const minima = rest.length === 1 ? "minimum that is" : "minima that are";
      sentences.push(
        `There ${isOrAre(rest)} ${minima} neither aligned nor swapped, with k near ±v*,`,
        `at (θ, η) = ${places(rest)}: excess risk ${risks(rest)}.`,
      );
    }
    return sentences.join(" ");
  }

  // What the pictures are, for readers who do not see them.
  function ofPictures({ name, points, others }) {
    const swapped = others.filter((point) => point.swapped);
    return {
      square: `Phase portrait of the ${name} gate in κ and ν: speed and direction of the flow, `
        + `twelve paths, your path, fixed points (${counted(points)})`,
      exchange: `The same path in θ and η, with the ${name} gate: the aligned point, `
        + (swapped.length ? `swapped points at ${places(swapped)}` : "no swapped point"),
      risk: `Excess risk of the ${name} gate along the same paths against time, with the zero predictor and the oracle`,
    };
  }

  function where({ points, others }, overlaps) {
    const [kappa, nu, ...off] = overlaps;
    const other = others.find((point) => Math.hypot(...point.overlaps.map((x, i) => x - overlaps[i])) < 0.05);
    if (other) {
      const kind = other.swapped ? "the swapped point" : "a minimum that is neither aligned nor swapped,";
      return `near ${kind} (θ, η) = ${pair(...other.overlaps.slice(2, 4))}`;
    }
    const near = points.find((point) => Math.hypot(point.edge ? 0 : point.kappa - kappa, point.nu - nu) < 0.02);
    if (!near || Math.hypot(...off) > 0.05) return "at no fixed point yet: the gate is saturated there, or the flow has hardly begun";
    if (near.edge) return "on an edge where all points are at rest: one token has all the weight, whatever κ";
    return `near the ${near.kind} (${short(near.kappa)},\u00a0${near.nu})`.replace(/-/g, "−");
  }

  // The reader's path from (kappa, nu) to its last row [t, ...overlaps].
  function ofPath({ kappa, nu, lam, d }, setting, [reached, ...last], end) {
    const { name, gate, zero, aligned } = setting;
    const isAtRest = Math.hypot(...fullVelocity(gate, last)) < 1e-8;
    const weight = -gate.riskGradient(...last)[1] / (2 * zero); // R_nu = -2 g^2 E[weight] for every gate
    return [
      `${name}: from ${pair(kappa, nu)} the flow is at ${pair(last[0], last[1])} at t = ${isAtRest ? end : short(reached)},`,
      `${where(setting, last)}.`,
      `The mean weight of the informative token is then ${Math.abs(weight) < 1e-9 ? "about 0" : short(weight)},`,
      `and the excess risk ${short(gate.excessRisk(...last))};`,
      `oracle ${short(aligned.risk)}, zero predictor ${short(zero)}.`,
      `λ√(d/2) = ${short(lam * Math.sqrt(d / 2))}.`,
    ].join(" ");
  }

  return { ofSetting, ofPictures, ofPath };
})();

"use strict";
// Other minima of the whole risk, with k near +-v*. At the swapped point k lies along +-v*, and v leans
// towards +-k*, but only partly: theta = 0.63 in the paper's setting, with kappa = nu = rho = 0. Such
// minima are looked for where the flow goes from near the four corners (theta, eta) = (+-1, +-1), for
// every gate alike.

const SWAPPED_FROM = 0.95; // |eta| of a swapped point is above it, as in slr/dynamics/trajectory.py
const SWAPPED_NEAR_0 = 0.3; // |kappa|, |nu| and |rho| of a swapped point are below it
const SWAPPED_GIVEN_UP = 0.5; // |eta| of a path that has left

// "stable" if a small displacement decays: all eigenvalues of the Jacobian have a negative real part.
// Then the Cayley transform (1 + sJ)/(1 - sJ) is a contraction, and its powers, by squaring, tend to 0.
// If they grow it is "unstable"; late growth may be round-off in an eigenvalue of 0, and says nothing.
function stability(jacobian) {
  const size = Math.max(...jacobian.flat().map(Math.abs));
  if (!(size > 0)) return "unknown";
  const shifted = (sign) => jacobian.map((row, i) => row.map((x, j) => (i === j ? 1 : 0) + (sign * x) / size));
  const factors = factored(shifted(-1));
  const plus = shifted(1);
  const columns = plus.map((_, j) => solveFactored(factors, plus.map((row) => row[j])));
  let power = plus.map((_, i) => columns.map((column) => column[i]));
  for (let n = 0; n < 40; n++) {
    power = power.map((row) => row.map((_, j) => row.reduce((sum, x, m) => sum + x * power[m][j], 0)));
    const largest = Math.max(...power.flat().map(Math.abs));
    if (largest < 1e-3) return "stable";
    if (!(largest < 1e6)) return n < 24 ? "unstable" : "unknown";
  }
  return "unknown";
}

// The zero of the velocity near a point by Newton's method, or null.
function restNear(gate, start) {
  let point = start;
  for (let n = 0; n < 30; n++) {
    const here = fullVelocity(gate, point);
    const step = solveFactored(factored(flowJacobian(gate, point)), here);
    const length = Math.hypot(...step);
    if (!(length < 0.5)) return null;
    point = point.map((x, i) => x - step[i]);
    if (length < 1e-9) return point;
  }
  return null;
}

// Where the flow comes to rest from near a corner, or null if |eta| falls on the way.
function restFrom(gate, theta, eta) {
  const gone = (point) => Math.abs(point[3]) < SWAPPED_GIVEN_UP;
  // a little off kappa = nu = 0, where a point that is not stable would hold the path
  const rows = fullTrajectory(gate, [0.02, 0.02, theta, eta, 0], { end: 1e9, tolerance: 1e-2, longest: 0.3, most: 200, done: gone });
  const last = rows[rows.length - 1].slice(1);
  return gone(last) ? null : restNear(gate, last);
}

const isMinimum = (gate, overlaps) =>
  overlaps !== null && Math.abs(overlaps[3]) > SWAPPED_FROM && overlaps.every((x) => Math.abs(x) < 1 + 1e-6)
  && stability(flowJacobian(gate, overlaps)) === "stable";

// All these minima, as {overlaps, risk, swapped}.
function swappedPoints(gate) {
  const found = [];
  const isNew = (overlaps) => found.every((other) => Math.hypot(...other.overlaps.map((x, i) => x - overlaps[i])) > 1e-4);
  for (const [theta, eta] of [[0.9, 0.9], [-0.9, -0.9], [0.9, -0.9], [-0.9, 0.9]]) {
    // a gate with erf's symmetry has the same point at (-k, -v): then Newton's method confirms it at once
    const before = found.find(({ overlaps }) => overlaps[2] * theta < 0 && overlaps[3] * eta < 0);
    const mirrored = before && restNear(gate, before.overlaps.map((x, i) => (i === 2 || i === 3 ? -x : x)));
    const overlaps = mirrored && isNew(mirrored) ? mirrored : restFrom(gate, theta, eta);
    if (!isMinimum(gate, overlaps) || !isNew(overlaps)) continue;
    const swapped = [0, 1, 4].every((i) => Math.abs(overlaps[i]) < SWAPPED_NEAR_0);
    found.push({ overlaps, risk: gate.excessRisk(...overlaps), swapped });
  }
  return found;
}

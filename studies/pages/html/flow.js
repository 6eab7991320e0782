"use strict";
// The risk and its gradient flow on the invariant manifold, as slr/special.py, slr/erf_risk.py and
// slr/dynamics/portrait.py have them (tests/test_report.py compares the two).
//   R<(kappa, nu) = g^2 (1 - 2 nu E[erf] + E[erf^2]) + (L - 1) zeta(0, lam)
//   d kappa/dt = -(1 - kappa^2) R_kappa,   d nu/dt = -(1 - nu^2) R_nu      (Theorem 5)

const TWO_OVER_SQRT_PI = 2 / Math.sqrt(Math.PI);

// Gauss-Legendre on [-1, 1], twelve points: the positive half, the rest by symmetry.
const NODES = [
  0.125233408511468916, 0.367831498998180194, 0.587317954286617447,
  0.769902674194304687, 0.904117256370474857, 0.981560634246719251,
];
const WEIGHTS = [
  0.249147045813402785, 0.233492536538354809, 0.203167426723065922,
  0.160078328543346226, 0.106939325995318431, 0.047175336386511827,
];

// A series of positive terms for small x, a continued fraction (Lentz, from below) for large.
function erfc(x) {
  if (x < 2) return 1 - erf(x);
  let fraction = x;
  for (let n = 120; n >= 1; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}

function erf(x) {
  if (x < 0) return -erf(-x);
  if (x >= 2) return 1 - erfc(x);
  let term = x;
  let sum = x;
  for (let n = 1; n < 60; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return TWO_OVER_SQRT_PI * Math.exp(-x * x) * sum;
}

// Var[erf(t + scale Z)] for t = a sqrt(1 + 2 scale^2): the integral of Owen's T that remains.
function erfVariance(a, scale) {
  const rootQ = Math.sqrt(1 + 4 * scale * scale);
  const half = (2 * scale * scale) / (rootQ * (rootQ + 1));
  let total = 0;
  for (let i = 0; i < NODES.length; i++) {
    for (const node of [-NODES[i], NODES[i]]) {
      const x = 1 - half + half * node;
      total += (WEIGHTS[i] * Math.exp(-a * a * (1 + x * x))) / (1 + x * x);
    }
  }
  return (4 / Math.PI) * half * total;
}

// task = {d, L, gamma, lam}
function gateSlope(task) {
  const scale = task.lam * task.gamma;
  return (task.lam * Math.sqrt(task.d / 2)) / Math.sqrt(1 + 2 * scale * scale);
}

function excessRisk(kappa, nu, task) {
  const scale = task.lam * task.gamma;
  const a = gateSlope(task) * kappa;
  const mean = erf(a);
  const square = mean * mean + erfVariance(a, scale);
  return task.gamma ** 2 * (1 - 2 * nu * mean + square) + (task.L - 1) * erfVariance(0, task.lam);
}

// [R_kappa, R_nu], without the cancellation of erf(b) - nu near the corners.
function riskGradient(kappa, nu, task) {
  const scale = task.lam * task.gamma;
  const slope = gateSlope(task);
  const a = slope * kappa;
  const b = a / Math.sqrt(1 + 4 * scale * scale);
  const sign = b < 0 ? -1 : 1;
  const difference = sign * (1 - sign * nu - erfc(Math.abs(b))); // erf(b) - nu
  const g2 = task.gamma ** 2;
  return [2 * g2 * slope * TWO_OVER_SQRT_PI * Math.exp(-a * a) * difference, -2 * g2 * erf(a)];
}

function velocity(kappa, nu, task) {
  const [byKappa, byNu] = riskGradient(kappa, nu, task);
  return [-(1 - kappa * kappa) * byKappa, -(1 - nu * nu) * byNu];
}

// One path of the flow as [t, kappa, nu] rows. Bogacki-Shampine 3(2), the step by its own error.
function trajectory(kappa, nu, task, { end = 1000, tolerance = 1e-6, most = 4000 } = {}) {
  const inside = (x) => Math.max(-1, Math.min(1, x));
  const at = (point, dt, slopes, weights) =>
    point.map((x, i) => inside(x + dt * weights.reduce((sum, w, j) => sum + w * slopes[j][i], 0)));
  let point = [kappa, nu];
  let t = 0;
  let dt = 1e-3;
  const rows = [[0, kappa, nu]];
  let k1 = velocity(...point, task);
  for (let n = 0; n < most && t < end; n++) {
    if (Math.hypot(...k1) < 1e-9) break;
    dt = Math.min(dt, end - t);
    const k2 = velocity(...at(point, dt, [k1], [1 / 2]), task);
    const k3 = velocity(...at(point, dt, [k2], [3 / 4]), task);
    const next = at(point, dt, [k1, k2, k3], [2 / 9, 1 / 3, 4 / 9]);
    const k4 = velocity(...next, task);
    const lower = at(point, dt, [k1, k2, k3, k4], [7 / 24, 1 / 4, 1 / 3, 1 / 8]);
    const error = Math.hypot(next[0] - lower[0], next[1] - lower[1]);
    const moved = Math.hypot(next[0] - point[0], next[1] - point[1]);
    if (error <= tolerance && moved <= 0.05) {
      // also short enough to draw as a line
      t += dt;
      point = next;
      k1 = k4;
      rows.push([t, ...point]);
    }
    const factor = 0.9 * Math.cbrt(tolerance / Math.max(error, 1e-300));
    dt *= Math.min(moved > 0.05 ? 0.5 : 2, Math.max(0.2, factor));
  }
  return rows;
}

// Where the flow stands still: for every task these five and no other. nu is at rest at +-1 or
// where kappa = 0; kappa at +-1 or where nu = erf(b), which leaves (0, 0) inside.
const FIXED_POINTS = [
  { kappa: 1, nu: 1, kind: "minimum" },
  { kappa: -1, nu: -1, kind: "minimum" },
  { kappa: 0, nu: 0, kind: "saddle" },
  { kappa: 1, nu: -1, kind: "maximum" },
  { kappa: -1, nu: 1, kind: "maximum" },
];

if (typeof module !== "undefined") {
  module.exports = { erf, erfc, excessRisk, riskGradient, velocity, trajectory, FIXED_POINTS };
}

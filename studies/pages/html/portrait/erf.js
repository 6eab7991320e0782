"use strict";
// The erf gate, the paper's: T(X) = sum_l erf(lam X_l.k) X_l.v, as slr/special.py and the closed-form
// risk of slr have it (tests/test_report.py compares the two). With g = gamma, on the manifold,
//   R<(kappa, nu) = g^2 (1 - 2 nu E[erf] + E[erf^2]) + (L - 1) zeta(0, lam)

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

// The gate of task = {d, L, gamma, lam}: excessRisk(kappa, nu), riskGradient(kappa, nu), fixedPoints().
function erfGate(task) {
  const g2 = task.gamma ** 2;
  const scale = task.lam * task.gamma;
  const slope = (task.lam * Math.sqrt(task.d / 2)) / Math.sqrt(1 + 2 * scale * scale);

  function excessRisk(kappa, nu) {
    const a = slope * kappa;
    const mean = erf(a);
    const square = mean * mean + erfVariance(a, scale);
    return g2 * (1 - 2 * nu * mean + square) + (task.L - 1) * erfVariance(0, task.lam);
  }

  // [R_kappa, R_nu], without the cancellation of erf(b) - nu near the corners.
  function riskGradient(kappa, nu) {
    const a = slope * kappa;
    const b = a / Math.sqrt(1 + 4 * scale * scale);
    const sign = b < 0 ? -1 : 1;
    const difference = sign * (1 - sign * nu - erfc(Math.abs(b))); // erf(b) - nu
    return [2 * g2 * slope * TWO_OVER_SQRT_PI * Math.exp(-a * a) * difference, -2 * g2 * erf(a)];
  }

  // For every task these five and no other. nu is at rest at +-1 or where kappa = 0; kappa at +-1 or
  // where nu = erf(b), which leaves (0, 0) inside.
  function fixedPoints() {
    return [
      { kappa: 1, nu: 1, kind: "minimum" },
      { kappa: -1, nu: -1, kind: "minimum" },
      { kappa: 0, nu: 0, kind: "saddle" },
      { kappa: 1, nu: -1, kind: "maximum" },
      { kappa: -1, nu: 1, kind: "maximum" },
    ];
  }

  return { excessRisk, riskGradient, fixedPoints };
}

if (typeof module !== "undefined") module.exports = { erfGate };

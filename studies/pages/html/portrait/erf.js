"use strict";
// The erf gate, the paper's: T(X) = sum_l erf(lam X_l.k) X_l.v, as slr/gates/erf.py has it
// (tests/test_portrait_mathematics.py compares the two). The risk is a function of five overlaps,
//   kappa = k.k*   nu = v.v*   theta = v.k*   eta = k.v*   rho = k.v,
// and on the manifold theta = eta = rho = 0 it is, with g = gamma,
//   R<(kappa, nu) = g^2 (1 - 2 nu E[erf] + E[erf^2]) + (L - 1) zeta(0, lam)

// Gauss-Legendre on [-1, 1], twelve points: the positive half, the rest by symmetry.
const LEGENDRE_NODES = [
  0.125233408511468916, 0.367831498998180194, 0.587317954286617447,
  0.769902674194304687, 0.904117256370474857, 0.981560634246719251,
];
const LEGENDRE_WEIGHTS = [
  0.249147045813402785, 0.233492536538354809, 0.203167426723065922,
  0.160078328543346226, 0.106939325995318431, 0.047175336386511827,
];

// Var[erf(t + scale Z)] for t = a sqrt(1 + 2 scale^2): the integral of Owen's T that remains.
function erfVariance(a, scale) {
  const rootQ = Math.sqrt(1 + 4 * scale * scale);
  const half = (2 * scale * scale) / (rootQ * (rootQ + 1));
  let total = 0;
  for (let i = 0; i < LEGENDRE_NODES.length; i++) {
    for (const node of [-LEGENDRE_NODES[i], LEGENDRE_NODES[i]]) {
      const x = 1 - half + half * node;
      total += (LEGENDRE_WEIGHTS[i] * Math.exp(-a * a * (1 + x * x))) / (1 + x * x);
    }
  }
  return (4 / Math.PI) * half * total;
}

// The gate of task = {d, L, gamma, lam}: excessRisk and riskGradient of the five overlaps (the last
// three are 0 if they are left out), and fixedPoints() on the manifold.
function erfGate(task) {
  const { lam, gamma } = task;
  const h = Math.sqrt(task.d / 2);
  const n = task.L - 1;
  const g2 = gamma ** 2;
  const scale = lam * gamma;
  const slope = lam / Math.sqrt(1 + 2 * scale * scale);
  const narrow = 1 / Math.sqrt(1 + 4 * scale * scale);
  // E[phi'] and E[(phi^2)''] of phi = erf(lam .) at a token of noise, and n zeta(0, lam)
  const first = (2 * lam) / Math.sqrt(Math.PI * (1 + 2 * lam * lam));
  const second = ((8 / Math.PI) * lam * lam) / ((1 + 2 * lam * lam) * Math.sqrt(1 + 4 * lam * lam));
  const noise = n * erfVariance(0, lam);

  // f = E[phi(u)] at the informative token's score u ~ N(h kappa, g^2), and derivatives in the mean.
  function means(kappa) {
    const a = slope * h * kappa;
    const b = narrow * a;
    const sign = b < 0 ? -1 : 1;
    const tail = erfc(Math.abs(b));
    return { a, b, sign, tail, f: erf(a), f1: slope * TWO_OVER_SQRT_PI * Math.exp(-a * a) };
  }

  // The same with q = E[phi(u)^2] and more derivatives. The last kappa's are kept: a Jacobian asks for
  // them again and again.
  let last = { kappa: NaN };
  function moments(kappa) {
    if (kappa === last.kappa) return last;
    const { a, b, sign, tail, f, f1 } = means(kappa);
    const erfB = sign * (1 - tail);
    const b1 = narrow * TWO_OVER_SQRT_PI * Math.exp(-b * b); // erf(b), by a
    const [curve, third] = [-2 * a, 4 * a * a - 2];
    last = {
      kappa, sign, tail, f, f1,
      f2: slope * f1 * curve,
      f3: slope * slope * f1 * third,
      q: f * f + erfVariance(a, scale),
      q1: 2 * f1 * erfB,
      q2: 2 * slope * f1 * (b1 + curve * erfB),
      q3: 2 * slope * slope * f1 * (-2 * narrow * b * b1 + 2 * curve * b1 + third * erfB),
    };
    return last;
  }

  // E[(Y - T)^2] from the means of a token's contribution, of its square, and of its product with Y.
  function excessRisk(kappa, nu, theta = 0, eta = 0, rho = 0) {
    const { f, f1, f2, q, q1, q2 } = moments(kappa);
    const [read, cov] = [h * theta, g2 * rho];
    const mean = read * f + cov * f1;
    const square = (read * read + g2) * q + 2 * read * cov * q1 + cov * cov * q2;
    const label = g2 * nu * f + g2 * eta * (read * f1 + cov * f2);
    const others = noise + n * rho * rho * (second + (n - 1) * first * first);
    return g2 - 2 * label + square + 2 * n * first * rho * mean + others;
  }

  // [R_kappa, R_nu, R_theta, R_eta, R_rho]
  function riskGradient(kappa, nu, theta = 0, eta = 0, rho = 0) {
    const onManifold = theta === 0 && eta === 0 && rho === 0;
    const { sign, tail, f, f1, f2, f3, q, q1, q2, q3 } = onManifold ? means(kappa) : moments(kappa);
    // q1 - 2 nu f1 = 2 f1 (erf(b) - nu), whose terms cancel near the corners
    const label = 2 * h * g2 * f1 * sign * (1 - sign * nu - tail);
    if (onManifold) return [label, -2 * g2 * f, 0, 0, 0];
    const [read, cov] = [h * theta, g2 * rho];
    const cross = 2 * n * first; // of 2 n E[T_1] E[T_2], with E[T_2] = rho first
    const others = 2 * n * (second + (n - 1) * first * first) * rho;
    return [
      label + h * (
        read * read * q1 + 2 * read * cov * q2 + cov * cov * q3
        - 2 * g2 * eta * (read * f2 + cov * f3) + cross * rho * (read * f1 + cov * f2)
      ),
      -2 * g2 * f,
      2 * h * (read * q + cov * q1 - g2 * eta * f1) + cross * rho * h * f,
      -2 * g2 * (read * f1 + cov * f2),
      2 * g2 * (read * q1 + cov * q2 - g2 * eta * f2) + cross * (read * f + 2 * cov * f1) + others,
    ];
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

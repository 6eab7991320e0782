"use strict";
// The gradient flow, for any gate: an object with excessRisk and riskGradient of the overlaps and
// fixedPoints(), which erf.js and softmax.js make for a task. On the invariant manifold it is
//   d kappa/dt = -(1 - kappa^2) R_kappa,   d nu/dt = -(1 - nu^2) R_nu      (Theorem 5)
// and elsewhere a flow of five overlaps, as grad_k R and grad_v R lie in the span of k*, v*, k and v:
//   k' = -(I - k k^T) (R_kappa k* + R_eta v* + R_rho v),   v' = -(I - v v^T) (R_nu v* + R_theta k* + R_rho k)

function velocity(gate, kappa, nu) {
  const [byKappa, byNu] = gate.riskGradient(kappa, nu);
  return [-(1 - kappa * kappa) * byKappa, -(1 - nu * nu) * byNu];
}

// The velocity of the overlaps [kappa, nu, theta, eta, rho].
function fullVelocity(gate, [kappa, nu, theta, eta, rho]) {
  const [byKappa, byNu, byTheta, byEta, byRho] = gate.riskGradient(kappa, nu, theta, eta, rho);
  // along the vectors themselves, which the spheres do not allow
  const alongK = kappa * byKappa + eta * byEta + rho * byRho;
  const alongV = nu * byNu + theta * byTheta + rho * byRho;
  return [
    kappa * alongK - byKappa - theta * byRho,
    nu * alongV - byNu - eta * byRho,
    theta * alongV - byTheta - kappa * byRho,
    eta * alongK - byEta - nu * byRho,
    rho * (alongK + alongV) - theta * byKappa - nu * byEta - eta * byNu - kappa * byTheta - 2 * byRho,
  ];
}

const LONGEST_STEP = 0.05; // in the square: short enough to draw as a line

// One path on the manifold as [t, kappa, nu] rows. Bogacki-Shampine 3(2), the step by its own error;
// a path has a row at each of the times in stops, which ascend.
function trajectory(gate, kappa, nu, { end = 1000, tolerance = 1e-6, most = 4000, stops = [] } = {}) {
  const inside = (x) => Math.max(-1, Math.min(1, x));
  let [x, y, t, dt] = [kappa, nu, 0, 1e-3];
  const rows = [[0, x, y]];
  let k1 = velocity(gate, x, y);
  for (let n = 0; n < most && t < end; n++) {
    if (Math.hypot(k1[0], k1[1]) < 1e-9) break;
    const until = nextStop(stops, t, end);
    const cut = t + dt >= until; // the step ends there, whatever the next one will be
    const step = cut ? until - t : dt;
    const at = (i, a, k2, b, k3, c, k4, d) => inside((i ? y : x) + step * (a * k1[i] + b * k2[i] + c * k3[i] + d * k4[i]));
    const k2 = velocity(gate, at(0, 1 / 2, k1, 0, k1, 0, k1, 0), at(1, 1 / 2, k1, 0, k1, 0, k1, 0));
    const k3 = velocity(gate, at(0, 0, k2, 3 / 4, k1, 0, k1, 0), at(1, 0, k2, 3 / 4, k1, 0, k1, 0));
    const [nextX, nextY] = [at(0, 2 / 9, k2, 1 / 3, k3, 4 / 9, k1, 0), at(1, 2 / 9, k2, 1 / 3, k3, 4 / 9, k1, 0)];
    const k4 = velocity(gate, nextX, nextY);
    const lower = [0, 1].map((i) => at(i, 7 / 24, k2, 1 / 4, k3, 1 / 3, k4, 1 / 8));
    const error = Math.hypot(nextX - lower[0], nextY - lower[1]);
    const moved = Math.hypot(nextX - x, nextY - y);
    const accepted = error <= tolerance && moved <= LONGEST_STEP;
    if (accepted) {
      [x, y, t, k1] = [nextX, nextY, cut ? until : t + step, k4];
      rows.push([t, x, y]);
    }
    const factor = 0.9 * Math.cbrt(tolerance / Math.max(error, 1e-300));
    // 0.9: else half of the steps would be refused where their length is what limits them
    const proposed = step * Math.min(4, Math.max(0.2, Math.min(factor, (0.9 * LONGEST_STEP) / moved)));
    dt = accepted && cut ? Math.max(dt, proposed) : proposed;
  }
  return rows;
}

const nextStop = (stops, t, end) => stops.find((stop) => stop > t && stop < end) ?? end;

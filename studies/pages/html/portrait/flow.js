"use strict";
// The gradient flow on the invariant manifold, for any gate: an object with excessRisk(kappa, nu),
// riskGradient(kappa, nu) and fixedPoints(), which erf.js and softmax.js make for a task.
//   d kappa/dt = -(1 - kappa^2) R_kappa,   d nu/dt = -(1 - nu^2) R_nu      (Theorem 5)

function velocity(gate, kappa, nu) {
  const [byKappa, byNu] = gate.riskGradient(kappa, nu);
  return [-(1 - kappa * kappa) * byKappa, -(1 - nu * nu) * byNu];
}

// One path of the flow as [t, kappa, nu] rows. Bogacki-Shampine 3(2), the step by its own error.
function trajectory(gate, kappa, nu, { end = 1000, tolerance = 1e-6, most = 4000 } = {}) {
  const inside = (x) => Math.max(-1, Math.min(1, x));
  const at = (point, dt, slopes, weights) =>
    point.map((x, i) => inside(x + dt * weights.reduce((sum, w, j) => sum + w * slopes[j][i], 0)));
  let point = [kappa, nu];
  let t = 0;
  let dt = 1e-3;
  const rows = [[0, kappa, nu]];
  let k1 = velocity(gate, ...point);
  for (let n = 0; n < most && t < end; n++) {
    if (Math.hypot(...k1) < 1e-9) break;
    dt = Math.min(dt, end - t);
    const k2 = velocity(gate, ...at(point, dt, [k1], [1 / 2]));
    const k3 = velocity(gate, ...at(point, dt, [k2], [3 / 4]));
    const next = at(point, dt, [k1, k2, k3], [2 / 9, 1 / 3, 4 / 9]);
    const k4 = velocity(gate, ...next);
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

if (typeof module !== "undefined") module.exports = { velocity, trajectory };

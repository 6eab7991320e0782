"use strict";
// Paths of all five overlaps. Off the manifold the flow is stiff: the turn of v towards k* is d times
// sharper than the others, and an explicit method would need as many steps. So this is Rodas3, a
// Rosenbrock method of order 3(2) for stiff equations (Sandu et al., Atmospheric Environment 31, 1997).

// x with A x = b for the LU factors of A.
function solveFactored({ rows, order }, b) {
  const x = order.map((i) => b[i]);
  for (let i = 0; i < x.length; i++) for (let j = 0; j < i; j++) x[i] -= rows[i][j] * x[j];
  for (let i = x.length - 1; i >= 0; i--) {
    for (let j = i + 1; j < x.length; j++) x[i] -= rows[i][j] * x[j];
    x[i] /= rows[i][i];
  }
  return x;
}

// LU factors with the largest pivots; NaN in a solution if there is none.
function factored(matrix) {
  const rows = matrix.map((row) => [...row]);
  const order = rows.map((_, i) => i);
  for (let c = 0; c < rows.length; c++) {
    let best = c;
    for (let i = c + 1; i < rows.length; i++) if (Math.abs(rows[i][c]) > Math.abs(rows[best][c])) best = i;
    [rows[c], rows[best]] = [rows[best], rows[c]];
    [order[c], order[best]] = [order[best], order[c]];
    for (let i = c + 1; i < rows.length; i++) {
      const factor = (rows[i][c] /= rows[c][c]);
      for (let j = c + 1; j < rows.length; j++) rows[i][j] -= factor * rows[c][j];
    }
  }
  return { rows, order };
}

// The derivative of the velocity in the overlaps, by central differences: they are exact for the terms
// in rho^2, whose factor is of the order of L^2. The gate keeps what belongs to the last kappa, so kappa
// is moved last.
function flowJacobian(gate, point) {
  const jacobian = point.map(() => new Array(5));
  const moved = [...point];
  for (let j = 4; j >= 0; j--) {
    moved[j] = point[j] + 1e-6;
    const up = fullVelocity(gate, moved);
    moved[j] = point[j] - 1e-6;
    const down = fullVelocity(gate, moved);
    moved[j] = point[j];
    for (let i = 0; i < 5; i++) jacobian[i][j] = (up[i] - down[i]) / 2e-6;
  }
  return jacobian;
}

// One step from point, where the velocity is here: the next point, and an estimate of its error.
function rodasStep(gate, point, here, jacobian, dt) {
  const factors = factored(jacobian.map((row, i) => row.map((x, j) => (i === j ? 2 / dt : 0) - x)));
  const k1 = solveFactored(factors, here);
  const k2 = solveFactored(factors, here.map((x, i) => x + (4 / dt) * k1[i]));
  const third = point.map((x, i) => x + 2 * k1[i]);
  const k3 = solveFactored(factors, fullVelocity(gate, third).map((x, i) => x + (k1[i] - k2[i]) / dt));
  const fourth = third.map((x, i) => x + k3[i]);
  const last = fullVelocity(gate, fourth).map((x, i) => x + (k1[i] - k2[i] - (8 / 3) * k3[i]) / dt);
  const k4 = solveFactored(factors, last);
  return { next: fourth.map((x, i) => x + k4[i]), error: Math.hypot(...k4) };
}

// One path as [t, kappa, nu, theta, eta, rho] rows, with a row at each of the times in stops. Steps move
// by at most `longest`, so that they can be drawn as lines; done(point) ends the path. In sequences of
// many thousand tokens erf holds rho at 0 with a force like L^2, and the steps that this asks for would
// take too long: the tolerance rises tenfold, up to 1e-2, after each 150 of them. Overlaps are then
// right to 0.02 at L = 10^6, and to 0.001 at 10^4 and below.
function fullTrajectory(gate, start, options = {}) {
  const { end = 1000, tolerance = 3e-5, most = 2000, stops = [], longest = 0.05, done = () => false } = options;
  let point = [...start];
  let t = 0;
  let dt = 1e-4;
  const rows = [[0, ...point]];
  let [here, jacobian] = [fullVelocity(gate, point), null];
  for (let n = 0; n < most && t < end; n++) {
    if (Math.hypot(...here) < 1e-9 || done(point)) break;
    const until = nextStop(stops, t, end);
    const cut = t + dt >= until;
    const step = cut ? until - t : dt;
    jacobian ??= flowJacobian(gate, point);
    const { next, error } = rodasStep(gate, point, here, jacobian, step);
    const moved = Math.hypot(...next.map((x, i) => x - point[i]));
    const allowed = Math.max(tolerance, Math.min(1e-2, tolerance * 10 ** Math.floor(n / 150)));
    const accepted = error <= allowed && moved <= longest; // not if either is NaN
    if (accepted) {
      t = cut ? until : t + step;
      point = next.map((x) => Math.max(-1, Math.min(1, x)));
      [here, jacobian] = [fullVelocity(gate, point), null];
      rows.push([t, ...point]);
    }
    const factor = 0.9 * Math.cbrt(allowed / Math.max(error, 1e-300));
    const proposed = step * Math.min(3, Math.max(0.2, Math.min(factor, (0.9 * longest) / moved) || 0.2)); // 0.2 if NaN
    dt = accepted && cut ? Math.max(dt, proposed) : proposed;
  }
  return rows;
}

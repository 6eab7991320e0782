"use strict";
// The softmax gate: token l has the weight a_l, a = softmax_l(lam X_l.k). This is the exact risk of
// slr/gates/softmax.py. The table of its moments is made here, in the page, so that the sliders may
// have any value (tests/test_portrait_mathematics.py compares the two). With the informative token first and
// mu = lam h kappa, h = sqrt(d/2), g = gamma, the risk on the manifold is
//   R(kappa, nu) = g^2 (E[(1 - a_1)^2] + 2 (1 - nu) E[a_1]) + E[sum_{l>1} a_l^2]
// It needs four functions of mu, all positive, so that nothing cancels:
//   weight = E[a_1]                                slope = d weight/d mu = E[a_1 (1 - a_1)]
//   loss   = g^2 E[(1 - a_1)^2] + E[sum a_l^2]     gain  = -d loss/d mu = 2 E[a_1 (g^2 (1 - a_1)^2 + sum a_l^2)]
//   R = loss + 2 g^2 (1 - nu) weight,   R_nu = -2 g^2 weight,   R_kappa = lam h (2 g^2 (1 - nu) slope - gain)
//
// With 1/S = int e^{-tS} dt the L tokens factorise. In s = log t, with n = L - 1, Z ~ N(0, 1),
// b_i(y) = exp(i y - e^y), A_i(x) = E[b_i(x + lam g Z)] (informative token), psi_i(s) = E[b_i(s + lam Z)] (noise token):
//   weight(mu) = int A_1(s + mu) psi_0^n ds            slope(mu) = int A_1(s + mu) n psi_1 psi_0^{n-1} ds
//   loss(mu)   = int A_0(s + mu) K(s) ds               gain(mu)  = int A_1(s + mu) K(s) ds
//   K = (1 + g^2) n psi_2 psi_0^{n-1} + g^2 n (n-1) psi_1^2 psi_0^{n-2}
// Off the manifold the risk is a polynomial in nu, theta, eta and rho (docs/theory.md, section 15). Its
// coefficients and their derivatives are nine more functions of mu, integrals of the same kind, which
// are tabulated when they are first asked for.
// The integrands are analytic for |Im s| < pi/2: the trapezoidal rule is off by exp(-pi^2 / GRID_STEP).

const GRID_STEP = 0.25; // of s, x and mu, so that A_i(s + mu) needs no interpolation
const GRID_FAR = 30; // integrands are dropped where they are below exp(-GRID_FAR) of their largest value
// Barycentric weights of twelve equidistant points.
const STENCIL = [1, -11, 55, -165, 330, -462, 462, -330, 165, -55, 11, -1];

// The rows b_0, b_1, ... at the places where e^y is factor * powers, which ascend. They end at y = 5,
// since beyond that exp(-e^y) < 1e-64 counts as 0.
function exponentials(orders, powers, factor) {
  let length = powers.length;
  while (length > 0 && factor * powers[length - 1] > Math.exp(5)) length--;
  const rows = Array.from({ length: orders }, () => new Float64Array(length));
  for (let k = 0; k < length; k++) {
    const power = factor * powers[k];
    let value = Math.exp(-power);
    for (const row of rows) {
      row[k] = value;
      value *= power;
    }
  }
  return rows;
}

// The rows E[b_0(x + sigma Z)], E[b_1(x + sigma Z)], ... at x = GRID_STEP first, ..., GRID_STEP last, as a sum over Z.
// E[e^{2 sigma Z}] has its mass at Z = 2 sigma: the sum goes beyond that.
function smoothed(orders, first, last, sigma) {
  const onGrid = sigma >= 2 * GRID_STEP; // then steps of GRID_STEP in sigma Z are short enough
  const dz = onGrid ? GRID_STEP / sigma : 0.5;
  const most = Math.ceil((8 + 2 * sigma) / dz);
  const weights = [];
  for (let j = -most; j <= most; j++) weights.push(Math.exp(-((j * dz) ** 2) / 2));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const margin = onGrid ? most : 0;
  const powers = Float64Array.from({ length: last - first + 1 + 2 * margin }, (_, i) => Math.exp(GRID_STEP * (first - margin + i)));
  const grid = onGrid ? exponentials(orders, powers, 1) : null;
  const rows = Array.from({ length: orders }, () => new Float64Array(last - first + 1));
  for (let j = -most; j <= most; j++) {
    const source = grid ?? exponentials(orders, powers, Math.exp(sigma * dz * j));
    const offset = grid ? j + most : 0;
    const weight = weights[j + most] / total;
    rows.forEach((row, p) => {
      const values = source[p];
      const end = Math.min(row.length, values.length - offset);
      for (let i = 0; i < end; i++) row[i] += weight * values[i + offset];
    });
  }
  return rows;
}

// What the n noise tokens add to the integrands, on the grid of s; D = d/ds.
function noiseFactors(n, g2, [psi0, psi1, psi2, psi3]) {
  // psi_0 is rounded to 1e-16, so its n-th power is good to 1e-16 n.
  const power = (p, exponent) => (exponent > 0 ? Math.exp(exponent * Math.log(p)) : 1);
  const one = psi0.map((p) => n * power(p, n - 1));
  const two = psi0.map((p) => n * (n - 1) * power(p, n - 2));
  const each = (value) => psi0.map((_, i) => value(i));
  return {
    absent: psi0.map((p) => power(p, n)),
    single: each((i) => one[i] * psi1[i]),
    K: each((i) => (1 + g2) * one[i] * psi2[i] + g2 * two[i] * psi1[i] ** 2),
    // of those off the manifold
    difference: each((i) => one[i] * (psi1[i] - psi2[i])),
    // of V = (E[(sum_{l>1} a_l X_l.k)^2] - E[sum_{l>1} a_l^2]) / lam^2: pairs, and each with itself
    pairs: each((i) => two[i] * ((psi1[i] - psi2[i]) ** 2 + psi1[i] * (2 * psi2[i] - psi3[i]))),
    own: each((i) => one[i] * (2 * psi2[i] - psi3[i])),
  };
}

// Two sets of functions of mu: how fast they decay for mu to -infinity and to infinity, where the gate
// is saturated, and the integrals over s with A_i at the index s + x.
const ON_MANIFOLD = {
  rates: [[1, 1, 0, 1], [0, 1, 2, 2]],
  integrals([A0, A1], { absent, single, K }, g2, x, from, to) {
    let [weight, slope, loss, gain] = [0, 0, 0, 0];
    for (let s = from; s <= to; s++) {
      weight += A1[s + x] * absent[s];
      slope += A1[s + x] * single[s];
      loss += A0[s + x] * K[s];
      gain += A1[s + x] * K[s];
    }
    return [weight, slope, loss, gain];
  },
};

// D slope, M2 = E[a_1^2], S, W, U, and D of the last four, named as in slr/gates/softmax_moments.py.
const OFF_MANIFOLD = {
  rates: [[1, 2, 1, 1, 0, 2, 1, 1, 1], [1, 0, 1, 1, 1, 1, 1, 1, 1]],
  integrals([A0, A1, A2, A3, A4], { absent, single, difference, pairs, own }, g2, x, from, to) {
    const [bySingle, byDifference] = [[0, 0, 0, 0, 0], [0, 0, 0]];
    let [m2, V, dV] = [0, 0, 0];
    for (let s = from; s <= to; s++) {
      const [a1, a2, a3] = [A1[s + x], A2[s + x], A3[s + x]];
      const [d1, d2] = [a1 - a2, 2 * a2 - a3]; // DA_1, DA_2
      const [dd1, dd2] = [a1 - 3 * a2 + a3, 4 * a2 - 5 * a3 + A4[s + x]];
      m2 += a2 * absent[s];
      bySingle[0] += d1 * single[s];
      bySingle[1] += a2 * single[s];
      bySingle[2] += d2 * single[s];
      bySingle[3] += dd1 * single[s];
      bySingle[4] += dd2 * single[s];
      byDifference[0] += a1 * difference[s];
      byDifference[1] += d1 * difference[s];
      byDifference[2] += dd1 * difference[s];
      V += A0[s + x] * pairs[s] + a1 * own[s];
      dV += d1 * own[s] - a1 * pairs[s];
    }
    const [dSlope, dM2, ddM2, ddSlope, dddM2] = bySingle;
    const [dSum, ddSum, dddSum] = byDifference; // of E[a_1] + E[sum_{l>1} a_l^2]
    return [
      dSlope, m2,
      g2 * dM2 + dSum, g2 * (g2 * dSlope - dSum), g2 * (g2 * ddM2 + 2 * ddSum) + V,
      dM2,
      g2 * ddM2 + ddSum, g2 * (g2 * ddSlope - ddSum), g2 * (g2 * dddM2 + 2 * dddSum) + dV,
    ];
  },
};

// What both tables are made of, on grids in units of GRID_STEP: s goes from left to right, and x = s + mu
// from lowest to highest. reach: the largest |mu| that is asked for. Beyond GRID_STEP end all functions are
// exponentials.
function softmaxGrids({ lam, gamma, L }, reach) {
  const [n, g2, sigma] = [L - 1, gamma * gamma, lam * gamma];
  const grid = (x) => Math.ceil(x / GRID_STEP);
  const end = grid(Math.min(reach, 20 + Math.log(L) + 2 * (sigma * sigma + lam * lam)));
  const half = end + STENCIL.length / 2;
  const noiseLeft = grid(-Math.log(n) - (lam * lam) / 2 - GRID_FAR);
  const signalLeft = -grid((sigma * sigma) / 2 + GRID_FAR);
  const left = Math.min(noiseLeft, signalLeft - half);
  const right = grid(lam * lam + 8 * lam + 4);
  const noise = noiseFactors(n, g2, smoothed(4, left, right, lam));
  const lowest = noiseLeft - half;
  const highest = Math.min(right + half, grid(2 * sigma * sigma + 8 * sigma + 4));
  const signal = smoothed(5, lowest, highest, sigma);
  return { g2, end, half, noiseLeft, signalLeft, left, right, lowest, highest, noise, signal };
}

// A table of one of the sets of functions at mu = -GRID_STEP half, ..., GRID_STEP half.
function softmaxTable(grids, { rates, integrals }) {
  const { g2, end, half, noiseLeft, signalLeft, left, right, lowest, highest, noise, signal } = grids;
  const count = rates[0].length;
  const rows = new Float64Array(count * (2 * half + 1));
  for (let m = -half; m <= half; m++) {
    const from = Math.max(left, lowest - m, Math.min(noiseLeft, signalLeft - m));
    const to = Math.min(right, highest - m);
    const values = integrals(signal, noise, g2, left + m - lowest, from - left, to - left);
    for (let i = 0; i < count; i++) rows[count * (m + half) + i] = GRID_STEP * values[i];
  }
  return { end, half, rows, rates };
}

// The functions of a table at mu: between its points by their polynomial of degree 11.
const lookUpParts = new Float64Array(STENCIL.length); // the same for all functions
function lookUp({ end, half, rows, rates }, mu) {
  const beyond = Math.max(0, Math.abs(mu) - GRID_STEP * end);
  const place = (mu - Math.sign(mu) * beyond) / GRID_STEP + half;
  const first = Math.floor(place) - STENCIL.length / 2 + 1;
  const count = rates[0].length;
  let total = 0;
  for (let j = 0; j < STENCIL.length; j++) total += lookUpParts[j] = STENCIL[j] / (place - first - j);
  const isPoint = Number.isInteger(place);
  const rate = rates[mu < 0 ? 0 : 1];
  const values = [];
  for (let i = 0; i < count; i++) {
    let value = 0;
    if (isPoint) value = rows[count * place + i];
    else for (let j = 0, at = count * first + i; j < STENCIL.length; j++, at += count) value += lookUpParts[j] * rows[at];
    values.push((beyond ? Math.exp(-rate[i] * beyond) : 1) * (isPoint ? value : value / total));
  }
  return values;
}

// The gate of task = {d, L, gamma, lam}: excessRisk and riskGradient of the five overlaps (the last
// three are 0 if they are left out), and fixedPoints() on the manifold.
function softmaxGate(task) {
  const h = Math.sqrt(task.d / 2);
  const lam = task.lam;
  const strength = lam * h;
  const g2 = task.gamma ** 2;
  const single = task.L === 1; // one token has all the weight
  const reach = strength + GRID_STEP; // differences may look a little beyond kappa = 1
  const grids = single ? null : softmaxGrids(task, reach);
  const table = single ? null : softmaxTable(grids, ON_MANIFOLD);
  const saturated = single ? 0 : GRID_STEP * grids.end;
  // The last kappa's values are kept: a Jacobian asks for them again and again.
  const remembered = (functions) => {
    let [last, values] = [NaN, null];
    return (kappa) => {
      if (kappa !== last) [last, values] = [kappa, functions(strength * kappa)];
      return values;
    };
  };
  const moments = remembered((mu) => (single ? [1, 0, 0, 0] : lookUp(table, mu)));
  let fullTable = null;
  const fullMoments = remembered((mu) => {
    if (single) return [0, 1, 0, 0, 0, 0, 0, 0, 0];
    fullTable ??= softmaxTable(grids, OFF_MANIFOLD);
    return lookUp(fullTable, mu);
  });

  function excessRisk(kappa, nu, theta = 0, eta = 0, rho = 0) {
    const [weight, slope, loss] = moments(kappa);
    const risk = loss + 2 * g2 * (1 - nu) * weight;
    if (theta === 0 && eta === 0 && rho === 0) return risk;
    const [, m2, S, W, U] = fullMoments(kappa);
    const read = h * theta;
    return risk + read * read * m2 + 2 * lam * read * (rho * S - g2 * eta * slope) + lam * lam * rho * (rho * U - 2 * eta * W);
  }

  // [R_kappa, R_nu, R_theta, R_eta, R_rho]
  function riskGradient(kappa, nu, theta = 0, eta = 0, rho = 0) {
    const [weight, slope, , gain] = moments(kappa);
    const byMu = 2 * g2 * (1 - nu) * slope - gain;
    if (theta === 0 && eta === 0 && rho === 0) return [strength * byMu, -2 * g2 * weight, 0, 0, 0];
    const [dSlope, m2, S, W, U, dM2, dS, dW, dU] = fullMoments(kappa);
    const read = h * theta;
    const off = read * read * dM2 + 2 * lam * read * (rho * dS - g2 * eta * dSlope) + lam * lam * rho * (rho * dU - 2 * eta * dW);
    return [
      strength * (byMu + off),
      -2 * g2 * weight,
      2 * h * (read * m2 + lam * (rho * S - g2 * eta * slope)),
      -2 * lam * (read * g2 * slope + lam * rho * W),
      2 * lam * (read * S + lam * (rho * U - eta * W)),
    ];
  }

  // weight > 0: nu always increases, and rests at -1 and 1 only. On nu = 1 the risk falls in kappa
  // (gain > 0), so only the corners remain; on nu = -1 kappa may also rest between them.
  function fixedPoints() {
    if (task.L === 1) {
      // kappa has no effect: all of an edge is at rest
      return [1, -1].map((nu) => ({ kappa: 0, nu, kind: nu > 0 ? "minimum" : "maximum", edge: true }));
    }
    const rises = (kappa) => riskGradient(kappa, -1)[0] > 0;
    const points = [
      { kappa: 1, nu: 1, kind: "minimum" },
      { kappa: -1, nu: 1, kind: "saddle" },
      { kappa: 1, nu: -1, kind: rises(1) ? "maximum" : "saddle" },
      { kappa: -1, nu: -1, kind: rises(-1) ? "saddle" : "maximum" },
    ];
    const span = Math.min(1, saturated / strength); // beyond it the sign stays
    const pieces = Math.ceil((2 * span * strength) / GRID_STEP) + 8;
    const edges = Array.from({ length: pieces + 1 }, (_, i) => span * ((2 * i) / pieces - 1));
    const signs = edges.map(rises);
    for (let i = 0; i < pieces; i++) {
      if (signs[i] === signs[i + 1]) continue;
      let [low, high] = [edges[i], edges[i + 1]];
      for (let halving = 0; halving < 50; halving++) {
        const middle = (low + high) / 2;
        if (rises(middle) === signs[i]) low = middle;
        else high = middle;
      }
      points.push({ kappa: low, nu: -1, kind: signs[i] ? "maximum" : "saddle" });
    }
    return points;
  }

  return { excessRisk, riskGradient, fixedPoints };
}

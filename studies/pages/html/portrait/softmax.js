"use strict";
// The softmax gate: token l has the weight a_l, a = softmax_l(lam X_l.k). With the informative token
// first and mu = lam h kappa, h = sqrt(d/2), g = gamma, the risk on the manifold is
//   R(kappa, nu) = g^2 (E[(1 - a_1)^2] + 2 (1 - nu) E[a_1]) + E[sum_{l>1} a_l^2]
// The gate needs four functions of mu, all positive, so that nothing cancels:
//   weight = E[a_1]                                slope = d weight/d mu = E[a_1 (1 - a_1)]
//   loss   = g^2 E[(1 - a_1)^2] + E[sum a_l^2]     gain  = -d loss/d mu = 2 E[a_1 (g^2 (1 - a_1)^2 + sum a_l^2)]
//   R = loss + 2 g^2 (1 - nu) weight,   R_nu = -2 g^2 weight,   R_kappa = lam h (2 g^2 (1 - nu) slope - gain)
//
// With 1/S = int e^{-tS} dt the L tokens factorise. In s = log t, with n = L - 1, Z ~ N(0, 1),
// b_i(y) = exp(i y - e^y), A_i(x) = E[b_i(x + lam g Z)] (informative token), psi_i(s) = E[b_i(s + lam Z)] (noise token):
//   weight(mu) = int A_1(s + mu) psi_0^n ds            slope(mu) = int A_1(s + mu) n psi_1 psi_0^{n-1} ds
//   loss(mu)   = int A_0(s + mu) K(s) ds               gain(mu)  = int A_1(s + mu) K(s) ds
//   K = (1 + g^2) n psi_2 psi_0^{n-1} + g^2 n (n-1) psi_1^2 psi_0^{n-2}
// The integrands are analytic for |Im s| < pi/2: the trapezoidal rule is off by exp(-pi^2 / STEP).

const STEP = 0.25; // of s, x and mu, so that A_i(s + mu) needs no interpolation
const FAR = 30; // integrands are dropped where they are below exp(-FAR) of their largest value
// Barycentric weights of twelve equidistant points.
const STENCIL = [1, -11, 55, -165, 330, -462, 462, -330, 165, -55, 11, -1];

// The rows b_0, b_1, ... at y = STEP first + shift, ..., STEP last + shift. They end at y = 5, since
// beyond that exp(-e^y) < 1e-64 counts as 0.
function exponentials(orders, first, last, shift) {
  const end = Math.min(last, Math.floor((5 - shift) / STEP));
  const rows = Array.from({ length: orders }, () => new Float64Array(Math.max(0, end - first + 1)));
  for (let k = first; k <= end; k++) {
    const power = Math.exp(STEP * k + shift);
    let value = Math.exp(-power);
    for (const row of rows) {
      row[k - first] = value;
      value *= power;
    }
  }
  return rows;
}

// The rows E[b_0(x + sigma Z)], E[b_1(x + sigma Z)], ... at x = STEP first, ..., STEP last, as a sum over Z.
// E[e^{2 sigma Z}] has its mass at Z = 2 sigma: the sum goes beyond that.
function smoothed(orders, first, last, sigma) {
  const onGrid = sigma >= 2 * STEP; // then steps of STEP in sigma Z are short enough
  const dz = onGrid ? STEP / sigma : 0.5;
  const most = Math.ceil((8 + 2 * sigma) / dz);
  const weights = [];
  for (let j = -most; j <= most; j++) weights.push(Math.exp(-((j * dz) ** 2) / 2));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const grid = onGrid ? exponentials(orders, first - most, last + most, 0) : null;
  const rows = Array.from({ length: orders }, () => new Float64Array(last - first + 1));
  for (let j = -most; j <= most; j++) {
    const source = grid ?? exponentials(orders, first, last, sigma * dz * j);
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

// A table of [weight, slope, loss, gain] at mu = -STEP half, ..., STEP half.
// reach: the largest |mu| that is asked for. Beyond STEP end all four are exponentials.
function softmaxTable({ lam, gamma, L }, reach) {
  const n = L - 1;
  const g2 = gamma * gamma;
  const sigma = lam * gamma;
  const grid = (x) => Math.ceil(x / STEP);
  const end = grid(Math.min(reach, 20 + Math.log(L) + 2 * (sigma * sigma + lam * lam)));
  const half = end + STENCIL.length / 2;
  // In units of STEP: s goes from left to right, x = s + mu from lowest to highest.
  const noiseLeft = grid(-Math.log(n) - (lam * lam) / 2 - FAR);
  const left = Math.min(noiseLeft, -half - grid((sigma * sigma) / 2 + FAR));
  const right = grid(lam * lam + 8 * lam + 4);
  const [psi0, psi1, psi2] = smoothed(3, left, right, lam);
  // psi_0 is rounded to 1e-16, so its n-th power is good to 1e-16 n.
  const power = (p, exponent) => (exponent > 0 ? Math.exp(exponent * Math.log(p)) : 1);
  const absent = psi0.map((p) => power(p, n));
  const single = psi0.map((p, i) => n * psi1[i] * power(p, n - 1));
  const K = psi0.map(
    (p, i) => (1 + g2) * n * psi2[i] * power(p, n - 1) + g2 * n * (n - 1) * psi1[i] ** 2 * power(p, n - 2),
  );
  const lowest = noiseLeft - half;
  const highest = Math.min(right + half, grid(2 * sigma * sigma + 8 * sigma + 4));
  const [A0, A1] = smoothed(2, lowest, highest, sigma);
  const rows = new Float64Array(4 * (2 * half + 1));
  for (let m = -half; m <= half; m++) {
    const from = Math.max(left, lowest - m, Math.min(noiseLeft, -m - grid((sigma * sigma) / 2 + FAR)));
    const to = Math.min(right, highest - m);
    let [weight, slope, loss, gain] = [0, 0, 0, 0];
    for (let s = from; s <= to; s++) {
      const a1 = A1[s + m - lowest];
      weight += a1 * absent[s - left];
      slope += a1 * single[s - left];
      loss += A0[s + m - lowest] * K[s - left];
      gain += a1 * K[s - left];
    }
    rows.set([STEP * weight, STEP * slope, STEP * loss, STEP * gain], 4 * (m + half));
  }
  return { end, half, rows };
}

// The function mu -> [weight, slope, loss, gain]: between the table's points by their polynomial of degree 11.
function softmaxMoments(task, reach) {
  if (task.L === 1) return { moments: () => [1, 0, 0, 0], saturated: 0 }; // one token has all the weight
  const { end, half, rows } = softmaxTable(task, reach);
  function moments(mu) {
    const beyond = Math.max(0, Math.abs(mu) - STEP * end);
    const place = (mu - Math.sign(mu) * beyond) / STEP + half;
    const first = Math.floor(place) - STENCIL.length / 2 + 1;
    const values = [0, 0, 0, 0];
    let total = 0;
    for (let j = 0; j < STENCIL.length; j++) {
      const distance = place - first - j;
      if (distance === 0) {
        for (let i = 0; i < 4; i++) values[i] = rows[4 * (first + j) + i];
        total = 1;
        break;
      }
      const part = STENCIL[j] / distance;
      total += part;
      for (let i = 0; i < 4; i++) values[i] += part * rows[4 * (first + j) + i];
    }
    const rates = mu < 0 ? [1, 1, 0, 1] : [0, 1, 2, 2]; // of decay, where the gate is saturated
    return values.map((value, i) => (value / total) * (beyond ? Math.exp(-rates[i] * beyond) : 1));
  }
  return { moments, saturated: STEP * end };
}

function softmaxGate(task) {
  const strength = task.lam * Math.sqrt(task.d / 2);
  const g2 = task.gamma ** 2;
  const { moments, saturated } = softmaxMoments(task, strength);

  function excessRisk(kappa, nu) {
    const [weight, , loss] = moments(strength * kappa);
    return loss + 2 * g2 * (1 - nu) * weight;
  }

  function riskGradient(kappa, nu) {
    const [weight, slope, , gain] = moments(strength * kappa);
    return [strength * (2 * g2 * (1 - nu) * slope - gain), -2 * g2 * weight];
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
    const pieces = Math.ceil((2 * span * strength) / STEP) + 8;
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

if (typeof module !== "undefined") module.exports = { softmaxGate };

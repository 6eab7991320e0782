"use strict";
// The error function, for the erf gate and for the Transformer's GELU.

const TWO_OVER_SQRT_PI = 2 / Math.sqrt(Math.PI);

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
    if (term < 1e-17 * sum) break;
  }
  return TWO_OVER_SQRT_PI * Math.exp(-x * x) * sum;
}

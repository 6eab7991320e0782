"use strict";
// How the phase portrait writes numbers.

const portraitNumbers = (function () {
  // A number with so many digits, as 1.23×10⁵ where it is very large or very small.
  function short(x, digits = 3) {
    if (x === 0 || (Math.abs(x) < 1e4 && Math.abs(x) >= 1e-3)) return String(Number(x.toPrecision(digits))).replace("-", "−");
    const [factor, exponent] = x.toExponential(digits - 1).split("e");
    const raised = [...exponent.replace("+", "")].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
    return `${Number(factor)}×10${raised}`.replace("-", "−").replace(/^1×/, "");
  }

  // −0.00 is 0.00
  const rounded = (x, digits = 2) => fixed(Number(x.toFixed(digits)) + 0, digits);
  const pair = (x, y) => `(${rounded(x)},\u00a0${rounded(y)})`;

  const tenths = (x) => Math.round(10 * x) / 10; // of a unit of a picture

  return { short, tenths, rounded, pair };
})();

"use strict";
// Risk and gradient flow of one setting of studies/pages/portrait.py in the (kappa, nu) square:
//   d kappa/dt = -(1 - kappa^2) R_kappa,   d nu/dt = -(1 - nu^2) R_nu      (Theorem 5)

function portraitFlow({ columns, points }) {
  const values = new Float32Array(bytesOf(columns).buffer); // R at nu = -1, 1; R_kappa at nu = -1, 1
  const count = values.length / 4;

  // A row at kappa, linear between the points of its grid.
  function at(row, kappa) {
    const place = ((kappa + 1) / 2) * (count - 1);
    const i = Math.min(Math.floor(place), count - 2);
    const [low, high] = [values[row * count + i], values[row * count + i + 1]];
    return low + (place - i) * (high - low);
  }
  const between = (row, kappa, nu) => ((1 - nu) * at(row, kappa) + (1 + nu) * at(row + 1, kappa)) / 2;
  const risk = (kappa, nu) => between(0, kappa, nu);
  const gradient = (kappa, nu) => [between(2, kappa, nu), (at(1, kappa) - at(0, kappa)) / 2];
  function velocity(kappa, nu) {
    const [byKappa, byNu] = gradient(kappa, nu);
    return [-(1 - kappa * kappa) * byKappa, -(1 - nu * nu) * byNu];
  }

  // The path from a start inside the square, as [t, kappa, nu] rows: the midpoint rule for artanh(kappa)
  // and artanh(nu), of which the square's edges are infinitely far away.
  function path(kappa, nu, end) {
    const [LENGTH, MOVE, FAR] = [0.01, 0.2, 8]; // of a step in the square and in artanh; tanh(8) is 1
    const inside = (x) => Math.max(-FAR, Math.min(FAR, x));
    let [x, y, t] = [Math.atanh(kappa), Math.atanh(nu), 0];
    const rows = [[0, kappa, nu]];
    while (t < end && rows.length < 5000) {
      const [dk, dn] = velocity(kappa, nu);
      const slopes = gradient(kappa, nu);
      const moves = [x, y].map((place, i) => (Math.abs(place) < FAR ? Math.abs(slopes[i]) / MOVE : 0));
      const dt = Math.min(end - t, 1 / Math.max(Math.hypot(dk, dn) / LENGTH, ...moves));
      const half = [x, y].map((place, i) => Math.tanh(inside(place - (dt / 2) * slopes[i])));
      const [byKappa, byNu] = gradient(...half);
      [x, y, t] = [inside(x - dt * byKappa), inside(y - dt * byNu), t + dt];
      [kappa, nu] = [Math.tanh(x), Math.tanh(y)];
      rows.push([t, kappa, nu]);
    }
    return rows;
  }

  // Where the risk is at least a level: per kappa of the grid an interval [kappa, from, to] of nu.
  function above(level) {
    return Array.from({ length: count }, (_, i) => {
      const [low, high] = [values[i], values[count + i]];
      const border = Math.max(-1, Math.min(1, (2 * level - low - high) / (high - low))) || 0;
      return [(2 * i) / (count - 1) - 1, ...(high >= low ? [border, 1] : [-1, border])];
    });
  }

  const risks = values.subarray(0, 2 * count);
  return { risk, velocity, path, above, points, least: Math.min(...risks), most: Math.max(...risks) };
}

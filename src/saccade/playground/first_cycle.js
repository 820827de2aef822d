/* Closed forms of the first cycle of Focus and Dilution: condensation, plateau, focus, and how long the rank-one flow is a guide.
 *
 * The formulas are those of theory/focus_and_dilution (condensation.py, unigram.py, focus.py, drift.py) and the start on the
 * rank-one manifold is that of forecasting/starts.py; sources and domains stand there, and tests/playground compares the numbers.
 */
const FirstCycle = (() => {
  "use strict";

  const HALF = 0.5; // of the embedding's norm on the plateau: where condensation counts as over
  const GROWN = 3; // queries that have grown by this factor have begun to focus, as in the event finder
  const BEYOND = 3; // times the last crossing to first order: how long the rank-one flow is followed, as in a forecast

  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  const norm = (a) => Math.sqrt(dot(a, a));
  const scaled = (a, factor) => a.map((x) => x * factor);
  const plus = (a, b) => a.map((x, i) => x + b[i]);
  const mean = (a) => a.reduce((sum, x) => sum + x, 0) / a.length;

  /** Row vector times a flat matrix (rows x columns). */
  function times(vector, matrix, columns) {
    return Array.from({ length: columns }, (_, j) => vector.reduce((sum, x, i) => sum + x * matrix[i * columns + j], 0));
  }

  /** A flat matrix (rows x columns) times a vector. */
  function onto(matrix, columns, vector) {
    const rows = matrix.length / columns;
    return Array.from({ length: rows }, (_, i) => vector.reduce((sum, x, j) => sum + matrix[i * columns + j] * x, 0));
  }

  /** The plateau: zeta, the patterns gamma and beta of the unigram point, and their norm g. */
  function plateau(pi) {
    const logs = pi.map(Math.log);
    const zeta = logs.map((x) => x - mean(logs));
    const g = Math.sqrt(norm(zeta) / norm(pi));
    return { zeta, g, gamma: scaled(pi, g / norm(pi)), beta: scaled(zeta, 1 / (g * norm(pi))) };
  }

  /** Growth rate of query and key on the plateau, at logitScale s and rate 1. */
  function focusRate(pi, P, zeta) {
    const persistence = pi.reduce((sum, share, i) => sum + share ** 2 * dot(P[i].map((x, j) => x - pi[j]), zeta), 0);
    const spread = pi.reduce((sum, share) => sum + share ** 3, 0) - dot(pi, pi) ** 2;
    return (norm(zeta) / norm(pi) ** 5) * persistence * spread;
  }

  /** Force of attention on the embedding at the unigram point, per unit of strength, across pi. */
  function drift(pi, P, { gamma, beta }) {
    const gain = P.map((row) => dot(row.map((x, j) => x - pi[j]), beta));
    const above = gamma.map((x) => x - dot(pi, gamma));
    const K_1 = pi.reduce((sum, share, i) => sum + share * gamma[i] * gain[i], 0);
    const variance = pi.reduce((sum, share, i) => sum + share * above[i] ** 2, 0);
    const force = pi.map((share, j) => share * (2 * K_1 * above[j] + gain[j] * variance));
    return plus(force, scaled(pi, -dot(force, pi) / dot(pi, pi)));
  }

  /** The largest strength at which a token's gamma crosses zero, to first order; 1 if none does. */
  function lastCrossing(pi, P, point, rate) {
    const sign = Math.sign(rate);
    const crossing = (force, i) => (sign * force < 0 ? (-2 * Math.abs(rate) * point.gamma[i]) / force : 0);
    const crossings = drift(pi, P, point).map(crossing);
    return Math.max(...crossings.map(Math.abs)) || 1;
  }

  /** The direction that a start condenses to, and the size a + b of its growing mode. */
  function condensed(pi, start, width) {
    const u = pi.map((share) => share - 1 / pi.length);
    const a = times(scaled(pi, 1 / norm(pi)), start.embedding, width);
    const b = onto(start.projection, pi.length, scaled(u, 1 / norm(u)));
    const size = norm(plus(a, b));
    return { direction: scaled(plus(a, b), 1 / size), size, rate: norm(pi) * norm(u) };
  }

  /** The start as the rank-one flow will see it once it has condensed. */
  function manifoldPoint({ stationary, dModel, dKey, start }, direction, sign) {
    const q = times(direction, start.query, dKey), k = times(direction, start.key, dKey);
    const mode = plus(q, scaled(k, sign));
    const a = scaled(mode, 1 / norm(mode));
    return {
      gamma: onto(start.embedding, dModel, direction),
      beta: times(direction, start.projection, stationary.length),
      query: dot(q, a),
      key: dot(k, a),
    };
  }

  /** Time from the plateau on until the query matrix has grown by GROWN. */
  function growthTime({ start, dKey }, direction, rate) {
    const q = times(direction, start.query, dKey), k = scaled(times(direction, start.key, dKey), Math.sign(rate));
    const a = norm(plus(q, k)) ** 2 / 4, b = norm(plus(q, scaled(k, -1))) ** 2 / 4;
    const target = (GROWN ** 2 - 1) * dot(Array.from(start.query), start.query) + a + b;
    return Math.log((target + Math.sqrt(target ** 2 - 4 * a * b)) / (2 * a)) / (2 * Math.abs(rate));
  }

  /**
   * @param {object} task of FocusAndDilution.checkedTask @param {number} lrDecoder @param {number} lrAttention
   * Throws a sentence where the theory does not apply: a uniform law, no start, nothing that moves attention.
   */
  function create(task, lrDecoder, lrAttention) {
    const { stationary: pi, transition: P, logitScale: s } = task;
    const { direction, size, rate: drive } = condensed(pi, task.start, task.dModel);
    if (!(lrDecoder * drive > 1e-9)) throw new Error("A uniform law has no direction to condense to: theory says nothing of it.");
    if (!(size > 0)) throw new Error("A start at zero never leaves it: theory says nothing of it.");
    const point = plateau(pi);
    const condensationRate = lrDecoder * drive, focus = lrAttention * s * focusRate(pi, P, point.zeta);
    const condensationEnd = Math.log((2 * HALF * point.g) / size) / condensationRate;
    const start = manifoldPoint(task, direction, Math.sign(focus) || 1);
    const timesOfFocus = focus === 0 ? { focusOnset: Infinity, guideUntil: Infinity } : focusTimes();

    function focusTimes() {
      const strength = lastCrossing(pi, P, point, focus / lrDecoder);
      const grown = Math.abs(start.query) + Math.abs(start.key);
      const whole = Math.max(0, Math.log((4 * strength) / (s * grown ** 2))) / (2 * Math.abs(focus));
      return {
        focusOnset: Math.max(0, condensationEnd) + growthTime(task, direction, focus),
        guideUntil: BEYOND * (Math.max(0, condensationEnd) + whole) + 10 / lrDecoder,
      };
    }

    const rates = { condensationRate, focusRate: focus, focusSign: Math.sign(focus) };
    return { ...rates, condensationEnd, plateau: point, direction, start, ...timesOfFocus };
  }

  return Object.freeze({ create });
})();

/* Closed forms of Scan and Snap: how high the decoder stands, how fast attention may move, how far it has come, and the onsets.
 *
 * The formulas are those of theory/scan_and_snap (decoder.py, clock.py, snapping.py, self_consistent.py), where their sources,
 * domains and errata stand; tests/playground compares the numbers. M is the vocabulary, K the number of classes, each drawn
 * equally often. Implicit equations are solved by Newton's method from the side on which it cannot overshoot.
 */
const GrowthClock = (() => {
  "use strict";

  const NEWTON_STEPS = 100; // about ln M are needed; this only ends a loop on values that are not numbers

  /** Root of a function by Newton's method from `x`; `step(x)` is f/f'. */
  function newton(x, step) {
    for (let n = 0; n < NEWTON_STEPS; n++) {
      const move = step(x);
      x -= move;
      if (!(Math.abs(move) > 1e-16 * Math.abs(x))) break;
    }
    return x;
  }

  /** M h of the decoder after a class was drawn `draws` times: e^x + (M - 1) x = M eta_Y draws + 1. */
  function scaledHeight(draws, M, lrDecoder) {
    const drawn = lrDecoder * draws;
    if (drawn === 0) return 0;
    // Both e^x - 1 and M x, for which e^x - 1 + (M - 1) x stands, are at most M drawn: the smaller bound is right of the root.
    return newton(Math.min(drawn, Math.log1p(M * drawn)), (x) => {
      const decay = Math.exp(-x);
      return (-Math.expm1(-x) + (M - 1) * x * decay - drawn * (M * decay)) / (1 + (M - 1) * decay);
    });
  }

  /** The larger height where exponential and linear term balance, times M: y - ln y = ln(M - 1), y > 1. */
  const balance = (M) => newton(2 * Math.log(M - 1), (y) => (y - Math.log(y) - Math.log(M - 1)) / (1 - 1 / y));

  /** x* = 1 + W((M - 1) / e), with W e^W = (M - 1) / e. */
  function peakHeight(M) {
    const a = (M - 1) / Math.E;
    return 1 + newton(0, (w) => (w - a * Math.exp(-w)) / (1 + a * Math.exp(-w)));
  }

  /**
   * @param {Object} values nVocab, nClasses, lrDecoder, lrAttention, and of the leader's class
   *   normaliser: rho_0, the inverse root of its overlap with others (null: there is none),
   *   concentration: s, the sum of f^4 over its distinct tokens
   */
  function create({ nVocab: M, nClasses: K, lrDecoder, lrAttention, normaliser, concentration }) {
    const height = (t) => scaledHeight(t / K, M, lrDecoder) / M;
    const distance = (t) => (K * ((M - 1) * height(t)) ** 2) / (2 * lrDecoder);
    const kappa = K + concentration;

    function speed(t) {
      const x = scaledHeight(t / K, M, lrDecoder);
      return ((M - 1) * x) / M / (1 + Math.exp(x - Math.log(M - 1)));
    }

    /** B with the common token falling through all classes and the coupling's floor of 1/M. */
    function growth(t) {
      if (normaliser === null) return null;
      const start = normaliser ** 2 / M;
      const target = start - Math.log1p(start) + (2 * kappa * (K - 1) * (lrAttention / K) * distance(t)) / M ** 2;
      const v = newton(target + Math.sqrt(target * (target + 2)), (x) => ((x - Math.log1p(x) - target) * (1 + x)) / x);
      return Math.log(v / start) / (2 * kappa);
    }

    /** B of Theorem 4, with the rate that training steps count. */
    function printedGrowth(t) {
      return normaliser === null ? null : 0.25 * Math.log1p((4 * (lrAttention / K) * distance(t) * K) / normaliser ** 4);
    }

    function speedPeak() {
      const x = peakHeight(M);
      return { time: (K * (Math.expm1(x) + (M - 1) * x)) / (M * lrDecoder), value: ((M - 1) / M) * (x - 1) };
    }

    return {
      height, speed, distance, growth, printedGrowth, speedPeak: speedPeak(),
      scanTime: (K * Math.log(M)) / lrDecoder,
      snapTime: M >= 4 ? (2 * K * balance(M)) / lrDecoder : null, // below, the exponential is always the larger
    };
  }

  return Object.freeze({ create, scaledHeight });
})();

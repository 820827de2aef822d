/* Descent without noise: gradient descent, with momentum or as Adam, on the population's gradient.
 *
 * The updates are those of Optax: momentum m <- g + mu m, step -rate m; Adam with bias correction, beta 0.9 and 0.999,
 * epsilon 1e-8. Time counts updates; a time between two updates is the state after the earlier one.
 */
const Descent = (() => {
  "use strict";

  const BETA_1 = 0.9, BETA_2 = 0.999, EPSILON = 1e-8; // Optax's defaults, which are Adam's own
  const STEPS_BETWEEN_LOOKS = 16; // at the clock
  const DIVERGED = 1000; // times the loss of guessing uniformly, as in the Python engine

  /**
   * @param {(state: Float64Array, out: Float64Array) => number} downhill minus the gradient of the loss; gives the loss
   * @param {Float64Array} start copied
   * @param {{optimiser: string, momentum: number, groups: {from: number, to: number, rate: number}[], uniformLoss: number}} options
   *   optimiser: sgd, momentum or adam; uniformLoss: that of guessing uniformly, by which a loss beyond all bounds is known
   */
  function path(downhill, start, { optimiser, momentum, groups, uniformLoss }) {
    const size = start.length;
    const state = Float64Array.from(start);
    const before = Float64Array.from(start);
    const force = new Float64Array(size);
    const first = new Float64Array(size); // velocity, or Adam's mean
    const second = new Float64Array(size); // Adam's mean square
    const run = { time: 0, state, stopped: null, evaluations: 0, advance };
    const update = { sgd: plain, momentum: heavy, adam }[optimiser];

    function plain(i, rate) {
      state[i] += rate * force[i];
    }

    function heavy(i, rate) {
      first[i] = force[i] + momentum * first[i];
      state[i] += rate * first[i];
    }

    function adam(i, rate, correction_1, correction_2) {
      first[i] = BETA_1 * first[i] + (1 - BETA_1) * force[i];
      second[i] = BETA_2 * second[i] + (1 - BETA_2) * force[i] * force[i];
      state[i] += (rate * first[i]) / correction_1 / (Math.sqrt(second[i] / correction_2) + EPSILON);
    }

    /** One update; a state whose loss is beyond all bounds is taken back. */
    function step() {
      const loss = downhill(state, force);
      run.evaluations += 1;
      if (!(loss <= DIVERGED * uniformLoss)) return stop();
      before.set(state);
      const count = run.time + 1;
      const correction_1 = 1 - BETA_1 ** count, correction_2 = 1 - BETA_2 ** count;
      for (const { from, to, rate } of groups) {
        for (let i = from; i < to; i++) update(i, rate, correction_1, correction_2);
      }
      run.time = count;
    }

    function stop() {
      run.stopped = "it diverged: its loss left all bounds";
      state.set(before);
      run.time = Math.max(0, run.time - 1);
    }

    function advance(t, until = Infinity) {
      const goal = Math.floor(t);
      while (run.time < goal && run.stopped === null) {
        step();
        if (run.time % STEPS_BETWEEN_LOOKS === 0 && performance.now() >= until) return;
      }
    }

    return run;
  }

  return Object.freeze({ path });
})();

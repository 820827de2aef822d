/* A step for stiff stretches of a flow: the linearly implicit Euler method, extrapolated to order 8.
 *
 *   y_{k+1} = y_k + (I - h S)^-1 h v(y_k),   S a matrix near the slope of v that is kept for the whole step.
 *
 * With n = 1, 2, ... 8 substeps of h = H/n the results have an expansion in powers of h whatever S is (Hairer and Wanner, Solving
 * Ordinary Differential Equations II, IV.9), so extrapolation to h = 0 is exact to order 8 even though S is only the part of the
 * slope that is stiff. What S is and how I - h S is solved with is the model's own (`curvature`).
 */
const StiffStep = (() => {
  "use strict";

  const ORDER = 8; // fewest steps for their cost on six tokens among 6, 8 and 10
  const RELATIVE = 1e-9, ABSOLUTE = 1e-12; // of the result of order 7, whose error is some hundred times that of the one taken

  /**
   * @param {(state: Float64Array, out: Float64Array) => void} velocity
   * @param {{prepare: (state: Float64Array) => void, factored: (h: number) => ((vector: Float64Array) => void)}} curvature
   *   prepare: at the beginning of a step; factored: gives what turns a vector b into (I - h S)^-1 b, in place
   */
  function create(velocity, curvature, size) {
    const table = Array.from({ length: ORDER }, () => new Float64Array(size)); // the last row of extrapolated results
    const state = new Float64Array(size), move = new Float64Array(size);

    function substeps(start, h, count) {
      const solve = curvature.factored(h);
      state.set(start);
      for (let k = 0; k < count; k++) {
        velocity(state, move);
        for (let i = 0; i < size; i++) move[i] *= h;
        solve(move);
        for (let i = 0; i < size; i++) state[i] += move[i];
      }
    }

    /** Aitken and Neville: the result of `count` substeps joins the table. */
    function extrapolate(count) {
      for (let i = 0; i < size; i++) {
        let value = state[i];
        for (let l = 1; l < count; l++) {
          const older = table[l - 1][i];
          table[l - 1][i] = value;
          value += (value - older) / (count / (count - l) - 1);
        }
        table[count - 1][i] = value;
      }
    }

    /** From `start`, where the curvature is prepared, over a time H into `out`; gives its error over what is allowed. */
    function step(start, H, out) {
      for (let count = 1; count <= ORDER; count++) {
        substeps(start, H / count, count);
        extrapolate(count);
      }
      out.set(table[ORDER - 1]);
      let sum = 0;
      for (let i = 0; i < size; i++) {
        const allowed = ABSOLUTE + RELATIVE * Math.max(Math.abs(start[i]), Math.abs(out[i]));
        sum += ((out[i] - table[ORDER - 2][i]) / allowed) ** 2;
      }
      return Math.sqrt(sum / size);
    }

    return { prepare: curvature.prepare, step };
  }

  return Object.freeze({ create });
})();

/* The theory's own flow (C) of Scan and Snap, for which the paper's closed forms hold.
 *
 *   w_n' = eta_Y P(n) (e_n - softmax(w_n)),   z_m' as in scan_and_snap.js with g_n = F (F^T F)^-1 W (e_n - alpha_n).
 *
 * By symmetry the logits of a class take two values, its own next token's and any other token's; the state is these two for
 * each class, then Z. As in the Python engine attention moves with P(n) for each class, as training does (engines/flow.py).
 */
const ReducedFlow = (() => {
  "use strict";

  /** @param {object} layout of PairwiseModel.layoutOf @param {object} task of ScanAndSnap.checkedTask */
  function create(layout, task) {
    const { rows, queries, classes } = layout;
    const K = classes.length, M = task.nVocab, nRows = rows.length, split = 2 * K;
    checkIndependence(task.tokenProb);
    const size = split + queries.length * nRows;
    const features = new Float64Array(K * nRows); // class, row
    const gram = new Float64Array(K * K), mix = new Float64Array(K * K);
    const other = new Float64Array(K), wrong = new Float64Array(K);
    const atSupport = new Float64Array(nRows);

    function spreadFeatures(state) {
      features.fill(0);
      classes.forEach((one, n) => {
        PairwiseModel.featureOf(one, state, split, nRows, atSupport);
        for (let i = 0; i < one.support.length; i++) features[n * nRows + one.support[i]] = atSupport[i];
      });
      for (let k = 0; k < K; k++) for (let n = 0; n < K; n++) gram[k * K + n] = overlap(k, n);
    }

    function overlap(k, n) {
      let sum = 0;
      for (let i = 0; i < nRows; i++) sum += features[k * nRows + i] * features[n * nRows + i];
      return sum;
    }

    /** mix (k, n): how much of f_k is in g_n, (F^T F)^-1 times w_k . (e_n - alpha_n). */
    function mixFeatures(state) {
      for (let n = 0; n < K; n++) {
        const odds = Math.exp(state[K + n] - state[n]);
        other[n] = odds / (1 + (M - 1) * odds);
        wrong[n] = (M - 1) * other[n];
      }
      for (let k = 0; k < K; k++) {
        const a = state[k], b = state[K + k];
        for (let n = 0; n < K; n++) {
          mix[k * K + n] = k === n ? wrong[n] * (a - b) : b * (wrong[n] - (M - 2) * other[n]) - a * other[n];
        }
      }
      LinearAlgebra.solve(gram, mix, K, K);
    }

    function direction(state, out) {
      out.fill(0);
      spreadFeatures(state);
      mixFeatures(state);
      classes.forEach((one, n) => {
        out[n] = one.weight * wrong[n];
        out[K + n] = -one.weight * other[n];
        addAttention(one, n, out);
      });
    }

    function addAttention(one, n, out) {
      const base = split + one.query * nRows;
      let along = 0;
      for (let i = 0; i < one.support.length; i++) {
        const row = one.support[i];
        atSupport[i] = features[n * nRows + row] * backpropagated(n, row);
        along += atSupport[i];
      }
      for (let i = 0; i < one.support.length; i++) {
        const f = features[n * nRows + one.support[i]];
        out[base + one.support[i]] += one.weight * (atSupport[i] - f * f * along);
      }
    }

    function backpropagated(n, row) {
      let g = 0;
      for (let k = 0; k < K; k++) g += mix[k * K + n] * features[k * nRows + row];
      return g;
    }

    function loss(state) {
      const deficit = (n) => Math.log(M - 1) + state[K + n] - state[n];
      return classes.reduce((sum, one, n) => sum + one.weight * PairwiseModel.softplus(deficit(n)), 0);
    }

    /** Of Y = F (F^T F)^-1 W, over the classes' own next tokens and one column for all the other tokens. */
    function singularValues(state) {
      spreadFeatures(state);
      const columns = M > K ? K + 1 : K;
      const decoder = Float64Array.from({ length: K * columns }, (_, at) => {
        const k = Math.floor(at / columns), j = at % columns;
        return j === k ? state[k] : state[K + k] * (j === K ? Math.sqrt(M - K) : 1);
      });
      LinearAlgebra.solve(gram, decoder, K, columns);
      return LinearAlgebra.singularValues(timesFeatures(decoder, columns), nRows, columns).slice(0, K);
    }

    function timesFeatures(decoder, columns) {
      const whole = new Float64Array(nRows * columns);
      for (let i = 0; i < nRows; i++) {
        for (let k = 0; k < K; k++) {
          const f = features[k * nRows + i];
          for (let j = 0; j < columns; j++) whole[i * columns + j] += f * decoder[k * columns + j];
        }
      }
      return whole;
    }

    const decoder = (state) => ({ ownLogit: Array.from(state.subarray(0, K)), otherLogit: Array.from(state.subarray(K, split)) });
    return { start: new Float64Array(size), split, direction, loss, singularValues, decoder };
  }

  function checkIndependence(tokenProb) {
    const K = tokenProb.length, width = tokenProb[0].length;
    const values = LinearAlgebra.singularValues(Float64Array.from(tokenProb.flat()), K, width);
    const independent = width >= K && values[K - 1] > values[0] * Math.max(K, width) * Number.EPSILON; // as NumPy's matrix_rank
    if (independent) return;
    throw new Error("The reduced flow needs linearly independent classes; some `tokenProb` is a mixture of the others.");
  }

  return Object.freeze({ create });
})();

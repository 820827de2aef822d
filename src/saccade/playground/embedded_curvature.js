/* The stiff part of the embedded model's flow: minus R J^T H J, with J the slope of the next-token logits in the weights, H the
 * curvature of the loss in these logits, block by block pi_i (diag p_i - p_i p_i^T), and R the rates.
 *
 * What it leaves out of the slope is a sum over errors, which is not stiff and dies as the model learns. It has no more than d^2
 * directions among all the weights, so (I + h R J^T H J) b = c is solved with matrices of d^2 rows:
 *   b = c - h R J^T (I + h H J R J^T)^-1 H J c.
 * In the terms of embedded_model.js J^T v is (C B, C^T W0) with C that of errors v, and J R J^T needs only the Gram matrices of
 * B and W0.
 */
const EmbeddedCurvature = (() => {
  "use strict";

  const MOST_TOKENS = 12; // matrices of d^2 rows: beyond it a step would take longer than a frame

  /** Of a stiff step in explicit ones: multiplications, doubled because their loops are short (measured on 6 to 12 tokens). */
  function cost(n, m, width) {
    const N = n * n, evaluation = 3 * n * m * (width + n);
    const substeps = 36 * (2 * evaluation + 2 * N * N), factors = (8 * N ** 3) / 3, preparation = N * n * m * (m + n);
    return (2 * (substeps + factors + preparation)) / (16 * evaluation);
  }

  /** @param {object} model of EmbeddedModel.create @param {number[]} rates of the decoder and of the attention */
  function create(model, [rateDecoder, rateAttention]) {
    const { n, m, width } = model.shape;
    const N = n * n, bAt = n * width;
    const gramB = new Float64Array(m * m), gram0 = new Float64Array(n * n);
    const coupling = new Float64Array(N * N); // H J R J^T
    const C = new Float64Array(n * m), dF = new Float64Array(n * m), inLogits = new Float64Array(N);
    const rate = Float64Array.from({ length: m }, (_, r) => (r < n ? rateDecoder : rateAttention));
    let point = null;

    function gram(at, rows, out) {
      const { state } = point;
      for (let p = 0; p < rows; p++) {
        for (let q = 0; q < rows; q++) {
          let sum = 0;
          for (let w = 0; w < width; w++) sum += state[at + p * width + w] * state[at + q * width + w];
          out[p * rows + q] = sum;
        }
      }
    }

    /** H times a vector over logits, in place. */
    function curve(values, stride, offset) {
      const { stationary, chances } = point;
      for (let i = 0; i < n; i++) {
        let mean = 0;
        for (let j = 0; j < n; j++) mean += chances[i * n + j] * values[(i * n + j) * stride + offset];
        for (let j = 0; j < n; j++) {
          const at = (i * n + j) * stride + offset;
          values[at] = stationary[i] * chances[i * n + j] * (values[at] - mean);
        }
      }
    }

    /** J R J^T of the errors whose C is given, into `inLogits`: dF = eta C B B^T + W0 W0^T C R. */
    function throughWeights() {
      dF.fill(0);
      for (let i = 0; i < n; i++) {
        for (let r = 0; r < m; r++) {
          const factor = rateDecoder * C[i * m + r];
          for (let q = 0; q < m; q++) dF[i * m + q] += factor * gramB[r * m + q];
        }
        for (let k = 0; k < n; k++) {
          for (let r = 0; r < m; r++) dF[i * m + r] += gram0[i * n + k] * C[k * m + r] * rate[r];
        }
      }
      model.logitsMoved(point, dF, inLogits);
    }

    function prepare(state) {
      point = { state: Float64Array.from(state), ...model.snapshot(state) };
      gram(bAt, m, gramB);
      gram(0, n, gram0);
      const unit = new Float64Array(N);
      for (let column = 0; column < N; column++) {
        unit.fill(0);
        unit[column] = 1;
        model.errorsBack(point, unit, C);
        throughWeights();
        for (let row = 0; row < N; row++) coupling[row * N + column] = inLogits[row];
        curve(coupling, N, column);
      }
    }

    /** J of a direction in weights, into `inLogits`: dF = dW0 B^T + W0 dB^T. */
    function seenInLogits(vector) {
      const { state } = point;
      for (let i = 0; i < n; i++) {
        for (let r = 0; r < m; r++) {
          const p = i * width, q = bAt + r * width;
          let sum = 0;
          for (let w = 0; w < width; w++) sum += vector[p + w] * state[q + w] + state[p + w] * vector[q + w];
          dF[i * m + r] = sum;
        }
      }
      model.logitsMoved(point, dF, inLogits);
    }

    /** vector -= h R J^T v, v the errors in `inLogits`. */
    function subtractInWeights(vector, h) {
      const { state } = point;
      model.errorsBack(point, inLogits, C);
      for (let i = 0; i < n; i++) {
        for (let r = 0; r < m; r++) {
          const p = i * width, q = bAt + r * width, c = h * C[i * m + r];
          for (let w = 0; w < width; w++) {
            vector[p + w] -= rateDecoder * c * state[q + w];
            vector[q + w] -= rate[r] * c * state[p + w];
          }
        }
      }
    }

    function factored(h) {
      const matrix = coupling.map((entry) => h * entry);
      for (let i = 0; i < N; i++) matrix[i * N + i] += 1;
      const solve = LinearAlgebra.factored(matrix, N);
      return (vector) => {
        seenInLogits(vector);
        curve(inLogits, 1, 0);
        solve(inLogits);
        subtractInWeights(vector, h);
      };
    }

    return { prepare, factored, cost: cost(n, m, width) };
  }

  return Object.freeze({ create, MOST_TOKENS });
})();

/* The embedded model in the limit of long contexts: minus the gradient of its loss, its loss, and what is looked at.
 *
 * The equations are in focus_and_dilution.js. What an embedding is multiplied with stands in one matrix,
 * B = [W1 | WQ | WK] transposed, so that one product F = W0 B^T gives M, queries and keys; and with
 * C = [dM | dPhi K | dPhi^T Q] one loop gives all slopes: W0' = -C B, B' = -C^T W0. C is the matrix that the theory's rule for
 * the next direction is about.
 * State: W0 (token, width), then B: W1^T (token, width), WQ^T and WK^T (key width, width). So the decoder's entries come first.
 */
const EmbeddedModel = (() => {
  "use strict";

  /** out -= C B and outB -= C^T W0 for C (n x m), B (m x width), W0 (n x width); B and W0 lie in the state, outputs in `out`. */
  function subtractSlopes(state, C, n, m, width, out) {
    const bAt = n * width;
    for (let i = 0; i < n; i++) {
      const row = i * width;
      for (let r = 0; r < m; r++) {
        const c = C[i * m + r], other = bAt + r * width;
        for (let w = 0; w < width; w++) {
          out[row + w] -= c * state[other + w];
          out[other + w] -= c * state[row + w];
        }
      }
    }
  }

  /** F = W0 B^T (n x m). */
  function project(state, n, m, width, F) {
    const bAt = n * width;
    for (let i = 0; i < n; i++) {
      const row = i * width;
      for (let r = 0; r < m; r++) {
        const other = bAt + r * width;
        let sum = 0;
        for (let w = 0; w < width; w++) sum += state[row + w] * state[other + w];
        F[i * m + r] = sum;
      }
    }
  }

  /** Softmax in place of n values from `at`, each entry with its own weight; gives the log of what they were divided by. */
  function normalise(values, at, n, weight) {
    let top = -Infinity, total = 0;
    for (let j = 0; j < n; j++) top = Math.max(top, values[at + j]);
    for (let j = 0; j < n; j++) total += values[at + j] = (weight ? weight[j] : 1) * Math.exp(values[at + j] - top);
    for (let j = 0; j < n; j++) values[at + j] /= total;
    return top + Math.log(total);
  }

  /** @param {object} task of FocusAndDilution.checkedTask */
  function create(task) {
    const { dModel: width, dKey, logitScale: s } = task;
    const pi = Float64Array.from(task.stationary), n = pi.length, P = Float64Array.from(task.transition.flat());
    const m = n + 2 * dKey; // columns of F and C: next tokens, then queries from `n`, then keys from `atKey`
    const atKey = n + dKey, split = 2 * n * width;
    const at = { embedding: 0, projection: n * width, query: split, key: split + width * dKey };
    const [F, C] = [new Float64Array(n * m), new Float64Array(n * m)];
    const [A, G, phi] = Array.from({ length: 3 }, () => new Float64Array(n * n));
    const here = { F, A };
    const along = new Float64Array(n);

    /** F, the attention logits and the attention. */
    function attend(state) {
      project(state, n, m, width, F);
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < n; j++) {
          let sum = 0;
          for (let a = 0; a < dKey; a++) sum += F[i * m + n + a] * F[j * m + atKey + a];
          A[i * n + j] = phi[i * n + j] = s * sum;
        }
        normalise(A, i * n, n, pi);
      }
    }

    /** Errors G_i = pi_i (softmax(A_i M) - P_i), and the loss on the way. */
    function predict() {
      let loss = 0;
      G.fill(0);
      for (let i = 0; i < n; i++) {
        const row = i * n;
        for (let k = 0; k < n; k++) for (let j = 0; j < n; j++) G[row + j] += A[row + k] * F[k * m + j];
        for (let j = 0; j < n; j++) loss -= pi[i] * P[row + j] * G[row + j];
        loss += pi[i] * normalise(G, row, n); // a row of P adds up to 1
        for (let j = 0; j < n; j++) G[row + j] = pi[i] * (G[row + j] - P[row + j]);
      }
      return loss;
    }

    /** C for errors in the logits (query, next token): dM = A^T errors and, through dPhi, dPhi K and dPhi^T Q. */
    function errorsBack({ F, A }, errors, C) {
      C.fill(0);
      for (let i = 0; i < n; i++) {
        const row = i * n;
        let mean = 0;
        for (let j = 0; j < n; j++) {
          const share = A[row + j];
          let sum = 0;
          for (let k = 0; k < n; k++) {
            C[j * m + k] += share * errors[row + k];
            sum += F[j * m + k] * errors[row + k];
          }
          along[j] = sum;
          mean += share * sum;
        }
        for (let j = 0; j < n; j++) addAttention(F, C, i, j, s * A[row + j] * (along[j] - mean));
      }
    }

    function addAttention(F, C, i, j, slope) {
      for (let a = 0; a < dKey; a++) {
        C[i * m + n + a] += slope * F[j * m + atKey + a];
        C[j * m + atKey + a] += slope * F[i * m + n + a];
      }
    }

    /** How the logits A M move when F moves by dF. */
    function logitsMoved({ F, A }, dF, out) {
      out.fill(0);
      for (let i = 0; i < n; i++) {
        let mean = 0;
        for (let j = 0; j < n; j++) {
          let sum = 0;
          for (let a = 0; a < dKey; a++) sum += dF[i * m + n + a] * F[j * m + atKey + a] + F[i * m + n + a] * dF[j * m + atKey + a];
          along[j] = s * sum;
          mean += A[i * n + j] * along[j];
        }
        for (let j = 0; j < n; j++) {
          const share = A[i * n + j], moved = share * (along[j] - mean);
          for (let k = 0; k < n; k++) out[i * n + k] += moved * F[j * m + k] + share * dF[j * m + k];
        }
      }
    }

    /** Gives the loss as well. */
    function direction(state, out) {
      attend(state);
      const loss = predict();
      errorsBack(here, G, C);
      out.fill(0);
      subtractSlopes(state, C, n, m, width, out);
      return loss;
    }

    function look(state) {
      attend(state);
      return { loss: predict(), attention: LinearAlgebra.rowsOf(A, 0, n, n), logitValues: LinearAlgebra.singularValues(phi, n, n) };
    }

    /** What the curvature of the loss at a state is made of; copies. */
    function snapshot(state) {
      attend(state);
      predict();
      const chances = G.map((error, at) => error / pi[Math.floor(at / n)] + P[at]);
      return { F: Float64Array.from(F), A: Float64Array.from(A), stationary: pi, chances };
    }

    function sizes(state) {
      const norm = (from, to) => Math.sqrt(state.subarray(from, to).reduce((sum, x) => sum + x * x, 0));
      return {
        singularValues: LinearAlgebra.singularValues(state.subarray(0, at.projection), n, width),
        projectionValues: LinearAlgebra.singularValues(state.subarray(at.projection, split), n, width),
        queryNorm: norm(split, at.key),
        keyNorm: norm(at.key, state.length),
      };
    }

    function parameters(state) {
      function turned(from, rows) {
        const flat = LinearAlgebra.transposed(state.subarray(from, from + rows * width), rows, width);
        return LinearAlgebra.rowsOf(flat, 0, width, rows);
      }
      return {
        embedding: LinearAlgebra.rowsOf(state, 0, n, width),
        query: turned(at.query, dKey),
        key: turned(at.key, dKey),
        projection: turned(at.projection, n),
      };
    }

    const start = new Float64Array(split + 2 * dKey * width);
    start.set(task.start.embedding);
    for (const name of ["projection", "query", "key"]) {
      start.set(LinearAlgebra.transposed(task.start[name], width, task.start[name].length / width), at[name]);
    }
    return { start, split, shape: { n, m, width }, direction, errorsBack, logitsMoved, snapshot, look, sizes, parameters };
  }

  return Object.freeze({ create });
})();

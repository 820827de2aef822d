/* The theory's own flow (C) of Focus and Dilution: every matrix has rank one, 2d + 2 numbers for the whole first cycle.
 *
 *   W0 = gamma alpha^T, W1 = alpha beta^T, WQ = l_q alpha a^T, WK = l_k alpha a^T with fixed unit vectors; kappa = s l_q l_k,
 *   A_ij = pi_j e^(kappa gamma_i gamma_j) normalised, h_i = A_i . gamma, z_i = h_i beta, G_i = softmax(z_i) - P_i,
 *   e_i = pi_i G_i . beta, v_i = Var_{A_i} gamma,
 *   gamma_j' = -eta sum_i e_i A_ij [1 + kappa gamma_i (gamma_j - h_i)] - eta kappa e_j v_j,   beta' = -eta sum_i pi_i h_i G_i,
 *   l_q' = -eta_A s l_k sum_i e_i gamma_i v_i,   l_k' likewise with l_q.
 *
 * As in theories/focus_and_dilution/rank_one.py and models/rank_one.py. After the second direction of the embedding has
 * opened it is no guide. State: gamma, beta, l_q, l_k.
 */
const RankOneFlow = (() => {
  "use strict";

  /** @param {{stationary: number[], transition: number[][], logitScale: number}} task @param {{gamma, beta, query, key}} point */
  function create({ stationary: pi, transition: P, logitScale: s }, point) {
    const n = pi.length;
    const A = new Float64Array(n), G = new Float64Array(n);

    /** Row i: attention into A, error into G; gives h_i, the variance v_i, and the loss of the row. */
    function row(state, i) {
      const kappa = s * state[2 * n] * state[2 * n + 1] * state[i];
      attend(state, kappa);
      let h = 0, variance = 0;
      for (let j = 0; j < n; j++) h += A[j] * state[j];
      for (let j = 0; j < n; j++) variance += A[j] * (state[j] - h) ** 2;
      return { h, variance, loss: predict(state, h, P[i]) };
    }

    function attend(state, strength) {
      let top = -Infinity, total = 0;
      for (let j = 0; j < n; j++) top = Math.max(top, strength * state[j]);
      for (let j = 0; j < n; j++) total += A[j] = pi[j] * Math.exp(strength * state[j] - top);
      for (let j = 0; j < n; j++) A[j] /= total;
    }

    function predict(state, h, next) {
      let top = -Infinity, total = 0, loss = 0;
      for (let j = 0; j < n; j++) top = Math.max(top, h * state[n + j]);
      for (let j = 0; j < n; j++) total += G[j] = Math.exp(h * state[n + j] - top);
      for (let j = 0; j < n; j++) {
        loss -= next[j] * (h * state[n + j] - top - Math.log(total));
        G[j] = G[j] / total - next[j];
      }
      return loss;
    }

    function direction(state, out) {
      out.fill(0);
      const [l_q, l_k] = [state[2 * n], state[2 * n + 1]];
      const kappa = s * l_q * l_k;
      for (let i = 0; i < n; i++) {
        const { h, variance } = row(state, i);
        let error = 0;
        for (let j = 0; j < n; j++) error += pi[i] * G[j] * state[n + j];
        for (let j = 0; j < n; j++) {
          out[j] -= error * A[j] * (1 + kappa * state[i] * (state[j] - h));
          out[n + j] -= pi[i] * h * G[j];
        }
        out[i] -= kappa * error * variance;
        out[2 * n] -= s * l_k * error * state[i] * variance;
        out[2 * n + 1] -= s * l_q * error * state[i] * variance;
      }
    }

    /** What this flow says of the whole model: its loss, its attention, and its one singular value. */
    function observed(state) {
      const attention = [];
      let loss = 0;
      for (let i = 0; i < n; i++) {
        loss += pi[i] * row(state, i).loss;
        attention.push(Array.from(A));
      }
      return { loss, attention, singularValues: [Math.hypot(...state.subarray(0, n))] };
    }

    const start = Float64Array.from([...point.gamma, ...point.beta, point.query, point.key]);
    return { start, split: 2 * n, direction, observed };
  }

  return Object.freeze({ create });
})();

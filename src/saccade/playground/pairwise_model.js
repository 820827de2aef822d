/* The pairwise model on classes of infinite context: where its numbers stand, minus the gradient of its loss, and its loss.
 *
 * The equations are in scan_and_snap.js. Rows of tokens that no class shows never move and are left out. From a zero start the
 * columns of tokens that are never predicted stay equal for ever, and one stands for all of them; that is exact.
 */
const PairwiseModel = (() => {
  "use strict";

  /** Where everything stands in a flat state: Y (row, column), then Z (query, row). Rows are the tokens that classes show. */
  function layoutOf(task, equalColumns) {
    const width = task.tokenProb[0].length;
    const rows = Array.from({ length: width }, (_, l) => l).filter((l) => task.tokenProb.some((row) => row[l] > 0));
    const queries = [...new Set(task.query)].sort((a, b) => a - b);
    const predicted = [...task.nextToken].sort((a, b) => a - b);
    const nRest = task.nVocab - predicted.length;
    const merged = equalColumns && nRest > 0;
    const columns = merged ? [...predicted, -1] : Array.from({ length: task.nVocab }, (_, j) => j);
    const columnSize = Float64Array.from(columns, (j) => (j < 0 ? nRest : 1));
    return {
      nVocab: task.nVocab, rows, queries, columns, columnSize, attentionAt: rows.length * columns.length,
      size: rows.length * (columns.length + queries.length),
      classes: task.tokenProb.map((row, n) => ({
        support: Int32Array.from(rows.flatMap((l, i) => (row[l] > 0 ? [i] : []))),
        prob: Float64Array.from(rows.flatMap((l) => (row[l] > 0 ? [row[l]] : []))),
        query: queries.indexOf(task.query[n]),
        target: columns.indexOf(task.nextToken[n]),
        weight: task.classWeight[n],
      })),
    };
  }

  /** Feature f_n of a class into `feature`, at its support. `at`: where Z starts in the state. */
  function featureOf(one, state, at, nRows, feature) {
    const { support, prob, query } = one;
    const base = at + query * nRows;
    let top = -Infinity, square = 0;
    for (let i = 0; i < support.length; i++) top = Math.max(top, state[base + support[i]]);
    for (let i = 0; i < support.length; i++) {
      feature[i] = prob[i] * Math.exp(state[base + support[i]] - top);
      square += feature[i] * feature[i];
    }
    const norm = Math.sqrt(square);
    for (let i = 0; i < support.length; i++) feature[i] /= norm;
  }

  /** The plain model (B): minus the gradient of its loss, and the loss. */
  function create(layout) {
    const { rows, columns, columnSize, classes, attentionAt, size } = layout;
    const nColumns = columns.length, nRows = rows.length;
    const feature = new Float64Array(nRows), gained = new Float64Array(nRows);
    const logits = new Float64Array(nColumns), error = new Float64Array(nColumns);
    const logSize = columnSize.map(Math.log);

    /** Logits of a class, and minus its margin: log-sum of the other columns' logits less the target's. */
    function deficit(one, state) {
      featureOf(one, state, attentionAt, nRows, feature);
      logits.fill(0);
      for (let i = 0; i < one.support.length; i++) {
        const base = one.support[i] * nColumns, f = feature[i];
        for (let j = 0; j < nColumns; j++) logits[j] += f * state[base + j];
      }
      let top = -Infinity, total = 0;
      for (let j = 0; j < nColumns; j++) if (j !== one.target) top = Math.max(top, logits[j] + logSize[j]);
      for (let j = 0; j < nColumns; j++) {
        error[j] = j === one.target ? 0 : Math.exp(logits[j] + logSize[j] - top);
        total += error[j];
      }
      const lacking = top + Math.log(total) - logits[one.target];
      // 1 - alpha_n from the others: late in training alpha_n is 1 to sixteen digits, and a subtraction would leave nothing.
      const push = one.weight * sigmoid(lacking);
      for (let j = 0; j < nColumns; j++) error[j] *= -push / total;
      error[one.target] = push;
      return lacking;
    }

    /** Gives the loss as well. */
    function direction(state, out) {
      let loss = 0;
      out.fill(0);
      for (const one of classes) {
        loss += one.weight * softplus(deficit(one, state));
        addDecoder(one, state, out);
        addAttention(one, out);
      }
      return loss;
    }

    /** f (e_n - alpha_n)^T, and f o g on the way. */
    function addDecoder(one, state, out) {
      for (let i = 0; i < one.support.length; i++) {
        const base = one.support[i] * nColumns, f = feature[i];
        let g = 0;
        for (let j = 0; j < nColumns; j++) {
          g += state[base + j] * error[j];
          out[base + j] += (f * error[j]) / columnSize[j];
        }
        gained[i] = f * g;
      }
    }

    function addAttention(one, out) {
      const base = attentionAt + one.query * nRows, n = one.support.length;
      let along = 0;
      for (let i = 0; i < n; i++) along += gained[i];
      for (let i = 0; i < n; i++) out[base + one.support[i]] += gained[i] - feature[i] * feature[i] * along;
    }

    const loss = (state) => classes.reduce((sum, one) => sum + one.weight * softplus(deficit(one, state)), 0);

    /** Of Y, from its groups of equal columns. */
    function singularValues(state) {
      const scaled = Float64Array.from({ length: attentionAt }, (_, i) => state[i] * Math.sqrt(columnSize[i % nColumns]));
      return LinearAlgebra.singularValues(scaled, nRows, nColumns).slice(0, classes.length);
    }

    /** Y over (token, next token); rows that no context can reach are 0. */
    function decoder(state) {
      const { nVocab } = layout;
      const columnOf = Array(nVocab).fill(nColumns - 1);
      columns.forEach((j, at) => { if (j >= 0) columnOf[j] = at; });
      const dense = Array.from({ length: nVocab }, () => Array(nVocab).fill(0));
      rows.forEach((l, i) => { dense[l] = columnOf.map((at) => state[i * nColumns + at]); });
      return { decoder: dense };
    }

    return { start: new Float64Array(size), split: attentionAt, direction, loss, singularValues, decoder };
  }

  const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));
  const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

  return Object.freeze({ layoutOf, featureOf, create, softplus });
})();

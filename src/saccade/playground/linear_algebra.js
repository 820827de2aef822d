/* Small dense linear algebra in float64: singular values by one-sided Jacobi rotations, and a solver with pivots.
 *
 * Matrices are Float64Arrays, row after row. Jacobi rotations find small singular values to their own relative precision,
 * which the eigenvalues of a Gram matrix would lose: a direction that is about to open is 1e-6 of the largest and below.
 */
const LinearAlgebra = (() => {
  "use strict";

  const SWEEPS = 30; // a handful do; this only ends a loop on values that are not numbers
  const ORTHOGONAL = 1e-15; // cosine between two rows that counts as none

  /**
   * @param {Float64Array} matrix @param {number} rows @param {number} columns
   * @returns {number[]} min(rows, columns) values, largest first
   */
  function singularValues(matrix, rows, columns) {
    if (rows > columns) return singularValues(transposed(matrix, rows, columns), columns, rows);
    const work = Float64Array.from(matrix);
    for (let sweep = 0; sweep < SWEEPS && rotateAllPairs(work, rows, columns); sweep++);
    const lengths = Array.from({ length: rows }, (_, i) => Math.sqrt(dot(work, i, i, columns)));
    return lengths.sort((a, b) => b - a);
  }

  /** The transpose of a flat matrix (rows x columns). */
  function transposed(matrix, rows, columns) {
    const out = new Float64Array(matrix.length);
    for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) out[j * rows + i] = matrix[i * columns + j];
    return out;
  }

  function dot(work, p, q, columns) {
    let sum = 0;
    for (let j = 0; j < columns; j++) sum += work[p * columns + j] * work[q * columns + j];
    return sum;
  }

  /** True if any pair of rows was not orthogonal yet. */
  function rotateAllPairs(work, rows, columns) {
    let turned = false;
    for (let p = 0; p < rows - 1; p++) {
      for (let q = p + 1; q < rows; q++) turned = rotate(work, p, q, columns) || turned;
    }
    return turned;
  }

  function rotate(work, p, q, columns) {
    const a = dot(work, p, p, columns), b = dot(work, q, q, columns), c = dot(work, p, q, columns);
    if (!(Math.abs(c) > ORTHOGONAL * Math.sqrt(a) * Math.sqrt(b))) return false;
    const zeta = (b - a) / (2 * c);
    const tangent = (zeta < 0 ? -1 : 1) / (Math.abs(zeta) + Math.sqrt(1 + zeta * zeta));
    const cosine = 1 / Math.sqrt(1 + tangent * tangent), sine = cosine * tangent;
    for (let j = 0; j < columns; j++) {
      const x = work[p * columns + j], y = work[q * columns + j];
      work[p * columns + j] = cosine * x - sine * y;
      work[q * columns + j] = sine * x + cosine * y;
    }
    return true;
  }

  /** A = L U with row pivots, in place of `a` (size x size); gives what solves A x = b, in place of b. */
  function factored(a, size) {
    const pivots = new Int32Array(size);
    for (let k = 0; k < size; k++) {
      let pivot = k;
      for (let i = k + 1; i < size; i++) if (Math.abs(a[i * size + k]) > Math.abs(a[pivot * size + k])) pivot = i;
      pivots[k] = pivot;
      swapRows(a, k, pivot, size);
      for (let i = k + 1; i < size; i++) {
        const factor = (a[i * size + k] /= a[k * size + k]);
        for (let j = k + 1; j < size; j++) a[i * size + j] -= factor * a[k * size + j];
      }
    }
    return (b) => substitute(a, pivots, b, size);
  }

  function substitute(a, pivots, b, size) {
    for (let k = 0; k < size; k++) swapRows(b, k, pivots[k], 1);
    for (let i = 1; i < size; i++) for (let j = 0; j < i; j++) b[i] -= a[i * size + j] * b[j];
    for (let i = size - 1; i >= 0; i--) {
      for (let j = i + 1; j < size; j++) b[i] -= a[i * size + j] * b[j];
      b[i] /= a[i * size + i];
    }
  }

  /** Solves A X = B in place: `a` (size x size) is used up, `b` (size x columns) becomes X. */
  function solve(a, b, size, columns) {
    const solved = factored(a, size), column = new Float64Array(size);
    for (let j = 0; j < columns; j++) {
      for (let i = 0; i < size; i++) column[i] = b[i * columns + j];
      solved(column);
      for (let i = 0; i < size; i++) b[i * columns + j] = column[i];
    }
  }

  function swapRows(matrix, p, q, columns) {
    if (p === q) return;
    for (let j = 0; j < columns; j++) {
      const kept = matrix[p * columns + j];
      matrix[p * columns + j] = matrix[q * columns + j];
      matrix[q * columns + j] = kept;
    }
  }

  /** Nested rows of a stretch of a state, for those who look at it. */
  function rowsOf(state, from, rows, columns) {
    return Array.from({ length: rows }, (_, i) => Array.from(state.subarray(from + i * columns, from + (i + 1) * columns)));
  }

  return Object.freeze({ singularValues, transposed, factored, solve, rowsOf });
})();

/* Laws that a person can drag: chances stay above a least value and always add up to one.
 *
 * A law of Scan and Snap has a row for each class over the class's own tokens, common ones first; of Focus and Dilution one row.
 * Moving one chance takes from or gives to the others in proportion, so that their ratios stay.
 */
const Laws = (() => {
  "use strict";
  const LEAST = 0.005; // a bar that can still be seen and caught
  const SLACK = 0.005; // chances in a link have four digits; this is what rounding them may add up to

  /** The row with entry `at` moved to `value`, or as near as the others allow. @param {number[]} row @returns {number[]} */
  function moved(row, at, value) {
    const most = 1 - LEAST * (row.length - 1);
    const wanted = Math.min(most, Math.max(LEAST, Number.isFinite(value) ? value : row[at]));
    const rest = 1 - row[at];
    const other = (chance) => (rest > 0 ? (chance * (1 - wanted)) / rest : (1 - wanted) / (row.length - 1));
    return lifted(row.map((chance, index) => (index === at ? wanted : other(chance))), at);
  }

  /** Entries below the least are set to it; what that takes comes from the largest other than `kept`. */
  function lifted(row, kept) {
    const raised = row.map((chance) => Math.max(LEAST, chance));
    const others = raised.map((chance, index) => (index === kept ? -1 : chance));
    const largest = others.indexOf(Math.max(...others));
    raised[largest] += 1 - raised.reduce((sum, chance) => sum + chance, 0);
    return raised;
  }

  /** A row of positive numbers, rescaled to add up to one. */
  function normalised(row) {
    const total = row.reduce((sum, chance) => sum + chance, 0);
    return row.map((chance) => chance / total);
  }

  const zipf = (count, power) => normalised(Array.from({ length: count }, (_, rank) => (rank + 1) ** -power));

  /** The law a model starts with for these numbers of tokens. */
  function fitting(model, { classes, common, distinct, tokens }) {
    if (model === "focus-and-dilution") return [tokens === 4 ? [0.6, 0.25, 0.1, 0.05] : zipf(tokens, 1.4)];
    // Common tokens hold two fifths, distinct ones the rest, unequally: theory says the frequent one wins.
    // Every second class has them in the other order, so that winners can be told from places.
    const shared = zipf(common, 0.5).map((chance) => 0.4 * chance);
    const own = zipf(distinct, 1).map((chance) => 0.6 * chance);
    return Array.from({ length: classes }, (_, n) => [...shared, ...(n % 2 ? [...own].reverse() : own)]);
  }

  /** Rows and columns a law must have. */
  function shape(model, { classes, common, distinct, tokens }) {
    return model === "focus-and-dilution" ? [1, tokens] : [classes, common + distinct];
  }

  /** A law read from outside, rescaled exactly; null if it is none or has another shape. */
  function checked(rows, [height, width]) {
    const good = Array.isArray(rows) && rows.length === height && rows.every((row) => Array.isArray(row) && row.length === width
      && row.every((chance) => Number.isFinite(chance) && chance >= LEAST / 2 && chance <= 1)
      && Math.abs(row.reduce((sum, chance) => sum + chance, 0) - 1) <= SLACK);
    return good ? rows.map(normalised) : null;
  }

  /** Chances over all tokens for each class: common tokens, then the distinct ones of class A, of class B, ... */
  function tokenProb(law, { classes, common, distinct }) {
    return law.map((row, n) => {
      const wide = new Array(common + classes * distinct).fill(0);
      row.forEach((chance, at) => { wide[at < common ? at : common + n * distinct + (at - common)] = chance; });
      return wide;
    });
  }

  const className = (n) => String.fromCharCode(65 + n);

  /** Names of a class's own tokens (Scan and Snap), or of all tokens. */
  function rowNames(model, { common, distinct, tokens }, n) {
    if (model === "focus-and-dilution") return Array.from({ length: tokens }, (_, at) => `${at + 1}`);
    const shared = Array.from({ length: common }, (_, at) => `c${at + 1}`);
    return [...shared, ...Array.from({ length: distinct }, (_, at) => `${className(n)}${at + 1}`)];
  }

  /** Names of all tokens, in the order of `tokenProb`. */
  function tokenNames(model, settings) {
    if (model === "focus-and-dilution") return rowNames(model, settings, 0);
    const { classes, common } = settings;
    const shared = rowNames(model, settings, 0).slice(0, common);
    return [...shared, ...Array.from({ length: classes }, (_, n) => rowNames(model, settings, n).slice(common)).flat()];
  }

  return Object.freeze({ LEAST, moved, fitting, shape, checked, tokenProb, className, rowNames, tokenNames });
})();

/* Laws that a person can drag: chances stay above a least value and always add up to one.
 *
 * A law of Scan and Snap has a row for each class over the class's own words; of Focus and Dilution one row. Which words, and in
 * which order, is decided in words.js. Moving one chance takes from or gives to the others in proportion, so that their ratios stay.
 */
const Laws = (() => {
  "use strict";
  const LEAST = 0.005; // a bar that can still be seen and caught
  const SLACK = 0.005; // chances in a link have four digits; this is what rounding them may add up to
  const SHARED = 0.4; // of a class: what its common tokens hold together
  const CHAIN = [0.5, 0.25, 0.15, 0.1];

  /** The row with entry `at` moved to `value`, or as near as the others allow. @param {number[]} row @returns {number[]} */
  function moved(row, at, value) {
    if (row.length < 2) return [1];
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

  /** Chances of a class: two fifths for its common words, the rest for its own, unequally, as theory says that the frequent one wins. */
  function classLaw(words, rows, turned) {
    const shared = words.filter((word) => Words.isCommonIn(rows, word));
    const own = words.filter((word) => !shared.includes(word));
    const chances = [zipf(shared.length, 0.5), zipf(own.length, 1)];
    if (turned) chances[1].reverse();
    const chance = (word) => (shared.includes(word) ? SHARED * chances[0][shared.indexOf(word)] : (1 - SHARED) * chances[1][own.indexOf(word)]);
    return normalised(words.map(chance));
  }

  /** The law that a model starts with for its words: by how often each was typed, or the page's own. */
  function fitting(model, settings) {
    const { rows, counts } = Words.of(model, settings);
    if (counts?.some((row) => Math.max(...row) > 1)) return counts.map(normalised);
    if (model === "focus-and-dilution") return [rows[0].length === CHAIN.length ? [...CHAIN] : zipf(rows[0].length, 1.2)];
    // Every second class has its own words in the other order, so that winners can be told from places.
    return rows.map((row, n) => classLaw(row, rows, n % 2 === 1));
  }

  /** How many chances each row of a law must have. */
  const shape = (model, settings) => Words.of(model, settings).rows.map((row) => row.length);

  /** A law read from outside, rescaled exactly; null if it is none or has another shape. */
  function checked(rows, widths) {
    const good = Array.isArray(rows) && rows.length === widths.length && rows.every((row, n) => Array.isArray(row) && row.length === widths[n]
      && row.every((chance) => Number.isFinite(chance) && chance >= LEAST / 2 && chance <= 1)
      && Math.abs(row.reduce((sum, chance) => sum + chance, 0) - 1) <= SLACK);
    return good ? rows.map(normalised) : null;
  }

  /** Chances over all tokens for each class, in the order of `Words.tokens`. */
  function tokenProb(law, rows) {
    const tokens = Words.tokens(rows);
    return rows.map((words, n) => tokens.map((token) => (words.includes(token) ? law[n][words.indexOf(token)] : 0)));
  }

  return Object.freeze({ LEAST, moved, fitting, shape, checked, tokenProb });
})();

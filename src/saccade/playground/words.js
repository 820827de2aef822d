/* Names of tokens: those that the page gives, or words that a visitor types.
 *
 * A class of Scan and Snap is a line of words, then `>` and the answer: "the dog bone leash > barks". A word that stands in several
 * lines is common to them. Of Focus and Dilution there is one line, the words of the chain. A word that is repeated in its line is
 * as much more frequent. In a link lines are separated by `;`.
 */
const Words = (() => {
  "use strict";
  const COMMON = ["the", "a", "of"];
  const OWN = [
    ["dog", "bone", "leash", "kennel"], ["cat", "milk", "yarn", "mouse"],
    ["bee", "honey", "hive", "wing"], ["cow", "grass", "barn", "bell"],
  ];
  const ANSWERS = ["barks", "meows", "buzzes", "moos"];
  const WEATHER = ["sun", "cloud", "rain", "snow", "fog", "hail"];
  const LIMITS = { lines: 4, words: 8, letters: 14, tokens: 6 }; // what bars and names have room for; tokens: of the chain

  function refuse(sentence) {
    throw new Error(`The typed words are not used: ${sentence}.`);
  }

  /** A line as its different words, in order, and how often each stands in it. */
  function counted(line) {
    const times = new Map();
    for (const word of line.split(/[\s,]+/).filter(Boolean)) {
      if (word.length > LIMITS.letters) refuse(`a word may have ${LIMITS.letters} letters, “${word.slice(0, LIMITS.letters)}…” has more`);
      times.set(word, (times.get(word) ?? 0) + 1);
    }
    return { words: [...times.keys()], counts: [...times.values()] };
  }

  function classLine(text, n) {
    const [line, ...rest] = text.split(">");
    const { words, counts } = counted(line);
    const answer = counted(rest.join(" ")).words[0] ?? `class ${n + 1}`;
    if (words.length < 1 || words.length > LIMITS.words) refuse(`a class has 1 to ${LIMITS.words} words, line ${n + 1} has ${words.length}`);
    return { words, counts, answer };
  }

  const lines = (text) => text.split(/[;\n]/).map((line) => line.trim()).filter(Boolean);

  /** Typed classes. @returns {{rows: string[][], counts: number[][], answers: string[]}} */
  function classes(text) {
    const read = lines(text).map(classLine);
    if (read.length < 2 || read.length > LIMITS.lines) refuse(`there must be 2 to ${LIMITS.lines} lines, one a class; there are ${read.length}`);
    const answers = read.map((one) => one.answer);
    if (new Set(answers).size < answers.length) refuse("two classes have the same answer");
    return { rows: read.map((one) => one.words), counts: read.map((one) => one.counts), answers };
  }

  function chain(text) {
    const { words, counts } = counted(lines(text).join(" "));
    if (words.length < 2 || words.length > LIMITS.tokens) refuse(`there must be 2 to ${LIMITS.tokens} different words; there are ${words.length}`);
    return { rows: [words], counts: [counts], answers: [] };
  }

  /** Names by rows of the law, how often each was typed (null where nothing was), and the classes' answers. */
  function of(model, settings) {
    if (settings.words) return model === "focus-and-dilution" ? chain(settings.words) : classes(settings.words);
    if (model === "focus-and-dilution") return { rows: [WEATHER.slice(0, settings.tokens)], counts: null, answers: [] };
    const shared = COMMON.slice(0, settings.common);
    const rows = OWN.slice(0, settings.classes).map((own) => [...shared, ...own.slice(0, settings.distinct)]);
    return { rows, counts: null, answers: ANSWERS.slice(0, settings.classes) };
  }

  /** All tokens, each once: those of several rows first. */
  function tokens(rows) {
    const all = [...new Set(rows.flat())];
    const isCommon = (word) => rows.filter((row) => row.includes(word)).length > 1;
    return [...all.filter(isCommon), ...all.filter((word) => !isCommon(word))];
  }

  /** The words of the page's own classes, as somebody would type them. */
  function typed(model, settings) {
    const { rows, answers } = of(model, settings);
    return rows.map((row, n) => (answers[n] ? `${row.join(" ")} > ${answers[n]}` : row.join(" "))).join("\n");
  }

  const oneLine = (text) => lines(text).join("; ");
  return Object.freeze({ of, tokens, typed, oneLine, isCommonIn: (rows, word) => rows.filter((row) => row.includes(word)).length > 1 });
})();

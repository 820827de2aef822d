/* Every setting of the playground: its name in a link, its words on the page, its limits and its default.
 *
 * Limits keep a frame within its time and a drawing legible; the engines themselves allow more. The defaults show the whole
 * story of each theory in one run: Scan and Snap begins in the theory's own flow, where theory and run agree.
 */
const Fields = (() => {
  "use strict";

  const OPTIMISERS = [["flow", "plain descent, as a flow"], ["sgd", "plain descent, in steps"], ["momentum", "with momentum"], ["adam", "Adam"]];
  const SPEEDS = [0.25, 0.5, 1, 2, 4];

  // With Adam each entry moves by about the rate in an update, so rates are smaller (`adam`). On the chain it rests on the plateau of
  // frequencies for ten thousand updates; at a rate of 0.003 it comes through them to the end of the story, at 0.01 not always.
  const rates = (optimisers, attention, adam) => [
    { name: "optimiser", kind: "choice", label: "Dynamics", choices: optimisers, start: optimisers[0][0], group: "Learning" },
    { name: "lrDecoder", kind: "log", label: "Rate of the decoder", low: 0.001, high: 100, start: 1, adam, group: "Learning" },
    { name: "lrAttention", kind: "log", label: "Rate of the attention", low: 0.001, high: 100, start: attention, adam, group: "Learning" },
    {
      name: "momentum", kind: "number", label: "Momentum", low: 0, high: 0.99, step: 0.01, start: 0.9, group: "Learning",
      when: (all) => all.optimiser === "momentum",
    },
  ];
  const seed = { name: "seed", kind: "count", label: "Seed of the start", low: 0, high: 9999, start: 0, group: "Start" };
  const end = { name: "end", kind: "log", label: "Run until time", group: "Learning", whole: true };
  const isRandom = (all) => all.init === "uniform";
  const STARTS = [["zero", "zero"], ["uniform", "random, uniform"]];

  const words = { name: "words", kind: "text", group: "Data", start: "", shape: true };
  const isOwn = (all) => !all.words; // typed words bring their own numbers of classes and tokens
  const shaped = { kind: "count", group: "Data", shape: true, when: isOwn };

  const SCAN = [
    { name: "law", kind: "law", label: "Chance of each word in a class", group: "Data" },
    {
      ...words, label: "Your own classes",
      hint: "One class a line: its words, then > and the answer. A word in several lines is common. Repeat a word to make it more frequent.",
    },
    { ...shaped, name: "classes", label: "Classes", low: 2, high: 4, start: 2 },
    { ...shaped, name: "common", label: "Common words", low: 1, high: 3, start: 1 },
    { ...shaped, name: "distinct", label: "Distinct words per class", low: 1, high: 4, start: 3 },
    ...rates([["reduced", "theory's own flow"], ...OPTIMISERS], 3, 0.01),
    { ...end, low: 100, high: 1e12, start: 1e4 },
    { name: "init", kind: "choice", label: "Start", choices: STARTS, start: "zero", group: "Start" },
    { name: "initScale", kind: "log", label: "Initial scale", low: 1e-4, high: 1, start: 0.1, group: "Start", when: isRandom },
    { ...seed, when: isRandom },
  ];
  const FOCUS = [
    { name: "law", kind: "law", label: "How often each word comes", group: "Data" },
    { name: "stay", kind: "number", label: "Chance of staying", low: 0, high: 0.95, step: 0.01, start: 0.7, group: "Data" },
    { ...words, label: "Your own words", hint: "Two to six words. Repeat a word to make it more frequent." },
    { ...shaped, name: "tokens", label: "Words", low: 2, high: 6, start: 4 },
    ...rates(OPTIMISERS, 10, 0.003),
    { ...end, low: 30, high: 1e5, start: 500, adam: 20000 },
    { name: "dModel", kind: "count", label: "Width of the model", low: 2, high: 16, start: 8, group: "Start" },
    { name: "initScale", kind: "log", label: "Initial scale", low: 1e-5, high: 0.3, start: 1e-3, group: "Start" },
    seed,
  ];

  const BY_MODEL = Object.freeze({ "scan-and-snap": SCAN, "focus-and-dilution": FOCUS });
  const MODELS = Object.freeze(Object.keys(BY_MODEL));
  const STEPS_MOST = 20000; // updates of an optimiser that steps: at some microseconds each, seconds in all

  /** The value that a field begins with, which may be another one for Adam. */
  const startOf = (field, optimiser) => (optimiser === "adam" ? field.adam ?? field.start : field.start);

  /** Settings of a model before anybody touched them, but for its optimiser. */
  function defaults(model, optimiser) {
    const plain = BY_MODEL[model].filter((field) => field.kind !== "law");
    const values = Object.fromEntries(plain.map((field) => [field.name, startOf(field, optimiser)]));
    values.optimiser = optimiser ?? values.optimiser;
    return { ...values, law: Laws.fitting(model, values) };
  }

  /** Settings after another optimiser was chosen: from and to Adam, what is another one for it starts anew. */
  function withOptimiser(model, settings, optimiser) {
    const anew = (settings.optimiser === "adam") !== (optimiser === "adam");
    const own = BY_MODEL[model].filter((field) => anew && field.adam !== undefined);
    return { ...settings, optimiser, ...Object.fromEntries(own.map((field) => [field.name, startOf(field, optimiser)])) };
  }

  const isFlow = ({ optimiser }) => optimiser === "flow" || optimiser === "reduced";

  /** The last time of a run: optimisers that step are stopped sooner, as each step costs the same. */
  const lastTime = (settings) => (isFlow(settings) ? settings.end : Math.min(settings.end, STEPS_MOST));

  /** Whether a value is one that a field's control can show. */
  function allows(field, value) {
    if (field.kind === "choice") return field.choices.some(([one]) => one === value);
    if (field.kind === "text") return true; // what its words are is checked where they are read
    const whole = field.kind !== "count" || Number.isInteger(value);
    return typeof value === "number" && whole && value >= field.low && value <= field.high;
  }

  return Object.freeze({ BY_MODEL, MODELS, SPEEDS, defaults, withOptimiser, allows, isFlow, lastTime });
})();

/* Every setting of the playground: its name in a link, its words on the page, its limits and its default.
 *
 * Limits keep a frame within its time and a drawing legible; the engines themselves allow more. The defaults show the whole
 * story of each theory in one run of ten seconds.
 */
const Fields = (() => {
  "use strict";

  const OPTIMISERS = [["flow", "gradient flow"], ["sgd", "gradient descent"], ["momentum", "with momentum"], ["adam", "Adam"]];
  const SPEEDS = [0.25, 0.5, 1, 2, 4];

  const rates = (optimisers, attention) => [
    { name: "lrDecoder", kind: "log", label: "Rate of the decoder", low: 0.01, high: 100, start: 1, group: "Learning" },
    { name: "lrAttention", kind: "log", label: "Rate of the attention", low: 0.01, high: 100, start: attention, group: "Learning" },
    { name: "optimiser", kind: "choice", label: "Dynamics", choices: optimisers, start: "flow", group: "Learning" },
    {
      name: "momentum", kind: "number", label: "Momentum", low: 0, high: 0.99, step: 0.01, start: 0.9, group: "Learning",
      when: (all) => all.optimiser === "momentum",
    },
  ];
  const seed = { name: "seed", kind: "count", label: "Seed of the start", low: 0, high: 9999, start: 0, group: "Start" };
  const end = { name: "end", kind: "log", label: "Run until time", group: "Learning", whole: true };
  const isRandom = (all) => all.init === "uniform";
  const STARTS = [["zero", "zero"], ["uniform", "random, uniform"]];

  const SCAN = [
    { name: "classes", kind: "count", label: "Classes", low: 2, high: 4, start: 2, group: "Data", shape: true },
    { name: "common", kind: "count", label: "Common tokens", low: 1, high: 3, start: 1, group: "Data", shape: true },
    { name: "distinct", kind: "count", label: "Distinct tokens per class", low: 1, high: 4, start: 3, group: "Data", shape: true },
    { name: "law", kind: "law", label: "Chance of each token in a class", group: "Data" },
    ...rates([OPTIMISERS[0], ["reduced", "theory's own flow"], ...OPTIMISERS.slice(1)], 10),
    { ...end, low: 100, high: 1e12, start: 1e6 },
    { name: "init", kind: "choice", label: "Start", choices: STARTS, start: "zero", group: "Start" },
    { name: "initScale", kind: "log", label: "Initial scale", low: 1e-4, high: 1, start: 0.1, group: "Start", when: isRandom },
    { ...seed, when: isRandom },
  ];
  const FOCUS = [
    { name: "tokens", kind: "count", label: "Tokens", low: 2, high: 6, start: 4, group: "Data", shape: true },
    { name: "law", kind: "law", label: "How often each token comes", group: "Data" },
    { name: "stay", kind: "number", label: "Chance of staying", low: 0, high: 0.95, step: 0.01, start: 0.5, group: "Data" },
    ...rates(OPTIMISERS, 1),
    { ...end, low: 30, high: 1e5, start: 3000 },
    { name: "dModel", kind: "count", label: "Width of the model", low: 2, high: 16, start: 8, group: "Start" },
    { name: "initScale", kind: "log", label: "Initial scale", low: 1e-5, high: 0.3, start: 1e-3, group: "Start" },
    seed,
  ];

  const BY_MODEL = Object.freeze({ "scan-and-snap": SCAN, "focus-and-dilution": FOCUS });
  const MODELS = Object.freeze(Object.keys(BY_MODEL));
  const STEPS_MOST = 20000; // updates of an optimiser that steps: at some microseconds each, seconds in all

  /** Settings of a model before anybody touched them. */
  function defaults(model) {
    const plain = BY_MODEL[model].filter((field) => field.kind !== "law");
    const values = Object.fromEntries(plain.map((field) => [field.name, field.start]));
    return { ...values, law: Laws.fitting(model, values) };
  }

  const isFlow = ({ optimiser }) => optimiser === "flow" || optimiser === "reduced";

  /** The last time of a run: optimisers that step are stopped sooner, as each step costs the same. */
  const lastTime = (settings) => (isFlow(settings) ? settings.end : Math.min(settings.end, STEPS_MOST));

  /** Whether a value is one that a field's control can show. */
  function allows(field, value) {
    if (field.kind === "choice") return field.choices.some(([one]) => one === value);
    const whole = field.kind !== "count" || Number.isInteger(value);
    return typeof value === "number" && whole && value >= field.low && value <= field.high;
  }

  return Object.freeze({ BY_MODEL, MODELS, SPEEDS, defaults, allows, isFlow, lastTime });
})();

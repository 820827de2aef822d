/* One run from the controls' settings: the engine, theory's prediction for it, and what was seen at each sample.
 *
 * Samples are fixed in logarithmic time, so that what is seen does not depend on the speed of play or of the machine. A sample may
 * take several frames; `advance` comes back when its budget is spent.
 */
const LiveRun = (() => {
  "use strict";
  const SAMPLES = 400; // of a run: more than the pixels that a phone's chart has, drawn in ten seconds at speed 1

  const ENGINES = { "scan-and-snap": () => ScanAndSnap, "focus-and-dilution": () => FocusAndDilution };
  const THEORIES = { "scan-and-snap": () => Theory.scanAndSnap, "focus-and-dilution": () => Theory.focusAndDilution };

  /** Settings as the engines take them. */
  function engineSettings(model, values) {
    const { lrDecoder, lrAttention, optimiser, momentum, seed, initScale, law, init, stay, dModel } = values;
    const shared = { lrDecoder, lrAttention, optimiser, momentum, seed, initScale };
    if (model === "focus-and-dilution") return { ...shared, stationary: law[0], stay, dModel };
    return { ...shared, tokenProb: Laws.tokenProb(law, values), init };
  }

  // Before these times, in units of the inverse of the larger rate, nothing has moved by a pixel.
  const FIRST = { "scan-and-snap": 0.1, "focus-and-dilution": 1 };

  /** Times to look at: 0, then evenly in the logarithm up to the last. */
  function timesOf(model, values) {
    const last = Fields.lastTime(values);
    const first = Fields.isFlow(values) ? Math.min(FIRST[model] / Math.max(values.lrDecoder, values.lrAttention), last / 100) : 1;
    const ratio = last / first;
    const steps = Array.from({ length: SAMPLES }, (_, at) => first * ratio ** (at / (SAMPLES - 1)));
    steps[SAMPLES - 1] = last;
    // An optimiser that steps is only ever at a whole number.
    return Fields.isFlow(values) ? [0, ...steps] : [0, ...new Set(steps.map(Math.round))];
  }

  /** What theory says, or why it says nothing. */
  function predicted(model, settings, run) {
    try {
      return { theory: THEORIES[model]()(settings, run), reason: "" };
    } catch (error) {
      return { theory: null, reason: error.message };
    }
  }

  /** @param {string} model @param {Object} values the controls' @param {Object} [own] of a record: they replace data and start */
  function create(model, values, own) {
    const { lrDecoder, lrAttention, optimiser, momentum } = values;
    const settings = own ? { ...own, lrDecoder, lrAttention, optimiser, momentum } : engineSettings(model, values);
    const engine = ENGINES[model]().create(settings);
    const times = timesOf(model, values);
    const seen = [engine.observe()];
    const { theory, reason } = predicted(model, settings, engine);

    /** Towards sample `index`, for at most `milliseconds`; gives the index reached. */
    function advance(index, milliseconds) {
      const until = performance.now() + milliseconds;
      const goal = Math.min(index, times.length - 1);
      while (seen.length - 1 < goal && !engine.stopped) {
        const next = times[seen.length];
        engine.advance(next, Math.max(1, until - performance.now()));
        if (engine.time < next) break; // the budget ended before the sample
        seen.push({ ...engine.observe(), time: next });
        if (performance.now() > until) break;
      }
      return seen.length - 1;
    }

    /** The sample nearest below a time. */
    const indexOf = (time) => times.findLastIndex((one) => one <= time * (1 + 1e-5)); // links hold six digits
    return {
      model, settings, times, seen, theory, theoryReason: reason, advance, indexOf, task: engine.task,
      get stopped() { return engine.stopped; },
      get latest() { return seen.at(-1); },
      get done() { return seen.length >= times.length || Boolean(engine.stopped); },
    };
  }

  return Object.freeze({ create });
})();

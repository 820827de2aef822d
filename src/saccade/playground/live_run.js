/* One run from the controls' settings: the engine, theory's prediction for it, and what was seen at each sample.
 *
 * Samples are fixed before the run, so that what is seen does not depend on the speed of play or of the machine. A sample may
 * take several frames; `advance` comes back when its budget is spent.
 */
const LiveRun = (() => {
  "use strict";
  const SAMPLES = 400; // of a run: more than the pixels that a phone's chart has
  const MOST_EMBEDDED = 1000; // numbers of an embedding that are kept at every sample

  const ENGINES = { "scan-and-snap": () => ScanAndSnap, "focus-and-dilution": () => FocusAndDilution };
  const THEORIES = { "scan-and-snap": () => Theory.scanAndSnap, "focus-and-dilution": () => Theory.focusAndDilution };

  /** Settings as the engines take them. */
  function engineSettings(model, values) {
    const { lrDecoder, lrAttention, optimiser, momentum, seed, initScale, law, init, stay, dModel } = values;
    const shared = { lrDecoder, lrAttention, optimiser, momentum, seed, initScale };
    if (model === "focus-and-dilution") return { ...shared, stationary: law[0], stay, dModel };
    return { ...shared, tokenProb: Laws.tokenProb(law, Words.of(model, values).rows), init };
  }

  /** Times after 0, evenly in the logarithm; before the first of them nothing has moved by a pixel. */
  function evenly(last, values) {
    const first = Fields.isFlow(values) ? Math.min(0.1 / Math.max(values.lrDecoder, values.lrAttention), last / 100) : 1;
    return Array.from({ length: SAMPLES }, (_, at) => first * (last / first) ** (at / (SAMPLES - 1)));
  }

  /** Times after 0, evenly until condensation is over and from there on in the logarithm: what comes later is slower and slower. */
  function fromStart(last, condensed) {
    const unit = condensed > 0 && condensed < last ? condensed : last;
    const whole = Math.log1p(last / unit);
    return Array.from({ length: SAMPLES }, (_, at) => unit * Math.expm1((whole * (at + 1)) / SAMPLES));
  }

  /** Times to look at, from 0 to the last. */
  function timesOf(model, values, theory) {
    const last = Fields.lastTime(values);
    const steps = model === "focus-and-dilution" ? fromStart(last, theory?.condensationEnd) : evenly(last, values);
    steps[SAMPLES - 1] = last;
    // An optimiser that steps is only ever at a whole number.
    return Fields.isFlow(values) ? [0, ...steps] : [0, ...new Set(steps.map(Math.round).filter((step) => step > 0))];
  }

  /** What is seen now: with embeddings, where they are small enough to be kept. */
  function look(engine, time) {
    const seen = { ...engine.observe(), time };
    const { stationary, dModel } = engine.task;
    return stationary && stationary.length * dModel <= MOST_EMBEDDED ? { ...seen, embedding: engine.parameters().embedding } : seen;
  }

  /** What moves on the page, as numbers of about one: attention, and embeddings by their directions. */
  function picture({ attention, embedding }) {
    if (!embedding) return attention.flat();
    const longest = Math.max(...embedding.map((row) => Math.hypot(...row))) || 1;
    return [...attention.flat(), ...embedding.flat().map((value) => (0.5 * value) / longest)];
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
    const { theory, reason } = predicted(model, settings, engine);
    const times = timesOf(model, values, theory);
    const seen = [look(engine, 0)];
    const way = [0]; // how far the picture has moved at each sample
    let last = picture(seen[0]);

    /** Towards sample `index`, for at most `milliseconds`; gives the index reached. */
    function advance(index, milliseconds) {
      const until = performance.now() + milliseconds;
      const goal = Math.min(index, times.length - 1);
      while (seen.length - 1 < goal && !engine.stopped) {
        const next = times[seen.length];
        engine.advance(next, Math.max(1, until - performance.now()));
        if (engine.time < next) break; // the budget ended before the sample
        keep(look(engine, next));
        if (performance.now() > until) break;
      }
      return seen.length - 1;
    }

    function keep(sample) {
      const now = picture(sample);
      seen.push(sample);
      way.push(way.at(-1) + Pace.apart(last, now));
      last = now;
    }

    /** The place of a time among the samples; a sample itself where the time is one, to the six digits that a link holds. */
    function placeOf(time) {
      const below = Math.max(0, times.findLastIndex((one) => one <= time * (1 + 1e-5)));
      if (below === 0 || below + 1 >= times.length || time <= times[below] * (1 + 1e-5)) return below;
      return below + Math.log(time / times[below]) / Math.log(times[below + 1] / times[below]);
    }
    return {
      model, settings, times, seen, way, theory, theoryReason: reason, advance, placeOf, task: engine.task, ofRecord: Boolean(own),
      get stopped() { return engine.stopped; },
      get latest() { return seen.at(-1); },
      get done() { return seen.length >= times.length || Boolean(engine.stopped); },
    };
  }

  return Object.freeze({ create });
})();

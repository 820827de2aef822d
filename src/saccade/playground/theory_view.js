/* Theory's prediction for a run, as lines over the run's samples and as stages with their onsets; empty where theory says nothing.
 *
 * The curves are asked for once for a run, in ascending times, when they are first drawn. A record may be so large that they
 * would hold up the page; they then end where the time for them does.
 */
const TheoryView = (() => {
  "use strict";
  const MOST_TIME = 600; // milliseconds for a record's settings; those of the controls take a tenth of it and are never cut short
  const SEEN = 0.02; // of attention: the least change of a cell or bar that can be seen
  const OPEN = 0.5; // of the largest singular value: a direction of that size can be told from noise by eye
  const kept = new WeakMap(); // run -> curves at its times, without time 0
  const known = new WeakMap(); // run -> {seen: how many samples, times, stages}: asked for at every frame

  function asked(run) {
    const until = run.ofRecord ? performance.now() + MOST_TIME : Infinity;
    return run.times.slice(1).map((t) => (performance.now() < until ? run.theory.curve(t) : {}));
  }

  function curves(run) {
    if (!kept.has(run)) kept.set(run, run.theory ? asked(run) : []);
    return kept.get(run);
  }

  /** Attention that theory predicts at each sample; null where it is silent. The first is the run's own: there both begin. */
  const attention = (run) => [run.seen[0].attention, ...curves(run).map((one) => one.attention ?? null)];

  /** Functions that give a line over the run's samples (null where theory is silent); absent where it never speaks. */
  function lines(run) {
    const said = curves(run);
    if (!said.some((one) => one.attention)) return {};
    const line = (pick) => said.map((one) => (one.attention ? pick(one) : null));
    const made = {
      attention: (row, token) => line((one) => one.attention[row][token]),
      loss: line((one) => one.loss),
    };
    if (run.model === "scan-and-snap") return { ...made, common: (row) => line((one) => one.commonMass[row]) };
    return { ...made, singularValue: (n) => (n === 0 ? line((one) => one.singularValues[0]) : null) };
  }

  /** When attention begins to move, by the rank-one flow, and when the other queries' attention on the most frequent token turns down. */
  function focusTimes(run) {
    const rows = attention(run);
    const frequent = run.task.stationary.indexOf(Math.max(...run.task.stationary));
    const change = (row) => (row ? Math.max(...row.flat().map((share, at) => Math.abs(share - rows[0].flat()[at]))) : 0);
    const begun = rows.findIndex((row) => change(row) >= SEEN);
    const others = rows.map((row) => (row ? row.reduce((sum, one, query) => sum + (query === frequent ? 0 : one[frequent]), 0) : -Infinity));
    const peak = others.indexOf(Math.max(...others));
    const fades = peak > begun && others.slice(peak).some((sum) => sum > -Infinity && sum < others[peak] - SEEN);
    return { focused: begun > 0 ? run.times[begun] : undefined, diluted: begun > 0 && fades ? run.times[peak] : undefined };
  }

  /** What is said of a run as far as it is known, made once for that. */
  function told(run) {
    if (known.get(run)?.seen !== run.seen.length) {
      const found = foundTimes(run);
      known.set(run, { seen: run.seen.length, times: found, stages: foundStages(run, found) });
    }
    return known.get(run);
  }

  /** Times that stories and stages speak of; `opened` is seen in the run, as no theory here predicts it. */
  const times = (run) => told(run).times;

  function foundTimes(run) {
    const { onset, condensationEnd } = run.theory ?? {};
    if (run.model === "scan-and-snap") return { onset: onset ?? undefined };
    const focus = run.theory ? focusTimes(run) : {};
    const open = run.seen.findIndex(({ singularValues: [first, second] }) => second > OPEN * first && first > OPEN);
    return { condensed: condensationEnd, ...focus, opened: open > 0 ? run.times[open] : undefined };
  }

  const STAGES = {
    "scan-and-snap": [
      { from: "start", name: "scanning", say: "Scanning: attention leaves common words and turns to those that tell the answer." },
      { from: "onset", name: "snapped", say: "Snapped: the answer is learnt, and attention hardly moves any more." },
    ],
    "focus-and-dilution": [
      { from: "start", name: "condensing", say: "Condensing: the embeddings turn onto one line; attention waits." },
      { from: "condensed", name: "waiting", say: "Attention waits: queries and keys grow along that line, still too small to be seen." },
      { from: "focused", name: "focus", say: "Focus: every query turns to the most frequent word." },
      { from: "diluted", name: "dilution", say: "Dilution: the queries of rarer words turn away again." },
      { from: "opened", name: "opening", say: "Opening: new directions grow: words can be told apart, and queries find their own." },
    ],
  };

  /** The stages of a run in order of time: {name, say, at, predicted}. One whose time is not known, or not in its order, is left out. */
  const stages = (run) => told(run).stages;

  /** A sentence of theory is about the run only where the run follows theory's flow. */
  function foundStages(run, when) {
    const { optimiser } = run.settings;
    const isOwn = optimiser === (run.model === "scan-and-snap" ? "reduced" : "flow");
    const made = [];
    for (const { from, name, say } of STAGES[run.model]) {
      const at = from === "start" ? 0 : when[from];
      if (at >= (made.at(-1)?.at ?? 0) && at < run.times.at(-1)) {
        const words = isOwn || from === "opened" ? say : say.replace(/^[^:]*/, "Theory, not this run");
        made.push({ name, say: words, at, predicted: from !== "opened" && from !== "start" });
      }
    }
    return made;
  }

  const marks = (run) => stages(run).filter(({ at }) => at > 0).map(({ name, at, predicted }) => ({ x: at, label: `${predicted ? "predicted" : "seen"}: ${name}` }));

  /** What the outlines are, in a few words. */
  function outline(run) {
    if (!run.theory || !lines(run).attention) return "";
    const flow = run.model === "scan-and-snap" ? "theory's own flow" : "theory with one direction";
    return Fields.isFlow(run.settings) ? flow : `${flow}, on the clock of gradient flow`;
  }

  /** What the dashed lines are, or why there are none. */
  function note(run) {
    if (!run.theory) return run.theoryReason;
    const clock = run.settings.optimiser === "adam" ? " Theory is of gradient flow; Adam has a clock of its own, so compare the order of events, not their times." : "";
    const until = Charts.format(run.theory.guideUntil);
    if (run.model === "focus-and-dilution") return `Dashed: theory with one direction only, a guide until time ${until}.${clock}`;
    if (!lines(run).attention) return "No dashed lines: theory's own flow is not defined for these classes.";
    if (run.settings.optimiser === "reduced") return "Dashed: theory. This run is the theory's own flow, so both agree.";
    return `Dashed: the theory's own flow, in which the decoder follows attention at once. Plain training moves the same way, but less far.${clock}`;
  }

  return Object.freeze({ attention, lines, marks, stages, times, outline, note });
})();

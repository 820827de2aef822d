/* Theory's prediction for a run, as lines over the run's samples and as marks at its onsets; empty where theory says nothing.
 *
 * The curves are asked for once for a run, in ascending times, when they are first drawn. A record may be so large that they
 * would hold up the page; they then end where the time for them does.
 */
const TheoryView = (() => {
  "use strict";
  const MOST_TIME = 600; // milliseconds; the largest settings of the controls take a tenth of it
  const kept = new WeakMap(); // run -> curves at its times, without time 0

  function asked(run) {
    const until = performance.now() + MOST_TIME;
    return run.times.slice(1).map((t) => (performance.now() < until ? run.theory.curve(t) : {}));
  }

  function curves(run) {
    if (!kept.has(run)) kept.set(run, run.theory ? asked(run) : []);
    return kept.get(run);
  }

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

  /** Times that stories and marks speak of. */
  function times(run) {
    const { onset, condensationEnd, focusOnset } = run.theory ?? {};
    return { onset, condensed: condensationEnd, focused: focusOnset };
  }

  const WORDS = [
    { name: "onset", label: "predicted: snap", words: "predicted onset of the snap" },
    { name: "condensed", label: "predicted: condensed", words: "predicted end of condensation" },
    { name: "focused", label: "predicted: focus", words: "predicted onset of focus" },
  ];

  function marks(run) {
    const known = times(run);
    return WORDS.filter(({ name }) => known[name] > 0).map(({ name, label, words }) => ({ x: known[name], label, words }));
  }

  /** One phrase on where a time stands among theory's onsets. */
  function stage(run, now) {
    const next = marks(run).find((mark) => mark.x > now);
    if (next) return `${next.words} at ${Charts.format(next.x)}`;
    const last = marks(run).at(-1);
    return last ? `past the ${last.words} at ${Charts.format(last.x)}` : "";
  }

  /** What the dashed lines are, or why there are none. */
  function note(run) {
    if (!run.theory) return run.theoryReason;
    const until = Charts.format(run.theory.guideUntil);
    if (run.model === "focus-and-dilution") return `Dashed: theory with one direction only, a guide until time ${until}.`;
    if (!lines(run).attention) return "No dashed lines: theory's own flow is not defined for these classes.";
    return "Dashed: the theory's own flow, in which the decoder follows attention at once. "
      + "Plain training moves the same way, but less far.";
  }

  return Object.freeze({ lines, marks, times, stage, note });
})();

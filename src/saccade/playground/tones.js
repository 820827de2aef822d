/* Colours by role, the same in bars, lines, arrows and controls: common tokens are grey, distinct ones are coloured by how frequent
 * they are. Orange is not among them: it is for failures.
 */
const Tones = (() => {
  "use strict";
  const COMMON = 6; // grey
  const BY_RANK = [0, 2, 5, 3, 7]; // blue, green, sky, rose, ink: numbers of theme.css

  const tone = (rank) => BY_RANK[rank % BY_RANK.length];

  /** Tones of the tokens of one row of a law. @param {number[]} chances @param {boolean[]} common */
  function ofLaw(chances, common) {
    const own = chances.map((_, at) => at).filter((at) => !common[at] && chances[at] > 0).sort((a, b) => chances[b] - chances[a] || a - b);
    return chances.map((_, at) => (common[at] ? COMMON : tone(Math.max(0, own.indexOf(at)))));
  }

  /** Tones of a run's tokens as a row of attention sees them. */
  function ofRun({ model, task }, row) {
    if (model === "focus-and-dilution") return ofLaw(task.stationary, task.stationary.map(() => false));
    return ofLaw(task.tokenProb[row], task.common);
  }

  return Object.freeze({ COMMON, tone, ofLaw, ofRun });
})();

/* Six short stories: each sets the controls, plays, and says what to look at, one sentence at a time.
 *
 * A story starts from the defaults of its model and changes only what it names (story_list.js). A sentence begins at a time that
 * theory gives for these settings, or that is seen in the run, times a factor.
 */
const Stories = (() => {
  "use strict";
  const ALL = Object.freeze(STORY_LIST);
  const byName = (name) => ALL.find((story) => story.name === name);
  const after = (story) => ALL[(ALL.indexOf(story) + 1) % ALL.length];

  /** Settings of a story. */
  function settings(story) {
    const values = { ...Fields.defaults(story.model), ...story.change };
    return { ...values, law: story.change.law?.map((row) => [...row]) ?? Laws.fitting(story.model, values) };
  }

  /** Which sentence is said at a time. @param {Object} story @param {Object} times {onset, condensed, focused, diluted, opened} */
  function pointAt(story, times, now) {
    const begins = story.look.map(({ from, times: factor = 1 }) => (from === "start" ? 0 : (times[from] ?? Infinity) * factor));
    return begins.findLastIndex((begin) => begin <= now);
  }

  return Object.freeze({ ALL, byName, after, settings, pointAt });
})();

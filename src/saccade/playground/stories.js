/* Six short stories: each sets the controls, plays, and says what to look at.
 *
 * A story starts from the defaults of its model and changes only what it names. A point to look at begins at a time that theory
 * gives for these settings (`onset`, `condensed`, `focused`), times a factor.
 */
const Stories = (() => {
  "use strict";

  const ALL = Object.freeze([
    {
      name: "scanning", title: "What is scanning?", model: "scan-and-snap", change: {},
      text: "Each class of sequences predicts its own next token. Token c1 is common to both classes, A1 to A3 and B1 to B3 "
        + "belong to one. Attention begins as the tokens' share of the context. As the decoder learns which token goes with "
        + "which answer, attention moves: it scans.",
      look: [
        { from: "start", say: "Nothing moves yet: the decoder knows nothing, so attention has nothing to gain." },
        {
          from: "onset", times: 0.1,
          say: "The bar of c1 falls in both classes: a token that comes with every answer says nothing about it.",
        },
        { from: "onset", times: 0.6, say: "The distinct bars rise, all of them, the most frequent one fastest." },
      ],
    },
    {
      name: "snapping", title: "Why it snaps", model: "scan-and-snap", change: { end: 1e9 },
      text: "Attention moves only while the decoder is still wrong. Around the dotted onset the error runs out; from there "
        + "attention grows with the logarithm of the logarithm of time. It has snapped: six more decades of training hardly "
        + "change it.",
      look: [
        { from: "start", say: "Before the dotted line: most of the change in attention happens here." },
        { from: "onset", times: 1, say: "At the line most of the loss has gone, and the curves bend." },
        { from: "onset", times: 100, say: "Far behind it the curves are nearly flat, though time grows a thousandfold and more." },
      ],
    },
    {
      name: "frequent-tokens", title: "Why frequent tokens win", model: "scan-and-snap",
      change: { distinct: 4, optimiser: "reduced", end: 1e6, law: [[0.3, 0.07, 0.14, 0.35, 0.14], [0.3, 0.35, 0.14, 0.14, 0.07]] },
      text: "Here the favourite is the third distinct token of class A and the first of class B. This is the theory's own "
        + "flow, where the effect is purest: the attention logit of a distinct token grows with the square of its share, so "
        + "the rich get richer.",
      look: [
        { from: "start", say: "Compare A3 with A2: 0.35 against 0.14 at the start." },
        {
          from: "onset", times: 0.3,
          say: "A3 and B1 pull away. The rarer tokens of the same class stay behind, although they say just as much about "
            + "the answer.",
        },
        { from: "onset", times: 10, say: "Drag another bar up in the data and play again: the new favourite wins." },
      ],
    },
    {
      name: "condensation", title: "Condensation", model: "focus-and-dilution", change: { initScale: 1e-4, end: 100 },
      text: "A chain of tokens is learnt by a model with embeddings that start very small. Near zero there is only one force, "
        + "so all embeddings grow along one direction: they condense. The dashed line is theory's prediction of its growth.",
      look: [
        { from: "start", say: "All singular values are small, and attention stands at the tokens' share of the data." },
        { from: "condensed", times: 0.4, say: "One singular value rises along the dashed line; the others stay where they are." },
        {
          from: "condensed", times: 1,
          say: "The loss has dropped to what frequencies alone can give. Attention has not moved at all.",
        },
      ],
    },
    {
      name: "focus", title: "Focus", model: "focus-and-dilution", change: { stay: 0.3, lrAttention: 4, end: 75 },
      text: "Once the embeddings have one direction, queries and keys begin to grow along it too. All queries then tilt to "
        + "the same keys: the frequent ones.",
      look: [
        { from: "start", say: "First the embeddings condense, and attention waits." },
        {
          from: "focused", times: 1,
          say: "From the mark on queries and keys grow. Watch token 1: attention on it rises in every query, most in the "
            + "query of token 1 itself.",
        },
        { from: "focused", times: 1.5, say: "The loss takes its second step: attention now helps to predict." },
      ],
    },
    {
      name: "dilution", title: "Dilution", model: "focus-and-dilution", change: { end: 3000 },
      text: "Focus does not last. As embeddings adapt to the tilted attention, queries of rarer tokens turn away from the "
        + "most frequent one. Then a new direction opens, and the cycle begins again.",
      look: [
        { from: "start", say: "Condensation and focus, as in the stories before." },
        {
          from: "focused", times: 1.8,
          say: "Attention on token 1 turns down in the queries of the other tokens: this is dilution.",
        },
        {
          from: "focused", times: 4,
          say: "The second singular value rises, attention turns again, then the third: the next cycles.",
        },
      ],
    },
  ]);

  const byName = (name) => ALL.find((story) => story.name === name);

  /** Settings of a story. */
  function settings(story) {
    const values = { ...Fields.defaults(story.model), ...story.change };
    return { ...values, law: story.change.law?.map((row) => [...row]) ?? Laws.fitting(story.model, values) };
  }

  /** Which point to look at, at a time. @param {Object} story @param {Object} times of theory: {onset, condensed, focused} */
  function pointAt(story, times, now) {
    const begins = story.look.map(({ from, times: factor = 1 }) => (from === "start" ? 0 : (times[from] ?? Infinity) * factor));
    return begins.findLastIndex((begin) => begin <= now);
  }

  return Object.freeze({ ALL, byName, settings, pointAt });
})();

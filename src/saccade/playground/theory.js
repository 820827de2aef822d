/* What theory predicts for the settings of a run, before it is run: rates, onsets, and curves to lay over it.
 *
 * Needs, loaded before: all of scan_and_snap.js and focus_and_dilution.js, then growth_clock.js, rank_one_flow.js, first_cycle.js.
 *
 * Theory.scanAndSnap(settings) -> {
 *   onset         predicted snap time t_0 (null below four tokens), scanTime t_0', speedPeak {time, value},
 *   leader        {class, token}: the most frequent distinct token, of which growth speaks; null if there is none,
 *   normaliser, concentration, growthClock (closed forms as functions of t: height, speed, growth, printedGrowth),
 *   curve(t)   -> {time, speed, growth, printedGrowth, leaderLogit: [low, high] or null} from closed forms, and the keys of
 *                 run.observe() (loss, attention, commonMass, ...) from the theory's own flow (C); without them where (C) is not
 *                 defined because a class is a mixture of others.
 * }
 *   The closed forms take classes as equally frequent, one token common to all of them and one query. Flow (C) has its decoder
 *   move along a preconditioned gradient: under plain training (B) signs and order of tokens are the same, but attention is slower.
 *
 * Theory.focusAndDilution(settings, run?) -> {
 *   condensationRate, condensationEnd (linear flow at half the plateau's norm), focusRate (negative: away from frequent tokens),
 *   focusSign, focusOnset (query matrix three times its start), plateauLoss, plateauValue (singular value of the embedding there),
 *   guideUntil    until when the curve is a guide,
 *   curve(t)   -> {time, linearValue: singular value of the linear flow, null past condensationEnd;
 *                  loss, attention, singularValues: [first] from the rank-one flow, absent past guideUntil}
 * }
 *   A run given beside the settings lends its start; otherwise the start is drawn again from the seed. Predictions are for
 *   gradient flow; SGD follows it at small rates, Adam keeps the order of events at most.
 * Both curves may be asked for any times; ascending ones are cheap. Where theory says nothing the call throws one sentence.
 */
const Theory = (() => {
  "use strict";

  /** A path that can be asked for any time: it starts again when asked for an earlier one. */
  function rewindable(create, look) {
    let run = create();
    return (t) => {
      if (t < run.time) run = create();
      run.advance(t);
      return look(run);
    };
  }

  const norm = (row) => Math.sqrt(row.reduce((sum, x) => sum + x * x, 0));

  /** Features at the start, the leader among distinct tokens, and what Theorem 4 needs to know of its class. */
  function classStatistics({ tokenProb, common }) {
    const features = tokenProb.map((row) => row.map((x) => x / norm(row)));
    let leader = null, strongest = 0;
    features.forEach((row, n) => row.forEach((f, token) => {
      if (common[token] || f <= strongest) return;
      strongest = f;
      leader = { class: n, token };
    }));
    const own = features[leader?.class ?? 0];
    const overlap = features.reduce((sum, row) => sum + (row === own ? 0 : row.reduce((all, f, l) => all + f * own[l], 0)), 0);
    const mean = overlap / Math.max(1, features.length - 1);
    return {
      leader,
      leaderFeature: strongest,
      normaliser: mean > 0 ? mean ** -0.5 : null,
      concentration: own.reduce((sum, f, token) => sum + (common[token] ? 0 : f ** 4), 0),
    };
  }

  function scanAndSnap(settings) {
    const task = ScanAndSnap.checkedTask(settings);
    const { lrDecoder, lrAttention } = SettingsChecks.dynamics({ ...settings, optimiser: "flow" }, ["flow"]);
    if (lrDecoder === 0) throw new Error("Without a rate for the decoder nothing is learnt: theory says nothing of it.");
    const { leader, leaderFeature, normaliser, concentration } = classStatistics(task);
    const sizes = { nVocab: task.nVocab, nClasses: task.tokenProb.length };
    const clock = GrowthClock.create({ ...sizes, lrDecoder, lrAttention, normaliser, concentration });
    const ownFlow = flowOfTheory({ ...task, lrDecoder, lrAttention });

    function curve(t) {
      const growth = clock.growth(t);
      const leaderLogit = leader === null || growth === null ? null : [leaderFeature ** 2 * growth, growth];
      return { ...ownFlow(t), time: t, speed: clock.speed(t), growth, printedGrowth: clock.printedGrowth(t), leaderLogit };
    }
    const { scanTime, snapTime, speedPeak } = clock;
    return { onset: snapTime, scanTime, speedPeak, leader, normaliser, concentration, growthClock: clock, curve };
  }

  /** Flow (C) as a function of time; says nothing where it is not defined. */
  function flowOfTheory(settings) {
    const create = () => ScanAndSnap.create({ ...settings, optimiser: "reduced" });
    try {
      return rewindable(create, (run) => run.observe());
    } catch {
      return () => ({});
    }
  }

  function focusAndDilution(settings, run) {
    const task = run?.task ?? FocusAndDilution.checkedTask(settings);
    const { lrDecoder, lrAttention } = SettingsChecks.dynamics({ ...settings, optimiser: "flow" }, ["flow"]);
    const cycle = FirstCycle.create(task, lrDecoder, lrAttention);
    const { condensationRate, condensationEnd, plateau, guideUntil, start, ...rest } = cycle;
    const onManifold = rankOne(task, start, lrDecoder, lrAttention);

    function curve(t) {
      const linear = HALF * plateau.g * Math.exp(condensationRate * (t - condensationEnd));
      const said = t <= guideUntil ? onManifold(t) : {};
      return { ...said, time: t, linearValue: t <= condensationEnd ? linear : null };
    }
    const onPlateau = { plateauLoss: task.unigramLoss, plateauValue: plateau.g };
    return { condensationRate, condensationEnd, guideUntil, ...onPlateau, ...rest, manifoldStart: start, curve };
  }

  const HALF = 0.5; // of the plateau's norm, where `condensationEnd` is

  function rankOne(task, start, lrDecoder, lrAttention) {
    const model = RankOneFlow.create(task, start);
    const groups = [
      { from: 0, to: model.split, rate: lrDecoder },
      { from: model.split, to: model.start.length, rate: lrAttention },
    ];
    return rewindable(() => Integrate.flow(model.direction, model.start, groups), (path) => model.observed(path.state));
  }

  return Object.freeze({ scanAndSnap, focusAndDilution });
})();

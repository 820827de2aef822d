/* Scan and Snap live: the one-layer Transformer in pairwise form, decoder logits Y and attention logits Z, infinite context.
 *
 *   c_n = P(l|n) e^z normalised, f_n = c_n / |c_n|, alpha_n = softmax(Y^T f_n), g_n = Y (e_n - alpha_n),
 *   Y' = eta_Y sum_n P(n) f_n (e_n - alpha_n)^T,   z_m' = eta_Z sum_{n of query m} P(n) f_n o (g_n - f_n (f_n . g_n)).
 *
 * The equations are those of the Python engine (models/pairwise.py, engines/flow.py), in float64; tests/playground compares the
 * two. Rows of tokens that no class shows never move and are left out; from a zero start the columns of tokens that are
 * never predicted stay equal, and one stands for all of them.
 *
 * Needs, loaded before: settings_checks.js, linear_algebra.js, random_numbers.js, integrate.js, descent.js,
 * pairwise_model.js, reduced_flow.js.
 *
 * ScanAndSnap.create(settings) -> run
 *   settings  {tokenProb: [class][token], query?: [class], nextToken?: [class], classWeight?: [class], nVocab?,
 *              lrDecoder = 1, lrAttention = 1, init = "zero" | "uniform", initScale = 1/sqrt(n_vocab), seed = 0,
 *              start?: {decoder: [token][next token], attentionLogits: [query][token]},
 *              optimiser = "flow" (B) | "reduced" (C, the theory's own flow) | "sgd" | "momentum" | "adam", momentum = 0.9}
 *              Defaults as in Python's SequenceClasses: one new query token for all classes, one new next token each.
 *   run.time, run.stopped (null, or why it could not go on), run.evaluations (of the gradient)
 *   run.advance(t, milliseconds?) goes to time t; with a budget it may come back earlier, at run.time < t: call it again
 *   run.observe() -> {time, loss, attention: [class][token], singularValues of the decoder, largest first,
 *                     commonMass: [class], distinctMass: [class], entropy: [class] in nats}
 *   run.parameters() -> {decoder: [token][next token], attentionLogits: [query][token], queries: [token]};
 *                       of the reduced flow {ownLogit: [class], otherLogit: [class], attentionLogits, queries}
 *   run.task -> the settings with all defaults filled in, and `common`: [token] of true and false
 * Time is in steps of gradient descent. Bad settings throw one Error with one sentence.
 */
const ScanAndSnap = (() => {
  "use strict";

  const OPTIMISERS = ["flow", "reduced", "sgd", "momentum", "adam"];
  const MOST_VOCABULARY = 10000; // rows of attention are that long

  /** The settings, checked, with every default filled in. */
  function checkedTask(settings) {
    const { tokenProb, query, nextToken, classWeight, nVocab } = SettingsChecks.settings(settings);
    const rows = SettingsChecks.list("tokenProb", tokenProb);
    const K = SettingsChecks.count("number of classes", rows.length, { low: 1, high: SettingsChecks.MOST_CLASSES });
    const width = SettingsChecks.list("tokenProb", rows[0]).length;
    const prob = rows.map((row) => SettingsChecks.law("tokenProb", row, { length: width }));
    const queries = tokens("query", query ?? Array(K).fill(width), K);
    const free = Math.max(width, Math.max(...queries) + 1);
    const next = tokens("nextToken", nextToken ?? Array.from({ length: K }, (_, n) => free + n), K);
    if (new Set(next).size < K) {
      throw new Error("`nextToken` must be different for every class: a class is named by the token it predicts.");
    }
    const needed = Math.max(2, free, Math.max(...next) + 1);
    const M = SettingsChecks.count("nVocab", nVocab ?? needed, { low: needed, high: MOST_VOCABULARY });
    const weights = SettingsChecks.list("classWeight", classWeight ?? Array(K).fill(1), K);
    for (const weight of weights) SettingsChecks.number("classWeight", weight, { low: 0, openLow: true });
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const met = Array.from({ length: width }, (_, token) => prob.filter((row) => row[token] > 0).length);
    return {
      tokenProb: prob, query: queries, nextToken: next, classWeight: weights.map((weight) => weight / total), nVocab: M,
      common: met.map((times) => times > 1),
    };
  }

  function tokens(name, values, length) {
    const allowed = { low: 0, high: MOST_VOCABULARY - 1 };
    return SettingsChecks.list(name, values, length).map((id) => SettingsChecks.count(name, id, allowed));
  }

  function create(settings) {
    const task = checkedTask(settings);
    const dynamics = SettingsChecks.dynamics(settings, OPTIMISERS);
    const reduced = dynamics.optimiser === "reduced";
    const zero = startsAtZero(settings, reduced);
    const layout = PairwiseModel.layoutOf(task, zero);
    const model = reduced ? ReducedFlow.create(layout, task) : PairwiseModel.create(layout);
    if (!zero) model.start.set(settings.start ? givenStart(settings.start, layout, task) : drawnStart(settings, layout, task));
    return runOf(task, layout, model, dynamics);
  }

  /** Whether Y(0) = Z(0) = 0, which the reduced flow needs. */
  function startsAtZero(settings, reduced) {
    const init = SettingsChecks.choice("init", settings.init ?? "zero", ["zero", "uniform"]);
    const zero = init === "zero" && !settings.start;
    if (reduced && !zero) throw new Error("The reduced flow starts at zero: set `init` to zero and give no `start`.");
    return zero;
  }

  /** Every entry from U(-scale, scale). */
  function drawnStart({ initScale, seed = 0 }, layout, task) {
    const scale = SettingsChecks.number("initScale", initScale ?? task.nVocab ** -0.5, { low: 0, high: 1e3, openLow: true });
    const { uniform } = RandomNumbers.generator(SettingsChecks.count("seed", seed, { low: 0, high: Number.MAX_SAFE_INTEGER }));
    return Float64Array.from({ length: layout.size }, () => scale * (2 * uniform() - 1));
  }

  function givenStart(start, { rows, queries }, { nVocab }) {
    const { decoder, attentionLogits } = SettingsChecks.settings(start);
    const Y = SettingsChecks.matrix("start.decoder", decoder, nVocab, nVocab);
    const Z = SettingsChecks.matrix("start.attentionLogits", attentionLogits, queries.length, nVocab);
    const known = rows.map((l) => Y.subarray(l * nVocab, (l + 1) * nVocab));
    const sought = queries.map((_, m) => Float64Array.from(rows, (l) => Z[m * nVocab + l]));
    return Float64Array.from([...known, ...sought].flatMap((row) => Array.from(row)));
  }

  function runOf(task, layout, model, { optimiser, momentum, lrDecoder, lrAttention }) {
    const groups = [
      { from: 0, to: model.split, rate: lrDecoder },
      { from: model.split, to: model.start.length, rate: lrAttention },
    ];
    const path = ["flow", "reduced"].includes(optimiser)
      ? Integrate.flow(model.direction, model.start, groups)
      : Descent.path(model.direction, model.start, { optimiser, momentum, groups, uniformLoss: Math.log(task.nVocab) });
    return {
      task,
      get time() { return path.time; },
      get stopped() { return path.stopped; },
      get evaluations() { return path.evaluations; },
      advance: (t, milliseconds) => Integrate.advanced(path, t, milliseconds),
      observe: () => observed(path, task, layout, model),
      parameters: () => ({
        ...model.decoder(path.state),
        attentionLogits: attentionLogits(path.state, layout, model.split, task.nVocab),
        queries: layout.queries,
      }),
    };
  }

  function attentionLogits(state, { rows, queries }, split, nVocab) {
    return queries.map((_, m) => {
      const row = Array(nVocab).fill(0);
      rows.forEach((l, i) => { row[l] = state[split + m * rows.length + i]; });
      return row;
    });
  }

  function observed(path, task, layout, model) {
    const attention = layout.classes.map((one) => attentionOf(one, path.state, layout, model.split, task.nVocab));
    const mass = (row, wanted) => row.reduce((sum, share, l) => sum + (wanted(l) ? share : 0), 0);
    return {
      time: path.time,
      loss: model.loss(path.state),
      attention,
      singularValues: model.singularValues(path.state),
      commonMass: attention.map((row) => mass(row, (l) => task.common[l])),
      distinctMass: attention.map((row) => mass(row, (l) => !task.common[l])),
      entropy: attention.map((row) => row.reduce((sum, share) => sum - (share > 0 ? share * Math.log(share) : 0), 0)),
    };
  }

  function attentionOf(one, state, { rows }, split, nVocab) {
    const feature = new Float64Array(one.support.length);
    PairwiseModel.featureOf(one, state, split, rows.length, feature);
    const total = feature.reduce((sum, f) => sum + f, 0);
    const row = Array(nVocab).fill(0);
    one.support.forEach((i, at) => { row[rows[i]] = feature[at] / total; });
    return row;
  }

  return Object.freeze({ create, checkedTask });
})();

/* Focus and Dilution live: the one-layer Transformer with embeddings on a lazy Markov chain, contexts infinitely long.
 *
 *   M = W0 W1, Phi = s W0 WQ WK^T W0^T, A_ij = pi_j e^Phi_ij normalised, z_i = A_i M, G_i = softmax(z_i) - P_i,
 *   dM = A^T diag(pi) G,   dPhi_i = pi_i A_i o (M G_i - A_i . M G_i),
 *   W0' = -eta dM W1^T - eta s (dPhi W0 WK WQ^T + dPhi^T W0 WQ WK^T),   W1' = -eta W0^T dM,
 *   WQ' = -eta_A s W0^T dPhi W0 WK,   WK' = -eta_A s W0^T dPhi^T W0 WQ.
 *
 * The chain repeats its token with chance `stay`, and otherwise draws from the stationary law pi. The equations are those of
 * the Python engine (models/embedded.py, engines/flow.py), in float64; tests/playground compares the two.
 *
 * Needs, loaded before: settings_checks.js, linear_algebra.js, random_numbers.js, integrate.js, descent.js, embedded_model.js;
 * and for long runs, ten times as fast with them: stiff_step.js, embedded_curvature.js.
 *
 * FocusAndDilution.create(settings) -> run
 *   settings  {stationary: [token], stay = 0.5, dModel = 20, dKey = 8,
 *              initScale = 1e-3, logitScale = 1, seed = 0 | start: {embedding, query, key, projection},
 *              lrDecoder = 1, lrAttention = 1, optimiser = "flow" | "sgd" | "momentum" | "adam", momentum = 0.9}
 *   run.time, run.stopped, run.evaluations, run.advance(t, milliseconds?) as in scan_and_snap.js
 *   run.observe() -> {time, loss, attention: [query][token], singularValues of the embedding, largest first,
 *                     projectionValues, queryKeyValues (of WQ WK^T seen by the embedding: Phi), focus: [query] = A_i0 / pi_0
 *                     on the most frequent token, entropy: [query] in nats, queryNorm, keyNorm, excessLoss = loss - optimalLoss}
 *   run.parameters() -> {embedding, query, key, projection}, nested rows
 *   run.task -> {stationary, transition, dModel, dKey, logitScale, optimalLoss, unigramLoss, start}
 * Time is in steps of gradient descent at rate 1. Bad settings throw one Error with one sentence.
 */
const FocusAndDilution = (() => {
  "use strict";

  const OPTIMISERS = ["flow", "sgd", "momentum", "adam"];
  const MOST_CHAIN_TOKENS = 64, MOST_WIDTH = 256; // a frame's worth of arithmetic on the largest is about a second

  /** The settings, checked, with every default filled in. */
  function checkedTask(settings) {
    const { stationary, stay = 0.5, dModel, dKey, initScale = 1e-3, logitScale = 1, seed = 0, start } =
      SettingsChecks.settings(settings);
    const pi = SettingsChecks.law("stationary", stationary, { positive: true });
    const d = SettingsChecks.count("number of tokens", pi.length, { low: 2, high: MOST_CHAIN_TOKENS });
    const given = start === undefined ? undefined : SettingsChecks.settings(start);
    const shape = {
      n: d,
      width: SettingsChecks.count("dModel", dModel ?? given?.embedding?.[0]?.length ?? 20, { low: 1, high: MOST_WIDTH }),
      keyWidth: SettingsChecks.count("dKey", dKey ?? given?.query?.[0]?.length ?? 8, { low: 1, high: MOST_WIDTH }),
    };
    const scale = SettingsChecks.number("initScale", initScale, { low: 0, high: 1e3 });
    const transition = lazyTable(pi, stay);
    return {
      stationary: pi,
      transition,
      dModel: shape.width,
      dKey: shape.keyWidth,
      logitScale: SettingsChecks.number("logitScale", logitScale, { low: 0, high: 1e6 }),
      optimalLoss: transition.reduce((sum, row, i) => sum + pi[i] * entropy(row), 0),
      unigramLoss: entropy(pi),
      start: given ? givenStart(given, shape) : drawnStart(shape, scale, seed),
    };
  }

  /** P = stay I + (1 - stay) 1 pi^T; a negative stay avoids repeating, as far as no chance falls below 0. */
  function lazyTable(pi, stay) {
    const lowest = Math.max(...pi.map((share) => -share / (1 - share)));
    SettingsChecks.number("stay", stay, { low: lowest, high: 1 - 1e-9 });
    return pi.map((_, i) => pi.map((share, j) => Math.max(0, (i === j ? stay : 0) + (1 - stay) * share)));
  }

  const entropy = (law) => law.reduce((sum, share) => sum - (share > 0 ? share * Math.log(share) : 0), 0);

  function drawnStart({ n, width, keyWidth }, scale, seed) {
    const { normal } = RandomNumbers.generator(SettingsChecks.count("seed", seed, { low: 0, high: Number.MAX_SAFE_INTEGER }));
    const draw = (size) => Float64Array.from({ length: size }, () => scale * normal());
    return { embedding: draw(n * width), query: draw(width * keyWidth), key: draw(width * keyWidth), projection: draw(width * n) };
  }

  function givenStart({ embedding, query, key, projection }, { n, width, keyWidth }) {
    return {
      embedding: SettingsChecks.matrix("start.embedding", embedding, n, width),
      query: SettingsChecks.matrix("start.query", query, width, keyWidth),
      key: SettingsChecks.matrix("start.key", key, width, keyWidth),
      projection: SettingsChecks.matrix("start.projection", projection, width, n),
    };
  }

  function create(settings) {
    const task = checkedTask(settings);
    const { optimiser, momentum, lrDecoder, lrAttention } = SettingsChecks.dynamics(settings, OPTIMISERS);
    const model = EmbeddedModel.create(task);
    const groups = [
      { from: 0, to: model.split, rate: lrDecoder },
      { from: model.split, to: model.start.length, rate: lrAttention },
    ];
    const path = optimiser === "flow"
      ? Integrate.flow(model.direction, model.start, groups, curvatureOf(model, task, [lrDecoder, lrAttention]))
      : Descent.path(model.direction, model.start, { optimiser, momentum, groups, uniformLoss: Math.log(task.stationary.length) });
    return {
      task,
      get time() { return path.time; },
      get stopped() { return path.stopped; },
      get evaluations() { return path.evaluations; },
      advance: (t, milliseconds) => Integrate.advanced(path, t, milliseconds),
      observe: () => observed(path, task, model),
      parameters: () => model.parameters(path.state),
    };
  }

  /** None where its matrices would be too large, or it was not loaded; the flow then goes without. */
  function curvatureOf(model, { stationary }, rates) {
    const known = typeof EmbeddedCurvature === "object" && typeof StiffStep === "object";
    return known && stationary.length <= EmbeddedCurvature.MOST_TOKENS ? EmbeddedCurvature.create(model, rates) : undefined;
  }

  function observed(path, task, model) {
    const { stationary, optimalLoss } = task;
    const { loss, attention, logitValues } = model.look(path.state);
    const frequent = stationary.indexOf(Math.max(...stationary));
    return {
      time: path.time,
      loss,
      excessLoss: loss - optimalLoss,
      attention,
      focus: attention.map((row) => row[frequent] / stationary[frequent]),
      entropy: attention.map(entropy),
      queryKeyValues: logitValues,
      ...model.sizes(path.state),
    };
  }

  return Object.freeze({ create, checkedTask });
})();

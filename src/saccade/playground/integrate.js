/* A gradient flow followed in logarithmic time by an adaptive Runge-Kutta method of order 8.
 *
 * Time is stretched, t = unit (e^s - 1): it starts at 0 and late training, which moves on the scale of t itself, is smooth
 * in s. The method is the pair 8(5,3) of Dormand and Prince with the error estimate of Hairer, Norsett and Wanner
 * (Solving Ordinary Differential Equations I, II.5 and II.10).
 *
 * The path is a chain of natural steps that knows nothing of who looks at it. A time inside a step is reached by a shorter
 * step from the step's beginning, which is then thrown away; so the path is the same to the last bit however time is cut
 * into frames. Where the flow is stiff for long, and the model knows its curvature, the steps are those of stiff_step.js instead.
 */
const Integrate = (() => {
  "use strict";

  const NODES = [
    0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 1 / 3, 0.25, 4 / 13,
    0.6512820512820513, 0.6, 6 / 7, 1,
  ];
  // Rows of the tableau, as pairs of an earlier stage and its weight.
  const STAGES = [
    [],
    [[0, 0.05260015195876773]],
    [[0, 0.0197250569845379], [1, 0.0591751709536137]],
    [[0, 0.02958758547680685], [2, 0.08876275643042054]],
    [[0, 0.2413651341592667], [2, -0.8845494793282861], [3, 0.924834003261792]],
    [[0, 1 / 27], [3, 0.17082860872947386], [4, 0.12546768756682242]],
    [[0, 0.037109375], [3, 0.17025221101954405], [4, 0.06021653898045596], [5, -0.017578125]],
    [[0, 0.03709200011850479], [3, 0.17038392571223998], [4, 0.10726203044637328], [5, -0.015319437748624402],
      [6, 0.008273789163814023]],
    [[0, 0.6241109587160757], [3, -3.3608926294469414], [4, -0.868219346841726], [5, 27.59209969944671],
      [6, 20.154067550477894], [7, -43.48988418106996]],
    [[0, 0.47766253643826434], [3, -2.4881146199716677], [4, -0.590290826836843], [5, 21.230051448181193],
      [6, 15.279233632882423], [7, -33.28821096898486], [8, -0.020331201708508627]],
    [[0, -0.9371424300859873], [3, 5.186372428844064], [4, 1.0914373489967295], [5, -8.149787010746927],
      [6, -18.52006565999696], [7, 22.739487099350505], [8, 2.4936055526796523], [9, -3.0467644718982196]],
    [[0, 2.273310147516538], [3, -10.53449546673725], [4, -2.0008720582248625], [5, -17.9589318631188],
      [6, 27.94888452941996], [7, -2.8589982771350235], [8, -8.87285693353063], [9, 12.360567175794303],
      [10, 0.6433927460157636]],
  ];
  const RESULT = [
    [0, 0.054293734116568765], [5, 4.450312892752409], [6, 1.8915178993145003], [7, -5.801203960010585],
    [8, 0.3111643669578199], [9, -0.1521609496625161], [10, 0.20136540080403034], [11, 0.04471061572777259],
  ];
  const ERROR_5 = [
    [0, 0.01312004499419488], [5, -1.2251564463762044], [6, -0.4957589496572502], [7, 1.6643771824549864],
    [8, -0.35032884874997366], [9, 0.3341791187130175], [10, 0.08192320648511571], [11, -0.022355307863886294],
  ];
  const ERROR_3 = [
    [0, -0.18980075407240762], [5, 4.450312892752409], [6, 1.8915178993145003], [7, -5.801203960010585],
    [8, -0.4226823213237919], [9, -0.1521609496625161], [10, 0.20136540080403034], [11, 0.02265179219836082],
  ];
  const SAFETY = 0.9, SHRINK = 0.2, GROW = 5; // usual bounds on how fast a step may change
  const FIRST_STEP = 1e-3, SMALLEST_STEP = 1e-13; // in s; the first is soon grown, below the last t no longer moves
  const RELATIVE = 1e-10, ABSOLUTE = 1e-13; // local error of a step; tests/playground measures what they give at the end
  // The explicit method is stable up to 6.1 over the largest eigenvalue. A flow is stiff after so many steps at that bound with
  // never so many in a row below it (all three numbers are those of Hairer and Wanner, II, IV.2).
  const AT_BOUND = 6.1, STIFF_STEPS = 15, EASY_STEPS = 6;

  /** Weights times slopes: out = base + h (weights . slopes). */
  function combined(base, weights, slopes, h, out) {
    out.set(base);
    for (let n = 0; n < weights.length; n++) {
      const slope = slopes[weights[n][0]], factor = h * weights[n][1];
      for (let i = 0; i < out.length; i++) out[i] += factor * slope[i];
    }
  }

  /** The explicit step in s. Leaves the state of its last stage, which is at the end of the step, in `last`. */
  function explicitStep(slopeAt, size) {
    const slopes = STAGES.map(() => new Float64Array(size));
    const [last, nothing, error5, error3] = Array.from({ length: 4 }, () => new Float64Array(size));

    function step(from, h, out) {
      slopes[0].set(from.slope);
      for (let stage = 1; stage < STAGES.length; stage++) {
        combined(from.state, STAGES[stage], slopes, h, last);
        slopeAt(from.s + NODES[stage] * h, last, slopes[stage]);
      }
      combined(from.state, RESULT, slopes, h, out);
    }

    /** Error of the step just made over what is allowed: at most 1 to be taken. */
    function excess(from, h, reached) {
      combined(nothing, ERROR_5, slopes, h, error5);
      combined(nothing, ERROR_3, slopes, h, error3);
      let five = 0, three = 0;
      for (let i = 0; i < size; i++) {
        const allowed = ABSOLUTE + RELATIVE * Math.max(Math.abs(from.state[i]), Math.abs(reached[i]));
        five += (error5[i] / allowed) ** 2;
        three += (error3[i] / allowed) ** 2;
      }
      return five === 0 ? 0 : five / Math.sqrt((five + 0.01 * three) * size);
    }

    /** Step times largest eigenvalue, from two states at the end of the step that differ by its error. */
    function stiffness(h, end) {
      let slope = 0, apart = 0;
      for (let i = 0; i < size; i++) {
        slope += (end.slope[i] - slopes[STAGES.length - 1][i]) ** 2;
        apart += (end.state[i] - last[i]) ** 2;
      }
      return apart > 0 ? h * Math.sqrt(slope / apart) : 0;
    }

    return { step, excess, stiffness };
  }

  /**
   * @param {(state: Float64Array, out: Float64Array) => void} velocity
   * @param {Float64Array} start state at t = 0; copied
   * @param {{unit: number, curvature?: object}} options unit: scale of time, the inverse of the larger rate; curvature: of
   *   StiffStep, for a flow that becomes stiff; its `cost` is that of a stiff step in explicit ones
   * @returns {{time: number, state: Float64Array, stopped: ?string, evaluations: number, advance: Function}}
   *   advance(t, until): to time t, or to where it has come when the page's clock shows `until`
   */
  function path(velocity, start, { unit, curvature }) {
    const size = start.length;
    const place = () => ({ s: 0, state: Float64Array.from(start), slope: new Float64Array(size) });
    const from = place(), to = place();
    const run = { time: 0, state: Float64Array.from(start), stopped: null, evaluations: 0, advance };
    const explicit = explicitStep(slopeAt, size);
    const implicit = curvature ? StiffStep.create(counted, curvature, size) : null;
    let stiff = false, atBound = 0, easy = 0;
    let step = FIRST_STEP; // in s, or in t while stiff
    let stable = 0; // the explicit step in t before it became stiff

    function counted(state, out) {
      velocity(state, out);
      run.evaluations += 1;
    }

    function slopeAt(s, state, out) {
      counted(state, out);
      const stretch = unit * Math.exp(s);
      for (let i = 0; i < size; i++) out[i] *= stretch;
    }

    const timeAt = (s) => unit * Math.expm1(s);
    const logTime = (t) => Math.log1p(t / unit);

    /** A step of any length from `from`; gives its error over what is allowed. */
    function attempt(length, out) {
      if (stiff) return implicit.step(from.state, length, out);
      explicit.step(from, length, out);
      return explicit.excess(from, length, out);
    }

    /** The next natural step: from the end of the last one to `to`. False if there is none. */
    function naturalStep() {
      begin();
      let most = GROW;
      for (;;) {
        const error = attempt(step, to.state), taken = step;
        const factor = error === 0 ? GROW : Math.max(SHRINK, SAFETY * error ** (-1 / 8));
        step *= error <= 1 ? Math.min(most, factor) : Number.isFinite(error) ? Math.min(1, factor) : SHRINK;
        if (error <= 1) {
          end(taken);
          return true;
        }
        most = 1; // after a refused step the next one does not grow
        if (step < SMALLEST_STEP) return false;
      }
    }

    function begin() {
      if (run.evaluations === 0) slopeAt(0, to.state, to.slope);
      from.s = to.s;
      from.state.set(to.state);
      from.slope.set(to.slope);
      if (implicit) changeGear();
      if (stiff) implicit.prepare(from.state);
    }

    function end(taken) {
      to.s = stiff ? logTime(timeAt(from.s) + taken) : from.s + taken;
      slopeAt(to.s, to.state, to.slope);
      if (implicit && !stiff) count(explicit.stiffness(taken, to) > AT_BOUND);
    }

    function count(bound) {
      easy = bound ? 0 : easy + 1;
      if (bound) atBound += 1;
      else if (easy === EASY_STEPS) atBound = 0;
    }

    /** Between two steps, by what the last ones were like; never by who looks, so that the path stays the same. */
    function changeGear() {
      const stretch = unit * Math.exp(from.s);
      if (!stiff && atBound >= STIFF_STEPS) {
        stable = step * stretch;
        step = curvature.cost * stable;
        stiff = true;
      } else if (stiff && step < (curvature.cost * stable) / 2) {
        step = stable / stretch;
        stiff = false;
        atBound = 0;
      }
    }

    function advance(t, until = Infinity) {
      const goal = logTime(t);
      while (to.s < goal && run.stopped === null) {
        if (!naturalStep()) stop();
        if (performance.now() >= until) break;
      }
      if (run.stopped === null) lookAt(t, goal);
    }

    /** State at the goal, or where the path has come to if that is not so far. */
    function lookAt(t, goal) {
      if (to.s <= goal) run.state.set(to.state);
      else attempt(stiff ? t - timeAt(from.s) : goal - from.s, run.state);
      run.time = to.s < goal ? timeAt(to.s) : t;
    }

    function stop() {
      run.stopped = "the solver could not go on";
      run.state.set(from.state);
      run.time = timeAt(from.s);
    }

    return run;
  }

  /** The flow along `downhill`, each group of entries at its own rate. A unit of time is that of the larger rate. */
  function flow(downhill, start, groups, curvature) {
    function velocity(state, out) {
      downhill(state, out);
      for (const { from, to, rate } of groups) for (let i = from; i < to; i++) out[i] *= rate;
    }
    return path(velocity, start, { unit: 1 / Math.max(...groups.map((group) => group.rate)), curvature });
  }

  /** Any path to time t, or as far as a budget of milliseconds allows. */
  function advanced(path, t, milliseconds = Infinity) {
    path.advance(SettingsChecks.later(t, path.time), performance.now() + milliseconds);
  }

  return Object.freeze({ path, flow, advanced });
})();

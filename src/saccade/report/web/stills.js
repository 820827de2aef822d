/* One run and one moment of a figure, as a chart is drawn from it: `still` of report/specs.py, in the page. */
const Stills = (() => {
  "use strict";

  const product = (sizes) => sizes.reduce((whole, size) => whole * size, 1);

  /** Numbers rounded as far as they were kept, so that a saved table does not pretend to more. */
  const rounded = (values) => Array.from(values, (value) => (Number.isFinite(value) ? Number(value.toPrecision(6)) : null));

  /** A figure with its numbers. @returns {Promise<Object>} the figure with `values` and `times` as arrays */
  async function load(figure) {
    const [values, times] = await Promise.all([Packed.array(figure.values), Packed.array(figure.time)]);
    return { figure, values, times, shape: figure.values.shape, nChoices: figure.choices.length };
  }

  /** Place of a run among all of them. */
  function run(loaded, choice) {
    return loaded.shape.slice(0, loaded.nChoices).reduce((place, size, axis) => place * size + Math.min(size - 1, choice[axis] ?? 0), 0);
  }

  /** Times of one run. */
  function timesOf(loaded, choice) {
    const count = loaded.shape[loaded.nChoices];
    const own = loaded.figure.time.shape.length > 1;
    const start = own ? run(loaded, choice) * count : 0;
    return loaded.times.subarray(start, start + count);
  }

  /** The last moment that is not after `time`; the first if all are. */
  function momentAt(times, time) {
    let [low, high] = [0, times.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= time * (1 + 1e-9) + 1e-12) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Numbers of one run at one moment. */
  function slice(loaded, choice, moment) {
    const size = product(loaded.shape.slice(loaded.nChoices + 1));
    const start = (run(loaded, choice) * loaded.shape[loaded.nChoices] + moment) * size;
    return loaded.values.subarray(start, start + size);
  }

  const MOST_COLOURS = 8; // that Charts tells apart; more series are in order, and take colours in order

  const TALL = 340; // pixels

  const darkest = () => (matchMedia("(prefers-color-scheme: dark)").matches ? 0.25 : 0.05); // of the map that stands out from the page

  const colourOf = (index, count) => (count > MOST_COLOURS ? Charts.sequential(darkest() + (0.75 * index) / (count - 1)) : undefined);

  function lines(loaded, choice) {
    const { figure } = loaded;
    const [times, count] = [timesOf(loaded, choice), loaded.shape.at(-1)];
    const start = run(loaded, choice) * times.length * count;
    const x = Array.from(times);
    const own = figure.names[0].length;
    return seriesLooks(figure.names[0], figure.theory ?? [], figure.tones).map((look, index) => ({
      ...look, x, colour: figure.tones ? undefined : colourOf(index % own, own), y: rounded(Array.from(times, (_, moment) => loaded.values[start + moment * count + index])),
    }));
  }

  /** Names and styles of lines, a run's own and those of its theories: `_series_looks` of report/specs.py. */
  function seriesLooks(names, theories, tones) {
    const dashed = (name, order) => ({ name, style: "dashes", tone: order || null });
    if (theories.length && names.length === 1) return [{ name: "run", tone: 0 }, ...theories.map(dashed)];
    const over = (theory, order) => names.map((_, place) => (
      { name: place ? "" : theory, style: ["dashes", "dots"][order % 2], tone: place, quiet: place > 0, ...tones?.[place] }));
    return [...names.map((name, place) => ({ name, ...tones?.[place] })), ...theories.flatMap(over)];
  }

  /** Numbers of one run between a moment and the next; `share` is how far. */
  function sliceBetween(loaded, choice, moment, share) {
    const first = slice(loaded, choice, moment);
    if (!(share > 0) || moment + 1 >= loaded.shape[loaded.nChoices]) return first;
    const next = slice(loaded, choice, moment + 1);
    return first.map((value, at) => value + (next[at] - value) * share);
  }

  /** How far a time is from a moment to the next, from 0 to 1. */
  const shareOf = (times, moment, time) => (
    moment + 1 < times.length && Number.isFinite(times[moment + 1]) && time > times[moment] ? Math.min(1, (time - times[moment]) / (times[moment + 1] - times[moment] || 1)) : 0);

  /** A map, and over it the one that theory says, whose values follow the run's own. */
  function mapped(figure, numbers) {
    const size = figure.names[0].length * figure.names[1].length;
    return figure.theory?.length ? { values: numbers.subarray(0, size), outline: numbers.subarray(size, 2 * size) } : { values: numbers };
  }

  /** What moves in bars and heat maps. */
  function moving(loaded, choice, moment, share = 0) {
    const { figure } = loaded;
    const numbers = sliceBetween(loaded, choice, moment, share);
    if (figure.kind === "heat") return mapped(figure, numbers);
    const width = figure.names[1].length;
    const [names, theory] = [figure.names[0], figure.theory ?? []];
    const group = (index) => rounded(numbers.subarray(index * width, (index + 1) * width));
    const ghost = (index) => (theory.length ? { ghost: group(names.length + index) } : {});
    const tones = figure.tones ? { tones: figure.tones } : {};
    return { groups: names.map((name, index) => ({ name, values: group(index), ...tones, ...ghost(index) })), ghostName: theory[0] };
  }

  const NARROWEST = 0.1; // of an axis against its largest number; why is in report/specs.py

  /** The vertical axis of one run: `_fitted` of report/specs.py. */
  function axisOf(axis, series) {
    if (axis.fixed) return axis;
    const { label } = axis;
    const known = series.flatMap((one) => one.y.filter((value) => value !== null));
    if (!known.length) return { label, min: 0, max: 1 };
    const [low, high] = known.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
    if (axis.log && low > 0 && high / low > 10) return { label, log: true, min: low, max: high };
    const start = low > 0 && low < 0.5 * high ? 0 : low;
    const room = Math.max(0, (NARROWEST * Math.max(Math.abs(low), Math.abs(high)) || 1) - (high - start)) / 2;
    return { label, min: start - room, max: high + room };
  }

  /** Stages of one run: some belong to a choice, axis -> place. */
  const bandsOf = ({ bands }, choice) => bands.filter(({ at = {} }) => Object.entries(at).every(([axis, place]) => (choice[axis] ?? 0) === place));

  /** All that a chart needs. @param {{from: number, to: number, label: string}[]} bands stages, for lines */
  function still(loaded, choice, moment, bands = []) {
    const { figure } = loaded;
    const told = { title: figure.title, caption: figure.caption };
    if (figure.kind === "line") {
      const height = figure.names[0].length > MOST_COLOURS ? TALL : undefined; // room for the legend
      const series = lines(loaded, choice);
      const y = axisOf(figure.y, series);
      return { ...told, height, x: { label: figure.time_label, log: figure.time.log }, y, series, bands };
    }
    const [first, second] = figure.axes.map((axis) => axis.replaceAll("_", " "));
    if (figure.kind === "bars") {
      return { ...told, x: { label: second }, y: figure.y, labels: figure.names[1], roles: figure.roles, ...moving(loaded, choice, moment) };
    }
    const axes = { x: { label: second, ticks: figure.names[1] }, y: { label: first, ticks: figure.names[0] } };
    const size = { rows: figure.names[0].length, columns: figure.names[1].length, min: figure.y.min, max: figure.y.max };
    const shown = { scale: figure.scale ?? "sequential", unit: figure.unit, outlineName: figure.theory?.[0] };
    return { ...told, ...axes, ...size, ...shown, ...moving(loaded, choice, moment) };
  }

  /** Axes that hold all of several charts. @param {Object[]} stills of one kind, as `still` gives them */
  function sharedAxes(stills) {
    const ends = (axes) => ({ min: Math.min(...axes.map(({ min }) => min)), max: Math.max(...axes.map(({ max }) => max)) });
    const [first] = stills;
    const heights = stills.map(({ y }) => y);
    const y = { ...first.y, ...ends(heights), log: heights.every(({ log }) => log) };
    if (!first.series) return { y };
    const logs = stills.map(({ x }) => x.log);
    const log = logs.includes("zero") ? "zero" : logs.every(Boolean);
    const [min, max] = ChartScales.extent(stills.flatMap(({ series }) => series.map((one) => one.x)), log);
    return { x: { ...first.x, log, min, max }, y };
  }

  return Object.freeze({ load, still, sharedAxes, bandsOf, moving, momentAt, shareOf, timesOf, rounded });
})();

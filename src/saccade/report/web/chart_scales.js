/* Scales, ticks, numbers and colours for the charts.
 *
 * Everything here is arithmetic: nothing touches the page. Values that are not finite, and values at or below zero on a
 * logarithmic axis, count as missing.
 */
const ChartScales = (() => {
  "use strict";

  // As in report/style.py; theme.css lightens them on a dark page.
  const CATEGORICAL = ["#0072b2", "#8c8000", "#009e73", "#cc79a7", "#882255", "#56b4e9", "#7f7f7f", "#000000"];
  const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const PURPLE_GREEN = ["#762a83", "#af8dc3", "#e7d4e8", "#f7f7f7", "#d9f0d3", "#7fbf7b", "#1b7837"]; // Matplotlib's PRGn: red-green blind readers see both
  const LARGEST = 1e300; // so that the width of an axis is still a finite number

  const ZERO = 0.3; // decades from 0 to 1 on an axis of powers of ten that begins with 0

  /** @param {number} value @param {boolean|"zero"} log of an axis of powers of ten: "zero" if it begins with 0 */
  const isShown = (value, log) => Number.isFinite(value) && value !== null && (!log || value > 0 || (log === "zero" && value === 0));

  /** Smallest and largest value shown over several arrays; [0, 1] (log: [1, 10]) when there is none. */
  function extent(arrays, log) {
    let low = Infinity;
    let high = -Infinity;
    for (const values of arrays) {
      for (const value of values) {
        if (!isShown(value, log)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return log ? [1, 10] : [0, 1];
    return widened(Math.max(low, -LARGEST), Math.min(high, LARGEST), log);
  }

  function widened(low, high, log) {
    if (high > low) return [low, high];
    if (log) return low > 0 ? [low / 2, low * 2] : [0, 1];
    const room = Math.abs(low) / 2 || 0.5;
    return [low - room, low + room];
  }

  /**
   * Map from a domain to pixels, with its ticks. @param {[number, number]} domain @param {[number, number]} range
   * @param {boolean|"zero"} [log]
   * @returns {{(value: number): number, invert(pixel: number): number, domain: number[], ticks(count: number): number[]}}
   */
  function scale(domain, range, log = false) {
    const { bend, straighten, ticks } = BENT[log] ?? BENT.false;
    const [low, high] = domain.map(bend);
    const slope = (range[1] - range[0]) / (high - low || 1);
    const map = (value) => range[0] + (bend(value) - low) * slope;
    map.invert = (pixel) => straighten(low + (pixel - range[0]) / slope);
    map.domain = domain;
    map.ticks = (count) => ticks(domain, count);
    return map;
  }

  function linearTicks([low, high], count) {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999) ?? rough;
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    if (!(last - first < 1000)) return [low, high];
    return Array.from({ length: last - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(12)));
  }

  function logTicks([low, high], count) {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first < 1) return shortLogTicks(low, high, first);
    const stride = Math.max(1, Math.ceil((last - first + 1) / Math.max(1, count)));
    const from = Math.ceil(first / stride) * stride;
    return Array.from({ length: Math.floor((last - from) / stride) + 1 }, (_, index) => Number(`1e${from + index * stride}`));
  }

  /** Within a decade or two: one, two and five times the powers of ten. */
  function shortLogTicks(low, high, power) {
    const ticks = [power - 1, power].flatMap((one) => [1, 2, 5].map((factor) => Number(`${factor}e${one}`)));
    return ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  }

  // How an axis is bent, and where its ticks are: straight, by powers of ten, by powers of ten after a short piece from 0 to 1.
  const BENT = {
    false: { bend: (value) => value, straighten: (place) => place, ticks: linearTicks },
    true: { bend: Math.log10, straighten: (place) => 10 ** place, ticks: logTicks },
    zero: {
      bend: (value) => (value < 1 ? ZERO * (value - 1) : Math.log10(value)),
      straighten: (place) => (place < 0 ? 1 + place / ZERO : 10 ** place),
      ticks: ([low, high], count) => [...(low === 0 ? [0] : []), ...logTicks([Math.max(1, low), Math.max(2, high)], count)],
    },
  };

  const superscript = (power) => String(power).replace(/[-\d]/g, (sign) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]);

  /** A number as a person writes it: 0.25, 12,000 as 12000, 3×10⁸. */
  function format(value, digits = 3) {
    if (value === null || value === undefined || Number.isNaN(value)) return "missing";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size === 0) return "0";
    const plain = (number) => String(Number(number.toPrecision(digits))).replace("-", "−");
    if (size >= 1e-4 && size < 99999.5) return plain(value);
    const power = Math.floor(Math.log10(size) + 1e-12);
    const front = plain(value / 10 ** power);
    return front === "1" ? `10${superscript(power)}` : `${front}×10${superscript(power)}`;
  }

  /** Indices to draw: at most four a pixel column (first, lowest, highest, last), so that no peak is lost. */
  function thinned(pixels, values, most = 2000) {
    if (values.length <= most) return Array.from(values.keys());
    const columns = new Map();
    values.forEach((value, index) => {
      const column = Math.round(pixels[index]);
      const kept = columns.get(column);
      if (!kept) return columns.set(column, { first: index, low: index, high: index, last: index });
      kept.last = index;
      if (!(values[kept.low] <= value)) kept.low = index;
      if (!(values[kept.high] >= value)) kept.high = index;
      return kept;
    });
    const indices = [...columns.values()].flatMap(({ first, low, high, last }) => [first, low, high, last]);
    return [...new Set(indices)].sort((a, b) => a - b);
  }

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  const tables = {};
  /** 256 colours of a map as a flat array of red, green, blue, made once. @param {"sequential"|"diverging"} kind */
  const colourTable = (kind) => (tables[kind] ??= madeTable(kind));

  function madeTable(kind) {
    const stops = (kind === "diverging" ? PURPLE_GREEN : VIRIDIS).map(channels);
    const table = new Uint8ClampedArray(256 * 3);
    for (let level = 0; level < 256; level += 1) {
      const place = (level / 255) * (stops.length - 1);
      const below = Math.min(Math.floor(place), stops.length - 2);
      for (let channel = 0; channel < 3; channel += 1) {
        const [from, to] = [stops[below][channel], stops[below + 1][channel]];
        table[3 * level + channel] = from + (place - below) * (to - from);
      }
    }
    return table;
  }

  /** Colour of a value between 0 and 1, as CSS. */
  function sequential(fraction) {
    const level = Math.round(255 * Math.min(1, Math.max(0, fraction)));
    return `rgb(${colourTable("sequential").slice(3 * level, 3 * level + 3).join(", ")})`;
  }

  return Object.freeze({ BENT, CATEGORICAL, isShown, extent, scale, format, thinned, colourTable, sequential });
})();

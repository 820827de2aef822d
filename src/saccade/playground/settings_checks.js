/* What every setting of the engines must be. A bad one throws an Error whose message is one sentence for the person who set it. */
const SettingsChecks = (() => {
  "use strict";

  const MOST_TOKENS = 2000, MOST_CLASSES = 100; // beyond these a page would stand still, and nothing could be drawn
  const SUM_SLACK = 1e-5; // as in the Python engine: how far from 1 a law may add up before it is refused

  function shown(value) {
    const text = typeof value === "number" ? String(value) : JSON.stringify(value) ?? String(value);
    return text.length <= 60 ? text : text.slice(0, 57) + "...";
  }

  /** A finite number in [low, high], or above low if `openLow`. */
  function number(name, value, { low, high = 1e30, openLow = false }) {
    const good = typeof value === "number" && value >= low && value <= high && !(openLow && value === low);
    if (good) return value;
    const bound = openLow ? `above ${low}` : `of at least ${low}`;
    throw new Error(`\`${name}\` must be a number ${bound}, at most ${high}; got ${shown(value)}.`);
  }

  function count(name, value, { low, high }) {
    if (Number.isInteger(value) && value >= low && value <= high) return value;
    throw new Error(`\`${name}\` must be a whole number from ${low} to ${high}; got ${shown(value)}.`);
  }

  function choice(name, value, choices) {
    if (choices.includes(value)) return value;
    throw new Error(`\`${name}\` must be one of ${choices.join(", ")}; got ${shown(value)}.`);
  }

  function list(name, value, length) {
    if (!(Array.isArray(value) || value instanceof Float64Array) || value.length === 0) {
      throw new Error(`\`${name}\` must be a list with at least one entry; got ${shown(value)}.`);
    }
    if (length !== undefined && value.length !== length) {
      throw new Error(`\`${name}\` must have ${length} entries; got ${value.length}.`);
    }
    return Array.from(value);
  }

  /** Chances that add up to one, rescaled to do so exactly; `positive`: none of them 0. */
  function law(name, value, { length, positive = false } = {}) {
    const chances = list(name, value, length);
    if (chances.length > MOST_TOKENS) {
      throw new Error(`\`${name}\` may have at most ${MOST_TOKENS} entries; got ${chances.length}.`);
    }
    for (const chance of chances) number(name, chance, { low: 0, high: 1 + SUM_SLACK, openLow: positive });
    const total = chances.reduce((sum, chance) => sum + chance, 0);
    if (Math.abs(total - 1) > SUM_SLACK) throw new Error(`\`${name}\` must add up to 1; it adds up to ${total}.`);
    return chances.map((chance) => chance / total);
  }

  /** Numbers that are all finite, (rows x columns), as one Float64Array. */
  function matrix(name, value, rows, columns) {
    const flat = list(name, value, rows).flatMap((row) => list(name, row, columns));
    for (const entry of flat) number(name, entry, { low: -1e100, high: 1e100 });
    return Float64Array.from(flat);
  }

  function settings(value) {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
    throw new Error(`The settings must be an object with named values; got ${shown(value)}.`);
  }

  /** Rates and optimiser, which both models share. Rates of the decoder and of the attention are not both 0. */
  function dynamics({ lrDecoder = 1, lrAttention = 1, optimiser = "flow", momentum = 0.9 }, optimisers) {
    const checked = {
      lrDecoder: number("lrDecoder", lrDecoder, { low: 0 }),
      lrAttention: number("lrAttention", lrAttention, { low: 0 }),
      optimiser: choice("optimiser", optimiser, optimisers),
      momentum: number("momentum", momentum, { low: 0, high: 0.9999 }),
    };
    if (Math.max(lrDecoder, lrAttention) < 1e-30) {
      throw new Error("`lrDecoder` and `lrAttention` must not both be 0: nothing would move.");
    }
    return checked;
  }

  /** The time to go to: not before where the run is. */
  function later(t, now) {
    if (typeof t === "number" && t >= now && t <= 1e300) return t;
    throw new Error(`A run goes forward only: the time must be a number of at least ${now}, at most 1e300; got ${shown(t)}.`);
  }

  return Object.freeze({ MOST_TOKENS, MOST_CLASSES, number, count, choice, list, law, matrix, settings, dynamics, later });
})();

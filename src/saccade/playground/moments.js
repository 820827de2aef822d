/* What a run shows at a place between two samples: numbers in between, time in its logarithm. */
const Moments = (() => {
  "use strict";
  const MIXED = ["loss", "attention", "singularValues", "embedding"];

  function mixed(low, high, share) {
    if (Array.isArray(low)) return low.map((value, at) => mixed(value, high[at], share));
    return low + (high - low) * share;
  }

  const between = (low, high, share) => (low > 0 ? low * (high / low) ** share : low + (high - low) * share);

  /** @param {{seen: Object[]}} run @param {number} place @returns {Object} as run.observe() gives it, with `place` */
  function at(run, place) {
    const first = Math.min(run.seen.length - 1, Math.floor(place));
    const [low, high, share] = [run.seen[first], run.seen[first + 1], place - first];
    if (!high || !(share > 0)) return { ...low, place: first };
    const inside = MIXED.filter((name) => low[name] !== undefined).map((name) => [name, mixed(low[name], high[name], share)]);
    return { ...low, ...Object.fromEntries(inside), time: between(low.time, high.time, share), place };
  }

  return Object.freeze({ at });
})();

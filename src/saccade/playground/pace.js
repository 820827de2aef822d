/* How a run is played: most of the time goes where something moves, the rest evenly over its samples. The rule of report/pace.py. */
const Pace = (() => {
  "use strict";
  const EVENLY = 0.25; // share of the time that goes evenly over the samples

  /** How far two rows of numbers are from each other. */
  const apart = (row, other) => row.reduce((sum, value, at) => sum + Math.abs(value - other[at]), 0);

  /** Share of the playing time that is over at each sample. @param {number[]} way */
  function shares(way) {
    const [last, whole] = [Math.max(1, way.length - 1), way.at(-1)];
    return way.map((far, at) => (whole > 0 ? (EVENLY * at) / last + ((1 - EVENLY) * far) / whole : at / last));
  }

  /** The place, perhaps between two samples, at which so much of the time is over. */
  function placeAt(pace, share) {
    const above = pace.findIndex((one) => one >= share);
    if (above <= 0) return above < 0 ? pace.length - 1 : 0;
    return above - 1 + (share - pace[above - 1]) / (pace[above] - pace[above - 1] || 1);
  }

  /** The share of the time that is over at a place. */
  function shareAt(pace, place) {
    const first = Math.min(pace.length - 1, Math.floor(place));
    return pace[first] + (first + 1 < pace.length ? (pace[first + 1] - pace[first]) * (place - first) : 0);
  }

  return Object.freeze({ apart, shares, placeAt, shareAt });
})();

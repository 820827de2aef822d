/* The step slider that drives every plot of the page: play, step, jump to an event; arrow keys where the slider has the focus.
 *
 * Its times are those of the record on the left. Playing spends its seconds where attention moves (`pace`, from page_data.py) and
 * passes through times between two moments, where plots interpolate.
 */
const Player = (() => {
  "use strict";
  const SECONDS = 8; // that a whole run takes when it is played
  const listeners = new Set();
  let [times, pace, place, playing] = [[0], [0], 0, false];
  let unseen = []; // stretches of a watched run in which nobody looked, see report/timeline.py
  let isCounted = true; // whether times are numbers of steps: there is none between two
  const parts = {};

  /** The present time; `place` is between two moments while a run is played. */
  function time() {
    const first = Math.floor(place);
    return first + 1 < times.length ? times[first] + (times[first + 1] - times[first]) * (place - first) : times[first];
  }

  /** Call `listener(time)` at every move. @returns {() => void} stops it */
  function listen(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function show() {
    const far = unseen.find(([from, to]) => from < time() && time() < to);
    parts.slider.value = String(Math.floor(place));
    parts.unit.parentElement.classList.toggle("far", Boolean(far)); // two lines on a phone
    parts.unit.textContent = far ? `between ${parts.label}s` : parts.label;
    parts.readout.textContent = far ? far.map((step) => Charts.format(step, 6)).join(" and ")
      : Charts.format(isCounted ? Math.round(time()) : time(), playing && !isCounted ? 3 : 6);
    parts.slider.setAttribute("aria-valuetext", `${parts.unit.textContent} ${parts.readout.textContent}`);
    for (const listener of listeners) listener(time());
  }

  function go(next) {
    place = Math.min(times.length - 1, Math.max(0, next));
    show();
  }

  function stop() {
    playing = false;
    parts.play.textContent = "▶ Play";
    parts.play.setAttribute("aria-pressed", "false");
  }

  /** The place, perhaps between two moments, at which so much of the way is behind. */
  function placeAt(share) {
    const first = Stills.momentAt(pace, share);
    const next = Math.min(first + 1, pace.length - 1);
    return first + (next > first ? Math.min(1, Math.max(0, (share - pace[first]) / (pace[next] - pace[first] || 1))) : 0);
  }

  function play() {
    if (playing) return stop();
    if (place >= times.length - 1) go(0);
    const from = pace[Math.floor(place)];
    let start = null;
    playing = true;
    parts.play.textContent = "❚❚ Pause";
    parts.play.setAttribute("aria-pressed", "true");
    requestAnimationFrame(function frame(now) {
      if (!playing) return;
      start ??= now;
      const share = from + (now - start) / (1000 * SECONDS);
      if (share >= 1) { stop(); go(times.length - 1); return; }
      go(placeAt(share));
      requestAnimationFrame(frame);
    });
    return undefined;
  }

  /**
   * Use the clock and events of a record.
   * @param {Float64Array} clock @param {Float64Array} shares how far a film of it is at each moment, from 0 to 1
   * @param {Object} record with `clockLabel`, name and unit; `events`; `unseen` @param {boolean} stay at the present time, or at the end
   */
  function use(clock, shares, { clockLabel, events, unseen: stretches }, stay) {
    stop();
    const now = stay && place < times.length - 1 ? time() : Infinity;
    const [label, unit = ""] = clockLabel.split(",");
    [times, pace, unseen, parts.label] = [clock, shares, stretches, label];
    isCounted = times.every(Number.isInteger);
    parts.slider.max = String(times.length - 1);
    parts.measure.textContent = label === "step" ? "" : unit; // "step 53" says it all
    parts.events.replaceChildren(new Option("Jump to an event…", ""));
    for (const event of events) parts.events.append(new Option(`${event.name} (${Charts.format(event.time)})`, String(event.time)));
    parts.events.hidden = events.length === 0;
    jump(now);
  }

  /** Go to the moment of a time. */
  function jump(to) {
    const next = Stills.momentAt(times, to);
    go(next + 1 < times.length && Math.abs(times[next + 1] - to) < Math.abs(times[next] - to) ? next + 1 : next);
  }

  /** Take hold of the controls in the page. @param {Element} bar */
  function attach(bar) {
    for (const part of bar.querySelectorAll("[data-player]")) parts[part.dataset.player] = part;
    parts.slider.addEventListener("input", () => { stop(); go(Number(parts.slider.value)); });
    parts.play.addEventListener("click", play);
    parts.back.addEventListener("click", () => { stop(); go(Math.ceil(place) - 1); });
    parts.ahead.addEventListener("click", () => { stop(); go(Math.floor(place) + 1); });
    parts.events.addEventListener("change", () => { stop(); if (parts.events.value !== "") jump(Number(parts.events.value)); });
  }

  return Object.freeze({ attach, use, listen, play, time });
})();

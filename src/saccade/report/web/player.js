/* The step slider that drives every plot of the page: play, step, jump to an event; arrow keys where the slider has the focus.
 *
 * Its times are those of the record on the left; every other plot shows the last of its moments that is not after that time.
 */
const Player = (() => {
  "use strict";
  const FRAMES = 240; // that a whole run takes when it is played: ten seconds at the pace below
  const PACE = 40; // milliseconds a frame
  const listeners = new Set();
  let [times, place, timer] = [[0], 0, null];
  const parts = {};

  const time = () => times[place];

  /** Call `listener(time)` at every move. @returns {() => void} stops it */
  function listen(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  function show() {
    parts.slider.value = String(place);
    parts.slider.setAttribute("aria-valuetext", `${parts.label} ${Charts.format(time(), 4)}`);
    parts.readout.textContent = Charts.format(time(), 6);
    for (const listener of listeners) listener(time());
  }

  function go(next) {
    place = Math.min(times.length - 1, Math.max(0, next));
    show();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    parts.play.textContent = "▶ Play";
    parts.play.setAttribute("aria-pressed", "false");
  }

  function play() {
    if (timer !== null) return stop();
    if (place >= times.length - 1) go(0);
    const stride = Math.max(1, Math.round(times.length / FRAMES));
    parts.play.textContent = "❚❚ Pause";
    parts.play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => {
      go(place + stride);
      if (place >= times.length - 1) stop();
    }, PACE);
    return undefined;
  }

  /**
   * Use the clock and events of a record.
   * @param {Float64Array} clock @param {string} label name and unit @param {{time: number, name: string}[]} events
   */
  function use(clock, label, events) {
    stop();
    [times, parts.label] = [clock, label.split(",")[0]];
    parts.slider.max = String(times.length - 1);
    parts.unit.textContent = parts.label;
    parts.measure.textContent = label.split(",")[1] ?? "";
    parts.events.replaceChildren(new Option("Jump to an event…", ""));
    for (const event of events) parts.events.append(new Option(`${event.name} (${Charts.format(event.time)})`, String(event.time)));
    parts.events.hidden = events.length === 0;
    go(times.length - 1);
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
    parts.back.addEventListener("click", () => { stop(); go(place - 1); });
    parts.ahead.addEventListener("click", () => { stop(); go(place + 1); });
    parts.events.addEventListener("change", () => { stop(); if (parts.events.value !== "") jump(Number(parts.events.value)); });
  }

  return Object.freeze({ attach, use, listen, time });
})();

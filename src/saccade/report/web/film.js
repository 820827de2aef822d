/* A film: attention as it moves, over and over until it is stopped. Which frames it has is decided in lab/film.py.
 *
 * It plays by itself unless the visitor wants less motion, and only while it is in sight.
 */
const Film = (() => {
  "use strict";
  const { html } = ChartFrame;
  const RATE = 30; // frames a second
  const HOLD = 1.5; // seconds that the last frame stays
  const HEIGHT = 240; // pixels: two films and the verdicts fit one screen
  const [COMMON, DISTINCT] = ["common tokens", "distinct tokens"];
  const FAINTEST = 0.3; // of the rarest distinct token: as in report/specs.py

  const between = (low, high, share) => low.map((value, at) => (
    value === null || high[at] === null ? null : value + (high[at] - value) * share));

  /** Numbers of a frame, which may lie between two. */
  function frameAt(rows, place) {
    const first = Math.min(rows.length - 1, Math.floor(place));
    return first + 1 < rows.length ? between(rows[first], rows[first + 1], place - first) : rows[first];
  }

  /** Colours by role: common tokens are grey, distinct ones, which stand from the rarest on, the fuller the more frequent. */
  function tonesOf({ roles }) {
    const distinct = [...roles.keys()].filter((at) => roles[at] === DISTINCT);
    const fullness = (rank) => (distinct.length > 1 ? FAINTEST + ((1 - FAINTEST) * rank) / (distinct.length - 1) : 1);
    return roles.map((role, at) => (role === COMMON ? { tone: 6 } : { tone: 0, ...(role === DISTINCT && { opacity: fullness(distinct.indexOf(at)) }) }));
  }

  /** What the colours mean; nothing where the film tells no roles. */
  const rolesOf = ({ roles }) => [{ name: COMMON, tone: 6 }, { name: DISTINCT, tone: 0 }].filter(({ name }) => roles.includes(name))
    .map((role) => (role.name === DISTINCT ? { ...role, name: `${DISTINCT}, fuller: more frequent` } : role));

  /** The bars; what theory predicts is an outline. */
  function groups(film, tones, place) {
    const theory = film.theory && frameAt(film.theory, place);
    return [{ name: "attention", tones, values: frameAt(film.values, place), ...(theory && { ghost: theory }) }];
  }

  function bars(container, film) {
    const [top, tones] = [Math.max(...film.values.flat()), tonesOf(film)];
    const spec = { x: { label: "token" }, y: { label: "attention", min: 0, max: top }, labels: film.tokens, ghostName: film.outlines, roles: rolesOf(film) };
    const chart = Charts.bars(container, { ...spec, height: HEIGHT, groups: groups(film, tones, 0) });
    return { element: chart, show: (place) => chart.update({ groups: groups(film, tones, place) }) };
  }

  function map(container, film) {
    const size = { rows: film.queries.length, columns: film.tokens.length, min: 0, max: 1, unit: "attention" };
    const axes = { x: { label: "token", ticks: film.tokens }, y: { label: "query", ticks: film.queries } };
    const moment = (place) => ({ values: frameAt(film.values, place), ...(film.theory && { outline: frameAt(film.theory, place) }) });
    const chart = Charts.heat(container, { ...size, ...axes, height: HEIGHT, outlineName: film.outlines, ...moment(0) });
    return { element: chart, show: (place) => chart.update(moment(place)) };
  }

  /** Where a time lies among the frames. */
  function placeOf(times, time) {
    const after = times.findIndex((other) => other >= time);
    if (after <= 0) return after < 0 ? times.length - 1 : 0;
    return after - 1 + (time - times[after - 1]) / (times[after] - times[after - 1] || 1);
  }

  /** A tick under the slider at each moment that has a name; the line below says the name of the last one that is past. */
  function marks(container, film) {
    const list = html("div", "film-marks", undefined, container);
    list.setAttribute("aria-hidden", "true");
    for (const { time, label } of film.marks) {
      const mark = html("span", "", "▴", list);
      mark.title = label;
      mark.style.left = `${(100 * placeOf(film.times, time)) / (film.times.length - 1)}%`;
    }
  }

  /** @param {Element} container @param {Object} film as in film.json @param {{title: string, link: ?string}} result where it is from */
  function create(container, film, { title, link }) {
    const figure = html("figure", "film", undefined, container);
    html("figcaption", "film-sentence", film.sentence, figure);
    const chart = (film.kind === "heat" ? map : bars)(html("div", "film-stage", undefined, figure), film);
    const row = html("div", "film-row", undefined, figure);
    const button = html("button", "film-play", "❚❚", row);
    button.type = "button";
    const track = html("div", "film-track", undefined, row);
    const slider = html("input", "film-slider", undefined, track);
    Object.assign(slider, { type: "range", min: "0", max: String(film.times.length - 1), step: "1", value: "0" });
    slider.setAttribute("aria-label", `Moment of the film: ${film.sentence}`);
    marks(track, film);
    const line = html("p", "film-line", undefined, figure);
    const readout = html("b", "film-time", "", line);
    if (link) html("a", "film-more", `more: ${title}`, line).href = link;
    let [place, last, playing, seen] = [0, null, false, false];

    function show() {
      chart.show(place);
      slider.value = String(Math.round(place));
      const time = frameAt(film.times.map((one) => [one]), place)[0];
      const past = film.marks.filter((mark) => mark.time <= time * (1 + 1e-9)).at(-1);
      readout.textContent = `${film.clock.split(" ")[0]} = ${Charts.format(time, 2)}${film.marks.length ? `: ${past ? past.label : "start"}` : ""}`;
      slider.setAttribute("aria-valuetext", readout.textContent);
    }

    function step(now) {
      if (!playing || !seen) { last = null; return; }
      const passed = last === null ? 0 : Math.min(0.1, (now - last) / 1000);
      last = now;
      place += passed * RATE;
      if (place > film.times.length - 1 + HOLD * RATE) place = 0;
      const shown = place;
      place = Math.min(place, film.times.length - 1);
      show();
      place = shown;
      requestAnimationFrame(step);
    }

    function play(on) {
      const starts = on && !playing;
      playing = on;
      button.textContent = on ? "❚❚" : "▶";
      button.setAttribute("aria-label", on ? "Pause the film" : "Play the film");
      if (on && place > film.times.length - 1) place = 0;
      if (starts && seen) requestAnimationFrame(step);
    }

    button.addEventListener("click", () => play(!playing));
    slider.addEventListener("input", () => { play(false); place = Number(slider.value); show(); });
    new IntersectionObserver((entries) => {
      const was = seen;
      seen = entries.at(-1).isIntersecting;
      if (seen && !was && playing) requestAnimationFrame(step);
    }).observe(figure);
    show();
    play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  }

  return Object.freeze({ create });
})();

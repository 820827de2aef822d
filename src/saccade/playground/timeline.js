/* One timeline for a run: a hill of attention's speed that fills as time runs, and a ribbon of stages below it.
 *
 * Across are the samples, which for long times lie evenly in the logarithm of time. Up is how far attention moves in one unit of time, summed over
 * all rows. The outline is theory's speed, there before the run comes; both have one scale, so that they can be seen to part.
 */
const Timeline = (() => {
  "use strict";
  const { svg, html } = ChartFrame;
  const [WIDTH, HEIGHT] = [1000, 100]; // units of the drawing, stretched to its place
  const PADDING = 7; // pixels beside a stage's name
  const LOWEST = 0.2; // of attention in a whole run: a hill as high as the drawing moves at least at that speed

  /** Speed of attention between each sample and the one before; null where one is not known. */
  function speeds(rows, times) {
    return rows.slice(1).map((row, at) => {
      if (!row || !rows[at]) return null;
      const far = row.reduce((sum, one, n) => sum + Pace.apart(one, rows[at][n]), 0);
      return far / (times[at + 1] - times[at]);
    });
  }

  /** Path over the samples from the first on; closed at the bottom if it is filled. */
  function path(values, count, top, filled) {
    const x = (at) => ((WIDTH * at) / (count - 1)).toFixed(1);
    const known = values.findIndex((value) => value === null);
    const shown = known < 0 ? values : values.slice(0, known);
    if (!shown.length || !(top > 0)) return "";
    const line = shown.map((value, at) => `L${x(at + 1)} ${(HEIGHT * (1 - (0.96 * value) / top)).toFixed(2)}`).join("");
    return `M0 ${HEIGHT}${line}${filled ? `L${x(shown.length)} ${HEIGHT}Z` : ""}`;
  }

  /** Round times with their places, powers of ten before others, none nearer to another than `room` (a share of the whole). */
  function ticks(run, room) {
    const [first, last] = [run.times[1], run.times.at(-1)].map((time) => Math.floor(Math.log10(time)));
    const powers = Array.from({ length: last - first + 1 }, (_, at) => first + at);
    const wanted = [1, 2, 5].flatMap((factor) => powers.map((power) => Number(`${factor}e${power}`)));
    const kept = [];
    for (const time of wanted.filter((one) => one >= run.times[1] && one <= run.times.at(-1))) {
      const share = run.placeOf(time) / (run.times.length - 1);
      if (share >= room / 3 && kept.every((other) => Math.abs(other.share - share) >= room)) kept.push({ label: Charts.format(time), share });
    }
    return kept;
  }

  /**
   * @param {Element} container @param {{onSeek: (place: number) => void}} listeners
   * @returns {{load(run: Object): void, grow(): void, draw(place: number): void}}
   */
  function create(container, { onSeek }) {
    const hill = html("div", "hill", undefined, container);
    const whole = svg("svg", { class: "hill-svg", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, hill);
    const ahead = svg("path", { class: "hill-ahead" }, whole);
    const done = svg("path", { class: "hill-done" }, whole);
    const told = svg("path", { class: "hill-theory" }, whole);
    const title = html("span", "hill-name", "attention's speed", hill);
    const head = html("i", "hill-head", undefined, hill);
    const ribbon = html("div", "ribbon", undefined, container);
    const scale = html("div", "ribbon-ticks", undefined, container);
    let run = null;
    let stages = [];
    let named = null; // the stage for which names were fitted

    const percent = (place) => `${(100 * place) / (run.times.length - 1)}%`;

    function load(next) {
      [run, stages, named] = [next, [], null];
      scale.replaceChildren(...ticks(run, 60 / Math.max(300, scale.clientWidth)).map(({ label, share }) => {
        const tick = html("span", share > 0.96 ? "is-last" : "", label);
        tick.style.left = `${100 * share}%`;
        return tick;
      }));
      grow();
    }

    /** As the run is computed ahead more of it is known. */
    function grow() {
      const [live, theory] = [run.seen.map((one) => one.attention), TheoryView.attention(run)].map((rows) => speeds(rows, run.times));
      const top = Math.max(LOWEST / run.times.at(-1), ...live, ...theory.map((value) => value ?? 0));
      const filled = path(live, run.times.length, top, true);
      ahead.setAttribute("d", filled);
      done.setAttribute("d", filled);
      told.setAttribute("d", path(theory, run.times.length, top, false));
      const third = Math.ceil(live.length / 3);
      title.classList.toggle("is-right", Math.max(...live.slice(0, third)) > Math.max(0, ...live.slice(2 * third))); // where the hill is lower
      drawStages();
    }

    /** The stage of the moment is named in full, over its neighbours if it is short; so are others that leave the next room for its name. */
    function fitNames(now) {
      if (named === now) return;
      named = now;
      const parts = [...ribbon.children];
      for (const part of parts) part.classList.remove("is-wide");
      const boxes = parts.map((part) => ({ left: part.offsetLeft, right: part.offsetLeft + part.offsetWidth }));
      let edge = -Infinity; // up to where those before are spread
      parts.forEach((part, index) => {
        const [{ left, right }, name] = [boxes[index], part.firstChild];
        const start = edge > left + 1 ? edge : left; // both are rounded
        const needs = name.offsetWidth + PADDING;
        const next = boxes[index + 1];
        const isWide = right - start < needs && start === left && next !== undefined && index + 1 !== now
          && next.right - (left + needs + PADDING) >= parts[index + 1].firstChild.offsetWidth + PADDING;
        part.classList.toggle("is-wide", isWide);
        name.style.marginLeft = `${start - left}px`;
        name.style.visibility = index === now || isWide || right - start >= needs ? "" : "hidden";
        edge = Math.max(edge, right, index === now || isWide ? left + needs + PADDING : 0);
      });
    }

    function drawStages() {
      const next = TheoryView.stages(run);
      if (JSON.stringify(next) === JSON.stringify(stages)) return;
      [stages, named] = [next, null];
      hill.querySelectorAll(".hill-mark").forEach((mark) => mark.remove());
      ribbon.replaceChildren(...stages.map(({ name, at, predicted }, index) => {
        const [from, to] = [run.placeOf(at), index + 1 < stages.length ? run.placeOf(stages[index + 1].at) : run.times.length - 1];
        const part = html("span", "stage-part");
        html("span", "stage-name", name, part);
        part.title = predicted ? `${name}: predicted from time ${Charts.format(at)} on` : name;
        part.style.left = percent(from);
        part.style.width = percent(to - from);
        if (at > 0) html("i", "hill-mark", undefined, hill).style.left = percent(from);
        return part;
      }));
    }

    function draw(place) {
      done.style.clipPath = `inset(0 ${100 - (100 * place) / (run.times.length - 1)}% 0 0)`;
      head.style.left = percent(place);
      const now = stages.findLastIndex(({ at }) => run.placeOf(at) <= place + 1e-9);
      [...ribbon.children].forEach((part, index) => {
        part.classList.toggle("is-now", index === now);
        part.classList.toggle("is-past", index < now);
      });
      fitNames(now);
    }

    function seek(event) {
      const box = hill.getBoundingClientRect();
      onSeek(((event.clientX - box.left) / box.width) * (run.times.length - 1));
    }
    hill.addEventListener("pointerdown", (event) => {
      hill.setPointerCapture(event.pointerId);
      seek(event);
    });
    hill.addEventListener("pointermove", (event) => { if (hill.hasPointerCapture(event.pointerId)) seek(event); });
    return { load, grow, draw };
  }

  return Object.freeze({ create, speeds });
})();

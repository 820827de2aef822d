/* The report: puts the parts of the page to work, in the order in which they are seen. */
(() => {
  "use strict";
  const { html } = ChartFrame;
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = (id) => document.getElementById(id);

  const isAlone = data.results.length === 1;

  /** Films of the results that have one, before everything else. */
  async function films() {
    for (const [index, result] of data.results.entries()) {
      if (!result.film) continue;
      const film = JSON.parse(await Packed.text(result.film));
      Film.create(place("films"), film, { title: result.title, link: isAlone ? null : `#result-${index}` });
    }
  }

  /** The one figure that tells the story: of one result its own; of several, above the table of claims, how all of them came out. */
  async function story() {
    const [first] = data.results;
    if (data.story) {
      await Figures.own(place("story"), { name: "runs", panels: data.story, tables: {} });
      await Overlay.create(place("overlay"), data.records);
    } else if (!isAlone) {
      if (!data.claims.length) return;
      const titleOf = (name) => data.results.find((result) => result.name === name).title;
      const all = Overview.create(place("all-claims"), data.claims, titleOf, Claims.reveal);
      Charts.saveMenu(all, "claims");
      Claims.follow(all.only);
    } else if (first.panels || first.svg) {
      await Figures.own(place("story"), first);
    }
  }

  /** The record that goes on longest: with its clock every run is seen to its end. */
  async function longest() {
    const clocks = await Promise.all(data.records.map((record) => Packed.array(record.clock)));
    const ends = clocks.map((clock) => clock.at(-1));
    return data.records[ends.indexOf(Math.max(...ends))];
  }

  /** The clock of a run: all runs of a record have one, or each has its own, perhaps with fewer moments than others. */
  async function useClock(record, choice = {}, stay = false) {
    const [clocks, paces] = await Promise.all([Packed.array(record.clock), Packed.array(record.pace)]);
    const { shape } = record.clock;
    const first = shape.at(-1) * record.clockAxes.reduce((at, axis, index) => at * shape[index] + (choice[axis] ?? 0), 0);
    const [clock, pace] = [clocks, paces].map((all) => all.subarray(first, first + shape.at(-1)));
    const unknown = clock.findIndex((time) => !Number.isFinite(time));
    const count = unknown < 0 ? clock.length : Math.max(1, unknown);
    Player.use(clock.subarray(0, count), pace.subarray(0, count), record, stay);
  }

  /** What the second view begins with: another seed of the same record, else the next record, else another choice in this one. */
  function other(state) {
    const axes = View.choicesOf(data.records[state.record]);
    const next = data.records.length > 1 ? undefined : [...axes].find(([, labels]) => labels.length > 1)?.[0];
    const axis = axes.get("seed")?.length > 1 ? "seed" : next;
    if (axis) {
      const place = ((state.choice[axis] ?? 0) + 1) % axes.get(axis).length;
      return { record: state.record, choice: { ...state.choice, [axis]: place } };
    }
    return { record: (state.record + 1) % data.records.length, choice: {} };
  }

  /** The view over time, in the page where there is one result or nothing is claimed; else in the card that was opened last. */
  async function overTime() {
    if (!data.records.length) return undefined;
    place("over-time").hidden = !isAlone && data.claims.length > 0;
    Player.attach(place("player"));
    const isRuns = Boolean(data.story); // several that are compared keep one clock
    await useClock(isRuns ? await longest() : data.records[0]);
    const first = View.create(place("views"), data.records, { record: 0, choice: {} }, isRuns ? undefined : useClock, isRuns);
    let second = null;
    const button = place("compare");
    function compare(on) {
      if (second) second = second.destroy() ?? null;
      if (on) second = View.create(place("views"), data.records, other(first.state), undefined, isRuns);
      place("views").classList.toggle("two", second !== null);
      button.setAttribute("aria-pressed", String(second !== null));
    }
    button.addEventListener("click", () => compare(second === null));
    if (isRuns) compare(true);
    return { show(index) { compare(false); first.show(index); } };
  }

  /** Move the view over time into a card. @param {number} result @param {Element} into */
  async function showRecord(view, result, into) {
    const index = data.records.findIndex((record) => record.result === result);
    if (!view || index < 0 || !data.claims.length) return; // without claims it stands in the page for all records
    into.append(place("over-time"));
    place("over-time").hidden = false;
    await useClock(data.records[index]);
    view.show(index);
  }

  /** The way back is offered where the top is out of sight. */
  function offerTop() {
    const link = document.querySelector(".to-top");
    new IntersectionObserver((entries) => { link.hidden = entries.at(-1).isIntersecting; }).observe(place("top"));
  }

  async function start() {
    offerTop();
    Zoom.attach();
    if (!Packed.works()) {
      html("p", "warning", "This browser cannot unpack the figures; Chrome 80, Firefox 113, Safari 16.4 or later can.", place("story"));
      return;
    }
    data.claims = JSON.parse(await Packed.text(data.claims));
    await films();
    Claims.attach(data.claims, (cell, claim) => ClaimDetail.fill(cell, claim, data.claims));
    const view = await overTime();
    await story();
    if (isAlone) Figures.attach(place("result-0"), data.results[0], false);
    else Cards.attach(data.results, (result, into) => showRecord(view, result, into));
    const isFilm = data.records.some((record) => record.text) && !place("over-time").hidden;
    if (isFilm && !matchMedia("(prefers-reduced-motion: reduce)").matches) Player.play();
    document.documentElement.dataset.ready = "true";
  }

  start();
})();

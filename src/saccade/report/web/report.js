/* The report: puts the parts of the page to work, in the order in which they are seen. */
(() => {
  "use strict";
  const { html } = ChartFrame;
  const data = JSON.parse(document.getElementById("data").textContent);
  const place = (id) => document.getElementById(id);

  /** The one figure that tells the story: of one result its own, of several how all their claims came out. */
  async function story() {
    const [first] = data.results;
    if (data.results.length > 1 && data.claims.length) {
      const chart = Overview.create(place("story"), data.claims, Claims.reveal);
      Charts.saveMenu(chart, "claims");
    } else if (first.panels || first.svg) {
      await Figures.own(place("story"), first);
    } else if (data.records.length) {
      await firstCurve(data.records[0]);
    }
  }

  async function firstCurve(record) {
    const figure = record.figures.find((other) => other.kind === "line");
    if (!figure) return;
    const loaded = await Stills.load(figure);
    const chart = Charts.line(place("story"), Stills.still(loaded, [], 0, record.bands));
    Charts.saveMenu(chart, `${record.name}-${figure.name}`);
    Player.listen((time) => chart.cursor(time));
    chart.cursor(Player.time());
  }

  const useClock = async (record) => Player.use(await Packed.array(record.clock), record.clockLabel, record.events);

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

  async function overTime() {
    if (!data.records.length) return;
    place("over-time").hidden = false;
    Player.attach(place("player"));
    await useClock(data.records[0]);
    const first = View.create(place("views"), data.records, { record: 0, choice: {} }, useClock);
    let second = null;
    const button = place("compare");
    button.addEventListener("click", () => {
      if (second) second = second.destroy() ?? null;
      else second = View.create(place("views"), data.records, other(first.state));
      place("views").classList.toggle("two", second !== null);
      button.setAttribute("aria-pressed", String(second !== null));
    });
  }

  async function start() {
    if (!Packed.works()) {
      html("p", "warning", "This browser cannot unpack the figures; Chrome 80, Firefox 113, Safari 16.4 or later can.", place("story"));
      return;
    }
    Claims.attach(data.claims, (cell, claim) => ClaimDetail.fill(cell, claim, data.claims));
    await overTime();
    await story();
    for (const section of document.querySelectorAll("[data-result]")) {
      Figures.attach(section, data.results[Number(section.dataset.result)], data.results.length > 1);
    }
    document.documentElement.dataset.ready = "true";
  }

  start();
})();

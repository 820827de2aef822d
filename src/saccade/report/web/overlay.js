/* Several watched runs in one picture: each figure of lines that all of them have, a line a run, with axes for all of them. */
const Overlay = (() => {
  "use strict";
  const { html } = ChartFrame;

  /** Figures of lines that every record has, each as a list over the records. */
  function shared(records) {
    const named = (record, name) => record.figures.find((figure) => figure.kind === "line" && figure.name === name);
    return records[0].figures.map(({ name }) => records.map((record) => named(record, name))).filter((found) => found.every(Boolean));
  }

  /** Names of lines that every figure has. */
  const lines = (figures) => figures[0].names[0].filter((name) => figures.every((figure) => figure.names[0].includes(name)));

  async function chart(container, figures, records) {
    const loaded = await Promise.all(figures.map(Stills.load));
    const stills = loaded.map((one) => Stills.still(one, [], 0));
    const place = html("div", "panel", undefined, container);
    const series = (line) => stills.map((still, run) => ({ ...still.series.find(({ name }) => name === line), name: records[run].name, colour: undefined }));
    const names = lines(figures);
    const spec = (line) => ({
      ...stills[0], x: Stills.sharedAxes(stills).x, y: { label: stills[0].y.label, log: stills.every((still) => still.y.log), ...(figures[0].y.fixed && { min: 0, max: 1 }) }, series: series(line),
    });
    const handle = Charts.line(place, spec(names[0]));
    if (names.length > 1) {
      const label = html("label", "inline", `${figures[0].axes[0] || "line"} `);
      const select = html("select", "", undefined, label);
      names.forEach((name) => select.append(new Option(name)));
      select.addEventListener("change", () => handle.update(spec(select.value)));
      handle.element.prepend(label);
    }
    Charts.saveMenu(handle, `runs-${figures[0].name}`);
    Figures.follow(handle);
  }

  /** @param {Element} container @param {Object[]} records watched runs, as page_data.py gives them */
  async function create(container, records) {
    const grid = html("div", "panels", undefined, container);
    for (const figures of shared(records)) if (lines(figures).length) await chart(grid, figures, records);
  }

  return Object.freeze({ create });
})();

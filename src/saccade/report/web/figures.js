/* The figure that a result has made itself, as a picture, and its tables: shown when they come into sight, and saved from here.
 *
 * A figure is only ever an image, never part of the page: whatever an SVG file holds, nothing in it runs.
 */
const Figures = (() => {
  "use strict";
  const { html } = ChartFrame;
  const MOST_ROWS = 200; // of a table in the page; the file that is saved has all of them

  /** Call `make` once `element` is about to be seen. */
  function whenSeen(element, make) {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      make();
    }, { rootMargin: "400px" });
    observer.observe(element);
  }

  /** @param {Element} container @param {Object} result */
  async function picture(container, result) {
    const source = await Packed.text(result.svg);
    const figure = html("figure", "own-figure", undefined, container);
    const image = html("img", "", undefined, figure);
    image.alt = `Figure of ${result.name}: ${result.statement}`;
    const size = source.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/);
    if (size) [image.width, image.height] = [Math.round(Number(size[1])), Math.round(Number(size[2]))];
    image.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    const numbers = result.table ? await Packed.text(result.tables[result.table]) : "";
    Charts.saveMenu({ element: figure, toSVG: () => source, toCSV: () => numbers }, result.name);
  }

  /** Rows of a CSV text: quotes may hold commas, breaks and doubled quotes. */
  function parsed(source) {
    const rows = [[]];
    for (const match of source.matchAll(/("(?:[^"]|"")*"|[^,\n\r]*)(,|\r?\n|$)/g)) {
      const cell = match[1].startsWith('"') ? match[1].slice(1, -1).replaceAll('""', '"') : match[1];
      if (match[0] === "" && rows[rows.length - 1].length === 0) break;
      rows[rows.length - 1].push(cell);
      if (match[2] !== ",") { if (match.index + match[0].length >= source.length) break; rows.push([]); }
    }
    return rows.filter((row) => row.length > 1 || row[0] !== "");
  }

  /** A table in full view, as a sweep's summary is. */
  async function table(container, name, pack) {
    const rows = parsed(await Packed.text(pack));
    const holder = html("div", "wide", undefined, container);
    const grid = html("table", "plain-table", undefined, holder);
    const head = html("tr", "", undefined, html("thead", "", undefined, grid));
    for (const cell of rows[0] ?? []) html("th", "", cell, head);
    const body = html("tbody", "", undefined, grid);
    for (const row of rows.slice(1, 1 + MOST_ROWS)) {
      const line = html("tr", "", undefined, body);
      for (const cell of row) html("td", Number.isFinite(Number(cell)) && cell !== "" ? "number" : "", cell, line);
    }
    if (rows.length - 1 > MOST_ROWS) html("p", "note", `The first ${MOST_ROWS} of ${rows.length - 1} rows of ${name}.`, container);
  }

  /** Buttons that save the tables of a result. */
  function downloads(container, result) {
    const names = Object.keys(result.tables);
    if (!names.length) return;
    const menu = html("p", "downloads", "Tables: ", container);
    for (const name of names) {
      const button = html("button", "chart-save-button", name, menu);
      button.type = "button";
      button.addEventListener("click", async () => {
        const file = new Blob([await Packed.text(result.tables[name])], { type: "text/csv" });
        ChartSave.download(file, `${result.name}-${name}`);
      });
    }
  }

  /** Everything of one result. @param {Element} section @param {Object} result @param {boolean} withPicture */
  function attach(section, result, withPicture) {
    if (result.svg && withPicture) whenSeen(section, () => picture(section.querySelector(".figure-place"), result));
    const place = section.querySelector(".table-place");
    downloads(place, result);
    if (result.isSweep) whenSeen(section, () => table(place, "summary.csv", result.tables["summary.csv"]));
  }

  return Object.freeze({ attach, picture, whenSeen });
})();

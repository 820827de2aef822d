/* The panels of a result, and its tables: shown when they come into sight, and saved from here.
 *
 * Where there are no panels its own figure is shown. That is only ever an image, never part of the page: whatever an SVG file holds,
 * nothing in it runs.
 */
const Figures = (() => {
  "use strict";
  const { html } = ChartFrame;
  const MOST_ROWS = 50; // of a table in the page: a screen or two; the file that is saved has all of them
  const WIDE = 700; // pixels of a picture that a phone does not shrink to its width: its letters could not be read
  const DIGITS = 4; // of a number in the page; the file has them all

  /** Call `make` once `element` is about to be seen. */
  function whenSeen(element, make) {
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      make();
    }, { rootMargin: "400px" });
    observer.observe(element);
  }

  /** An axis wide enough for the lines across it, as Matplotlib draws them. */
  function reaching(axis, series, marks) {
    if (!marks?.length) return axis;
    const [low, high] = ChartScales.extent([...series.map((one) => one.x), marks.map((mark) => mark.x)], axis.log);
    return { ...axis, min: axis.min ?? low, max: axis.max ?? high };
  }

  /** Mark the moment of the player. */
  function follow(chart) {
    Player.listen((time) => chart.cursor(time));
    chart.cursor(Player.time());
  }

  const PANEL_HEIGHT = 270; // pixels: three side by side on a desk are then about as high as wide

  async function panels(container, result) {
    const rows = JSON.parse(await Packed.text(result.panels));
    const grid = html("div", "panels", undefined, container);
    rows.flat().forEach((panel, index) => {
      const isTimeline = panel.kind === "timeline";
      const spec = { ...panel, ...(!isTimeline && { height: PANEL_HEIGHT }), ...(panel.kind === "line" && { x: reaching(panel.x, panel.series, panel.marks) }) };
      const chart = Charts[panel.kind](html("div", `panel panel-${panel.kind}`, undefined, grid), spec);
      Charts.saveMenu(chart, `${result.name}-${index + 1}`);
      if (isTimeline) follow(chart);
    });
  }

  /** What a result shows of itself. @param {Element} container @param {Object} result */
  const own = (container, result) => (result.panels ? panels(container, result) : picture(container, result));

  async function picture(container, result) {
    const source = await Packed.text(result.svg);
    const figure = html("figure", "own-figure", undefined, container);
    const image = html("img", "", undefined, figure);
    image.alt = `Figure of ${result.name}: ${result.statement}`;
    const size = source.match(/viewBox="0 0 ([\d.]+) ([\d.]+)"/);
    if (size) [image.width, image.height] = [Math.round(Number(size[1])), Math.round(Number(size[2]))];
    figure.classList.toggle("is-wide", size !== null && Number(size[1]) > WIDE);
    image.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    const numbers = result.table ? await Packed.text(result.tables[result.table]) : null;
    Charts.saveMenu({ element: figure, toSVG: () => source, toCSV: numbers === null ? null : () => numbers }, result.name);
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

  const words = (name) => name.replaceAll("_", " ");
  const isMissing = (cell) => ["", "nan"].includes((cell ?? "").toLowerCase());
  const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));

  /** A cell as it is read: numbers with few digits, but whole numbers, such as seeds, as they are. */
  function shown(cell) {
    if (isMissing(cell)) return "";
    return isNumber(cell) && !/^[-+]?\d+$/.test(cell.trim()) ? Charts.format(Number(cell), DIGITS) : cell;
  }

  /** Places of the columns that differ between rows, names of runs last, as they are long; and of those that say one thing in all. */
  function columnsOf(head, rows) {
    const told = [...head.keys()].filter((at) => rows.some((row) => !isMissing(row[at])));
    const isSame = (at) => rows.length > 1 && rows.every((row) => row[at] === rows[0][at]);
    const differing = told.filter((at) => !isSame(at)).sort((a, b) => (head[a] === "run") - (head[b] === "run"));
    return { differing, same: told.filter(isSame) };
  }

  /** How much of a table is in the page, and what is left out of every row. */
  function tableNote(name, head, rows, same) {
    const isCut = rows.length > MOST_ROWS;
    const shownRows = isCut ? `The first ${MOST_ROWS} of ${rows.length} rows` : `All ${rows.length} rows`;
    const alike = same.map((at) => `${words(head[at])} ${shown(rows[0][at])}`).join(", ");
    return `${shownRows}, in ${DIGITS} digits${alike && `; in all of them: ${alike}`}. ${name} has everything.`;
  }

  /** A table in full view, as a sweep's summary is. */
  async function table(container, name, pack) {
    const [head = [], ...rows] = parsed(await Packed.text(pack));
    const { differing, same } = columnsOf(head, rows);
    const look = differing.map((at) => (rows.every((row) => isMissing(row[at]) || isNumber(row[at])) ? "number" : ""));
    const grid = html("table", "plain-table", undefined, html("div", "wide", undefined, container));
    const top = html("tr", "", undefined, html("thead", "", undefined, grid));
    differing.forEach((at, place) => { html("th", look[place], words(head[at]), top).scope = "col"; });
    const body = html("tbody", "", undefined, grid);
    for (const row of rows.slice(0, MOST_ROWS)) {
      const line = html("tr", "", undefined, body);
      differing.forEach((at, place) => { html("td", look[place], shown(row[at] ?? ""), line).title = row[at] ?? ""; });
    }
    html("p", "note", tableNote(name, head, rows, same), container);
  }

  /** Buttons that save the tables of a result. */
  function downloads(container, result) {
    const names = Object.keys(result.tables);
    if (!names.length) return;
    const menu = html("p", "downloads", "Tables, with numbers to nine digits: ", container);
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
    if ((result.panels || result.svg) && withPicture) whenSeen(section, () => own(section.querySelector(".figure-place"), result));
    const place = section.querySelector(".table-place");
    downloads(place, result);
    if (result.isSweep) whenSeen(section, () => table(place, "summary.csv", result.tables["summary.csv"]));
  }

  return Object.freeze({ attach, own, follow, whenSeen });
})();

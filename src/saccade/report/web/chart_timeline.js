/* Rows over time: each in the colours of the states it goes through, pale from where it is still, with a bar where it takes a place.
 *
 * Time is logarithmic and begins with 0. Rows are as high as the number of them allows; if there is no room for a name each, the
 * first of every group has one. Stretches in which nobody looked are striped, and then every look has a tick.
 */
const ChartTimeline = (() => {
  "use strict";
  const { scale, format } = ChartScales;
  const { svg, text, html } = ChartFrame;
  // By the place of a state in `STATES` of measures/timeline.py: two greys, then colours of theme.css.
  const LOOKS = ["chart-even", "chart-uneven", ...[5, 7, 1, 0, 3, 4, 2].map((colour) => `chart-fill-${colour}`)];
  const [TALLEST, ROW] = [420, 18]; // pixels of all rows, and of one where there are few
  const NAME = 11; // pixels below which a row has no room for its name
  const AXIS = 38; // pixels under the rows
  const SPACES = 3; // between words along the axis

  /** @param {Element} container @param {Object} given see charts.js */
  function create(container, given) {
    let spec = given;
    let drawn = null;
    let cursorAt = null;
    let chosen = null;
    const height = (width) => spec.height ?? legendOn(width) + Math.min(TALLEST, ROW * spec.rows.length) + AXIS;
    const frame = ChartFrame.create(container, { ...spec, heightOf: height }, () => draw());
    const readout = html("p", "chart-readout", "", frame.figure);
    const speak = ChartFrame.speaker(frame.figure);
    frame.stage.tabIndex = 0;
    frame.stage.setAttribute("role", "group");
    frame.stage.setAttribute("aria-label", "Rows: move with the arrow keys to read what each does at each step");

    function entries() {
      const known = spec.states.map((name, place) => ({ name, box: true, look: LOOKS[place], place }));
      const seen = new Set(spec.rows.flatMap((row) => row.pieces.map(([, place]) => place)));
      const still = spec.rows.some((row) => row.still !== null) ? [{ name: "pale: frozen", box: true, look: "chart-still-key" }] : [];
      const bar = spec.rows.some((row) => row.takes.length) ? [{ name: "takes its place", box: true, look: "chart-take-key" }] : [];
      const looks = [{ name: "observed", path: "m12 -4v8", look: "chart-axis" }, { name: "striped: not observed", path: "m6 0h12", look: "chart-unseen-key" }];
      return spec.legend === false ? [] : [...known.filter(({ place }) => seen.has(place)), ...still, ...bar, ...(spec.unseen.length ? looks : [])];
    }
    const legendOn = (width) => ChartFrame.legend(svg("g"), entries(), 2, width - 8) + 6;

    function draw() {
      frame.picture.replaceChildren();
      const top = ChartFrame.legend(svg("g", {}, frame.picture), entries(), 2, frame.width - 8) + 6;
      const most = Math.floor((0.3 * frame.width) / ChartFrame.LETTER);
      const names = spec.rows.map(({ name }) => ChartFrame.shortened(name, most));
      const box = { top, left: ChartFrame.roomFor(names), right: frame.width - 8, bottom: frame.height - AXIS };
      const x = scale([spec.x.min, spec.x.max], [box.left, box.right], "zero");
      const row = (box.bottom - box.top) / Math.max(1, spec.rows.length);
      drawn = { x, box, row };
      spec.rows.forEach((one, place) => drawRow(one, box.top + place * row));
      if (spec.unseen.length) drawLooks();
      drawNames(names);
      ChartFrame.xAxis(frame.picture, x, box, spec.x.label, x.ticks(Math.floor((box.right - box.left) / (SPACES * NAME))), format);
      drawn.cursor = svg("g", { "data-screen-only": "" }, frame.picture);
      drawn.pointer = svg("rect", { class: "chart-cell", "data-screen-only": "", visibility: "hidden" }, frame.picture);
      frame.describe(spec, `${spec.rows.length} rows over ${spec.x.label} from ${format(spec.x.min)} to ${format(spec.steps.at(-1))}`);
      drawCursor();
      choose(chosen);
    }

    function drawRow({ pieces, still, takes }, y) {
      const { x, row } = drawn;
      const gap = row > 6 ? 1 : 0; // between rows
      const block = (from, to, look) => svg("rect", {
        x: x(from).toFixed(1), y: (y + gap / 2).toFixed(1), width: Math.max(0, x(to) - x(from)).toFixed(1), height: (row - gap).toFixed(1), class: look, "shape-rendering": "crispEdges",
      }, frame.picture);
      pieces.forEach(([from, place], at) => {
        if (place >= 0) block(from, pieces[at + 1]?.[0] ?? spec.end, LOOKS[place]);
      });
      if (still !== null) block(still, spec.end, "chart-still");
      for (const step of takes) {
        const at = x(step).toFixed(1);
        svg("path", { d: `M${at} ${(y + gap).toFixed(1)}V${(y + row - gap).toFixed(1)}`, class: "chart-take" }, frame.picture);
      }
    }

    /** Where nobody looked for long: stripes there, and a tick above the rows at every look. */
    function drawLooks() {
      const { x, box } = drawn;
      for (const [from, to] of spec.unseen) {
        const [middle, high] = [(box.top + box.bottom) / 2, box.bottom - box.top];
        svg("path", { d: `M${(x(from) + 1).toFixed(1)} ${middle}H${(x(to) - 1).toFixed(1)}`, "stroke-width": high, class: "chart-unseen" }, frame.picture);
      }
      for (const step of spec.steps) svg("path", { d: `M${x(step).toFixed(1)} ${box.top - 1}v-5`, class: "chart-axis chart-look" }, frame.picture);
    }

    function drawNames(names) {
      const { box, row } = drawn;
      let free = -Infinity; // where the last name ends
      spec.rows.forEach((one, place) => {
        const y = box.top + (place + 0.5) * row;
        if (row < NAME && (!one.first || y < free + NAME)) return;
        free = y;
        text(row < NAME ? one.group : names[place], { x: box.left - 5, y: (y + 4).toFixed(1), class: "chart-text chart-end" }, frame.picture);
      });
    }

    function drawCursor() {
      drawn.cursor.replaceChildren();
      if (cursorAt === null || !(cursorAt >= spec.x.min)) return;
      const at = Math.min(drawn.box.right, drawn.x(cursorAt)).toFixed(1);
      svg("path", { d: `M${at} ${drawn.box.top}V${drawn.box.bottom}`, class: "chart-cursor" }, drawn.cursor);
    }

    /** Number of the last step that is not after a time; the first if all are. */
    const lastOf = (steps, time) => Math.max(0, steps.findLastIndex((step) => step <= time));

    function stateAt({ pieces, still }, time) {
      const [from, place] = pieces[lastOf(pieces.map(([step]) => step), time)];
      const since = from > spec.steps[0] ? ` since ${format(from)}` : "";
      return place < 0 ? "not seen" : `${spec.states[place]}${since}${still !== null && still <= time ? `, frozen since ${format(still)}` : ""}`;
    }

    function choose(cell) {
      chosen = cell;
      drawn.pointer.setAttribute("visibility", cell ? "visible" : "hidden");
      if (!cell) return;
      const { x, box, row } = drawn;
      const [from, to] = [spec.steps[cell.step], spec.steps[cell.step + 1] ?? spec.end];
      const place = { x: x(from), y: box.top + cell.row * row, width: Math.max(1, x(to) - x(from)), height: row };
      for (const [key, value] of Object.entries(place)) drawn.pointer.setAttribute(key, value.toFixed(1));
      readout.textContent = `${spec.rows[cell.row].name} at step ${format(from, 6)}: ${stateAt(spec.rows[cell.row], from)}`;
      speak(readout.textContent);
    }

    const clamped = (value, count) => Math.min(count - 1, Math.max(0, value));
    frame.stage.addEventListener("pointermove", (event) => {
      const place = frame.picture.getBoundingClientRect();
      const row = Math.floor((event.clientY - place.top - drawn.box.top) / drawn.row);
      const pixel = event.clientX - place.left;
      const isInside = row >= 0 && row < spec.rows.length && pixel >= drawn.box.left && pixel <= drawn.box.right;
      if (isInside) choose({ row, step: lastOf(spec.steps, drawn.x.invert(pixel)) });
    });
    frame.stage.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move || !spec.rows.length) return;
      event.preventDefault();
      const { row, step } = chosen ?? { row: -move[0], step: spec.steps.length - 1 - move[1] };
      choose({ row: clamped(row + move[0], spec.rows.length), step: clamped(step + move[1], spec.steps.length) });
    });
    frame.redraw();

    const table = () => [["row", ...spec.steps], ...spec.rows.map((row) => [row.name, ...spec.steps.map((step) => stateAt(row, step).replace(/ since.*?(?=,|$)/g, ""))])];
    return {
      element: frame.figure, destroy: frame.remove,
      update(partial) { spec = { ...spec, ...partial }; draw(); },
      cursor(time) { cursorAt = time; drawCursor(); },
      toSVG: () => ChartSave.toSVG(frame.picture, spec.title ?? ""),
      toCSV: () => ChartSave.csv(table()),
    };
  }

  return Object.freeze({ create });
})();

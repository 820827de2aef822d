/* A heat map: a table of values as coloured cells, with a key and the value under the pointer or the keyboard's cell.
 *
 * The cells are one small picture, a pixel each, enlarged without smoothing: a thousand by a thousand costs one drawing call.
 * Missing values are left open, so that the page shows through. Where theory says a map too (`outline`), and cells are few, the rim of
 * each cell, outside a dashed line, has the colour of what theory says: it cannot be told from the cell where the two agree.
 */
const ChartHeat = (() => {
  "use strict";
  const { scale, format, colourTable } = ChartScales;
  const { svg, text, html } = ChartFrame;
  const KEY_WIDTH = 12;
  const NUMBER_WIDTH = 30; // pixels of a cell, below which a number does not fit
  const MOST_OUTLINED = 400; // cells with a rim of their own
  const [RIM, WIDEST_RIM] = [0.17, 11]; // of a cell's lesser side, and in pixels
  const [SWATCH, KEY_ROW] = [22, 18]; // pixels of the sign for rims, and of a row for it where its words do not fit beside the axis' name

  const isKnown = (value) => Number.isFinite(value ?? NaN);

  /** Set what has changed, so that a frame repaints no more than it must. */
  const set = (element, name, value) => { if (element.getAttribute(name) !== value) element.setAttribute(name, value); };

  /** The cells as a picture, one pixel a cell. */
  function cells(spec) {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.max(1, spec.columns), Math.max(1, spec.rows)];
    const context = canvas.getContext("2d");
    const picture = context.createImageData(canvas.width, canvas.height);
    const table = colourTable(spec.scale);
    const slope = 255 / (spec.max - spec.min || 1);
    for (let at = 0; at < spec.rows * spec.columns; at += 1) {
      const value = spec.values[at];
      if (value === null || Number.isNaN(value)) continue;
      const level = Math.round(Math.min(255, Math.max(0, (value - spec.min) * slope)));
      picture.data.set([table[3 * level], table[3 * level + 1], table[3 * level + 2], 255], 4 * at);
    }
    context.putImageData(picture, 0, 0);
    return canvas;
  }

  /** @param {Element} container @param {Object} given see charts.js */
  function create(container, given) {
    let spec = { scale: "sequential", unit: "", ...given };
    let box = null;
    let chosen = null;
    let drawn = null;
    const frame = ChartFrame.create(container, spec, () => drawAll());
    const readout = html("p", "chart-readout", "", frame.figure);
    const speak = ChartFrame.speaker(frame.figure);
    frame.stage.tabIndex = 0;
    frame.stage.setAttribute("aria-label", "Cells: move with the arrow keys to read values");
    frame.stage.setAttribute("role", "group");

    const tickLabel = (axis, at) => String(axis.ticks?.[at] ?? at);

    function layout() {
      const names = Array.from({ length: Math.min(spec.rows, 400) }, (_, at) => tickLabel(spec.y, at).slice(0, 12));
      box = { top: 22, left: ChartFrame.roomFor(names), right: frame.width - (spec.key === false ? 8 : 64) };
      box.hasKeyRow = outlineWords() !== "" && SWATCH + 24 + [outlineWords(), spec.x.label].map(ChartFrame.widthOf).reduce((a, b) => a + b) > box.right;
      box.bottom = frame.height - 38 - (box.hasKeyRow ? KEY_ROW : 0);
      box.cellWidth = (box.right - box.left) / Math.max(1, spec.columns);
      box.cellHeight = (box.bottom - box.top) / Math.max(1, spec.rows);
    }

    function drawAll() {
      layout();
      frame.picture.replaceChildren();
      const image = picture(cells(under()), { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top });
      const insides = isOutlined() ? Array.from({ length: spec.rows * spec.columns }, (_, at) => inside(at)) : [];
      drawAxes();
      if (spec.key !== false) drawKey();
      const numbers = spec.numbers && box.cellWidth >= NUMBER_WIDTH ? Array.from({ length: spec.rows * spec.columns }, (_, at) => number(at)) : [];
      const pointer = svg("rect", { class: "chart-cell", "data-screen-only": "" }, frame.picture);
      drawn = { image, pointer, numbers, insides };
      write();
      choose(chosen);
      const range = `from ${format(spec.min)} to ${format(spec.max)} ${spec.unit}`;
      frame.describe(spec, `${spec.rows} by ${spec.columns} cells, ${spec.y.label} by ${spec.x.label}, ${range}`);
    }

    function picture(canvas, size) {
      const look = { preserveAspectRatio: "none", style: "image-rendering: pixelated" };
      return svg("image", { ...size, ...look, href: canvas.toDataURL() }, frame.picture);
    }
    function number(at) {
      const [row, column] = [Math.floor(at / spec.columns), at % spec.columns];
      const place = { x: box.left + (column + 0.5) * box.cellWidth, y: box.top + (row + 0.5) * box.cellHeight + 5 };
      return text("", { ...place, class: "chart-text chart-middle chart-cell-number" }, frame.picture);
    }

    /** What rims are; nothing where there are none, or it is said elsewhere. */
    const outlineWords = () => (isOutlined() && spec.outlineName !== "" ? `rim: ${spec.outlineName ?? "theory"}` : "");

    const isOutlined = () => spec.outline !== undefined && spec.rows * spec.columns <= MOST_OUTLINED;
    const shareOf = (value) => (value - spec.min) / (spec.max - spec.min || 1);

    /** What the cells as a whole show: theory, where it speaks, as each has the run's own colour inside. */
    const under = () => (isOutlined() ? { ...spec, values: Array.from(spec.values, (value, at) => (isKnown(spec.outline[at]) ? spec.outline[at] : value)) } : spec);

    function inside(at) {
      const rim = Math.min(WIDEST_RIM, RIM * Math.min(box.cellWidth, box.cellHeight));
      const [row, column] = [Math.floor(at / spec.columns), at % spec.columns];
      const size = { width: box.cellWidth - 2 * rim, height: box.cellHeight - 2 * rim };
      return svg("rect", { class: "chart-inside", x: box.left + column * box.cellWidth + rim, y: box.top + row * box.cellHeight + rim, ...size, "stroke-dasharray": "3 2" }, frame.picture);
    }

    /** The run's colour inside each cell of which theory speaks. */
    function fill() {
      const table = spec.scale === "diverging" ? null : colourTable("sequential");
      drawn.insides.forEach((cell, at) => {
        const share = Math.min(1, Math.max(0, shareOf(spec.values[at])));
        const isTold = isKnown(spec.outline[at]) && isKnown(spec.values[at]) && table !== null;
        set(cell, "visibility", isTold ? "visible" : "hidden");
        if (!isTold) return;
        const level = 3 * Math.round(255 * share);
        set(cell, "fill", `rgb(${table[level]},${table[level + 1]},${table[level + 2]})`);
        set(cell, "stroke", share > 0.55 ? "#111418" : "#ffffff");
      });
    }

    /** The value in each cell, dark on a light cell and light on a dark one. */
    function write() {
      drawn.numbers.forEach((place, at) => {
        const said = isKnown(spec.values[at]) ? spec.values[at].toFixed(2).replace(/^0/, "") : "";
        if (place.textContent !== said) place.textContent = said;
        set(place, "style", `fill: ${shareOf(spec.values[at]) > 0.55 ? "#111418" : "#ffffff"}`); // the colour map grows lighter
      });
      fill();
    }

    const words = (content, x, y, look = "") => text(content, { x, y, class: `chart-text ${look}` }, frame.picture);

    function drawAxes() {
      const every = (size, room) => Math.max(1, Math.ceil(room / size));
      const [across, down] = [every(box.cellWidth, ChartFrame.roomAlong(spec.x.ticks ?? []) + 4), every(box.cellHeight, 14)];
      const letters = Math.max(3, Math.floor((across * box.cellWidth) / ChartFrame.LETTER));
      for (let at = 0; at < spec.columns; at += across) {
        const label = ChartFrame.shortened(tickLabel(spec.x, at), letters);
        words(label, box.left + (at + 0.5) * box.cellWidth, box.bottom + 14, "chart-middle");
      }
      for (let at = 0; at < spec.rows; at += down) {
        const label = ChartFrame.shortened(tickLabel(spec.y, at), 12);
        words(label, box.left - 5, box.top + (at + 0.5) * box.cellHeight + 4, "chart-end");
      }
      const named = (label) => ChartFrame.shortened(label, Math.floor((box.right - 20) / ChartFrame.LETTER));
      words(named(spec.y.label), 2, box.top - 9, "chart-name");
      words(named(spec.x.label), box.right, box.bottom + 31, "chart-name chart-end");
      if (outlineWords()) drawOutlineKey(box.bottom + 31 + (box.hasKeyRow ? KEY_ROW : 0));
    }

    /** A small cell with its rim, and what the rim is. */
    function drawOutlineKey(foot) {
      const [light, dark] = [0.75, 0.3].map(ChartScales.sequential);
      svg("rect", { x: 2, y: foot - 11, width: SWATCH, height: 14, style: `fill: ${light}` }, frame.picture);
      svg("rect", { x: 6, y: foot - 7, width: SWATCH - 8, height: 6, "stroke-dasharray": "3 2", style: `fill: ${dark}; stroke: #ffffff` }, frame.picture);
      words(ChartFrame.shortened(outlineWords(), Math.floor((frame.width - SWATCH - 10) / ChartFrame.LETTER)), SWATCH + 8, foot);
    }

    function drawKey() {
      const values = Array.from({ length: 64 }, (_, at) => 63 - at);
      const ramp = { rows: 64, columns: 1, min: 0, max: 63, scale: spec.scale, values };
      const [x, height] = [box.right + 10, box.bottom - box.top];
      picture(cells(ramp), { x, y: box.top, width: KEY_WIDTH, height });
      const y = scale([spec.min, spec.max], [box.bottom, box.top]);
      for (const tick of spec.max > spec.min ? y.ticks(4) : [spec.min]) {
        words(format(tick), x + KEY_WIDTH + 3, y(tick) + 4);
      }
      words(ChartFrame.shortened(spec.unit, 10), frame.width - 2, box.top - 9, "chart-name chart-end");
    }

    function choose(cell) {
      chosen = cell;
      drawn.pointer.setAttribute("visibility", cell ? "visible" : "hidden");
      if (!cell) return;
      const [width, height] = [box.cellWidth, box.cellHeight];
      const place = { x: box.left + cell.column * width, y: box.top + cell.row * height, width, height };
      for (const [key, value] of Object.entries(place)) drawn.pointer.setAttribute(key, value);
      const value = format(spec.values[cell.row * spec.columns + cell.column]);
      const where = [[spec.y, cell.row], [spec.x, cell.column]].map(([axis, index]) => `${axis.label} ${tickLabel(axis, index)}`);
      const told = spec.outline?.[cell.row * spec.columns + cell.column];
      readout.textContent = `${where.join(", ")}: ${value} ${spec.unit}${isKnown(told) ? ` (${spec.outlineName || "theory"} ${format(told)})` : ""}`;
      speak(readout.textContent);
    }

    const clamped = (value, count) => Math.min(count - 1, Math.max(0, value));
    const within = (row, column) => ({ row: clamped(row, spec.rows), column: clamped(column, spec.columns) });
    frame.stage.addEventListener("pointermove", (event) => {
      const place = frame.picture.getBoundingClientRect();
      const row = Math.floor((event.clientY - place.top - box.top) / box.cellHeight);
      const column = Math.floor((event.clientX - place.left - box.left) / box.cellWidth);
      if (row >= 0 && row < spec.rows && column >= 0 && column < spec.columns) choose({ row, column });
    });
    frame.stage.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!move || !(spec.rows * spec.columns)) return;
      event.preventDefault();
      choose(chosen ? within(chosen.row + move[0], chosen.column + move[1]) : within(0, 0));
    });
    frame.redraw();

    function table() {
      const head = [spec.y.label, ...Array.from({ length: spec.columns }, (_, at) => tickLabel(spec.x, at))];
      const line = (row) => [tickLabel(spec.y, row), ...spec.values.slice(row * spec.columns, (row + 1) * spec.columns)];
      return [head, ...Array.from({ length: spec.rows }, (_, row) => line(row))];
    }
    function update(partial) {
      spec = { ...spec, ...partial };
      if (Object.keys(partial).some((key) => key !== "values" && key !== "outline") || Boolean(drawn.insides.length) !== isOutlined()) return drawAll();
      drawn.image.setAttribute("href", cells(under()).toDataURL());
      write();
      return choose(chosen);
    }
    return {
      element: frame.figure, update, cursor() {}, destroy: frame.remove,
      toSVG: () => ChartSave.toSVG(frame.picture, spec.title ?? ""),
      toCSV: () => ChartSave.csv(table()),
    };
  }

  return Object.freeze({ create });
})();

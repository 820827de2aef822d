/* A line chart: several series, each a line or a cloud of points, over one horizontal axis, with levels, marks, bands and a cursor.
 *
 * An update that leaves the axes where they are redraws only the curves; that is what a live page does at every frame. Long
 * series are thinned for drawing, never in the numbers that are saved.
 */
const ChartLine = (() => {
  "use strict";
  const { isShown, extent, scale, format, thinned } = ChartScales;
  const { svg, text, html } = ChartFrame;
  const MARKER_GAP = 90; // pixels between two markers of one series: enough to tell lines apart, few enough to read them

  const MOST_DOTS = 4000; // of one cloud: more would lie on each other

  const EDGE = 5; // pixels beyond the plot that a line at its edge or a marker may use
  const MARK_ROW = 14; // pixels for a row of marks' labels
  const [NEAR, MOST_STEPS] = [4, 200]; // pixels between two points along a line, and how many there are between two of its own
  const WORDS = 40; // pixels of a usual chart above its plot: a legend in one row, and one of names of bands
  const BAND_ROWS = 2; // of the names of bands: more would leave no room to the curves

  /** A little wider at both ends, so that a point there is seen whole. */
  function roomy([low, high], log) {
    const room = 0.04 * (log ? Math.log(high / low) : high - low);
    const wider = log ? [low / Math.exp(room), high * Math.exp(room)] : [low - room, high + room];
    return wider.every(Number.isFinite) ? wider : [low, high];
  }

  function domains(spec) {
    const across = extent(spec.series.map((series) => series.x), spec.x.log);
    const heights = spec.series.flatMap((series) => (series.low ? [series.y, series.low, series.high] : [series.y]));
    const up = extent([...heights, spec.levels.map((level) => level.y)], spec.y.log);
    const one = (axis, tight) => {
      const found = spec.series.some(ChartFrame.isCloud) ? roomy(tight, axis.log) : tight;
      const [low, high] = [axis.min ?? found[0], axis.max ?? found[1]];
      return high > low && (axis.log !== true || low > 0) ? [low, high] : found;
    };
    return { x: one(spec.x, across), y: one(spec.y, up) };
  }

  /** Path of the band around a series: along its upper edge and back along the lower, in as many pieces as it has. */
  function ribbon(series, x, y, spec) {
    if (!series.low) return "";
    const height = (value) => Math.min(spec.lowest, Math.max(spec.highest, y(value))).toFixed(1);
    const low = (at) => (isShown(series.low[at], spec.y.log) ? height(series.low[at]) : spec.lowest.toFixed(1)); // 0 on an axis of powers of ten
    const able = (at) => isShown(series.x[at], spec.x.log) && isShown(series.high[at], spec.y.log) && Number.isFinite(series.low[at] ?? NaN);
    const pieces = [[]];
    for (const at of series.x.keys()) able(at) ? pieces.at(-1).push(at) : pieces.push([]);
    return pieces.filter((piece) => piece.length > 1).map((piece) => {
      const upper = piece.map((at) => `${x(series.x[at]).toFixed(1)} ${height(series.high[at])}`);
      const lower = piece.map((at) => `${x(series.x[at]).toFixed(1)} ${low(at)}`).reverse();
      return `M${[...upper, ...lower].join("L")}Z`;
    }).join("");
  }

  /** Path of a cloud: one outline a point. */
  function cloud(series, x, y, spec) {
    const step = Math.ceil(series.x.length / MOST_DOTS);
    let dots = "";
    for (let at = 0; at < series.x.length; at += step) {
      if (isShown(series.x[at], spec.x.log) && isShown(series.y[at], spec.y.log)) dots += ChartFrame.dot(series, x(series.x[at]), y(series.y[at]));
    }
    return { line: "", markers: dots };
  }

  /** Path of one series and path of its markers. */
  function paths(series, index, x, y, spec) {
    if (ChartFrame.isCloud(series)) return cloud(series, x, y, spec);
    const across = Array.from(series.x, (value) => (isShown(value, spec.x.log) ? x(value) : NaN));
    const kept = thinned(across, series.y);
    let [line, markers, pen, next] = ["", "", "M", across[0] + 20 + ((index * 37) % MARKER_GAP)];
    const { lowest, highest } = spec;
    for (const at of kept) {
      const value = series.y[at];
      if (!Number.isFinite(across[at]) || !isShown(value, spec.y.log)) {
        pen = "M";
        continue;
      }
      const height = Math.min(lowest, Math.max(highest, y(value)));
      line += `${pen}${across[at].toFixed(1)} ${height.toFixed(1)}`;
      if (spec.hasMarkers(series) && across[at] >= next) {
        markers += ChartFrame.marker(index, across[at], height);
        next = across[at] + MARKER_GAP;
      }
      pen = "L";
    }
    return { line, markers };
  }

  /** The series' value at x: of the nearest point, null where that is missing. */
  function valueAt(series, x, log) {
    let best = -1;
    const { bend } = ChartScales.BENT[log ?? false];
    const gap = (value) => Math.abs(bend(value) - bend(x));
    for (let at = 0; at < series.x.length; at += 1) {
      if (isShown(series.x[at], log) && (best < 0 || gap(series.x[at]) < gap(series.x[best]))) best = at;
    }
    return best < 0 || !Number.isFinite(series.y[best]) ? null : { x: series.x[best], y: series.y[best] };
  }

  /** Where the marker of a series stands at x, in pixels: on its line, at the line's end where x is beyond it; of a cloud on the
   * nearest point. @returns {[number, number] | null} null where a value is missing
   */
  function markerAt(series, at, { x, y }, spec) {
    const place = (one) => (one >= 0 && isShown(series.y[one], spec.y.log) ? [x(series.x[one]), y(series.y[one])] : null);
    let [before, after, nearest] = [-1, -1, -1];
    for (let one = 0; one < series.x.length; one += 1) {
      const value = series.x[one];
      if (!isShown(value, spec.x.log)) continue;
      if (value <= at && (before < 0 || value >= series.x[before])) before = one;
      if (value > at && (after < 0 || value < series.x[after])) after = one;
    }
    if (ChartFrame.isCloud(series)) {
      nearest = before < 0 || (after >= 0 && x(series.x[after]) - x(at) < x(at) - x(series.x[before])) ? after : before;
      return place(nearest);
    }
    if (before < 0 || after < 0 || series.x[before] === at) return place(before < 0 ? after : before);
    const [left, right] = [place(before), place(after)];
    if (!left || !right) return null;
    const share = (x(at) - left[0]) / (right[0] - left[0] || 1);
    return [x(at), left[1] + share * (right[1] - left[1])];
  }

  /** @param {Element} container @param {Object} given see charts.js */
  function create(container, given) {
    let spec = { marks: [], bands: [], levels: [], ...given };
    let drawn = null; // what the axes on the page were drawn for
    let cursorAt = null;
    const frame = ChartFrame.create(container, { ...spec, heightOf: spec.height ? undefined : (width) => heightOf(width) }, () => { drawn = null; draw(); });
    const tip = html("div", "chart-tip", undefined, frame.stage);
    tip.hidden = true;
    const entry = (series, index) => ({ ...series, ...ChartFrame.looks(series, index), marker: hasMarkers(series) });
    const entries = () => ChartFrame.named(spec.series.map(entry), spec.title);
    /** Shapes tell named lines apart where colours cannot; by points of a cloud they would be taken for data. */
    const hasMarkers = ({ name, quiet, style }) => (style ?? "line") === "line" && Boolean(name) && !quiet && spec.series.length > 1
      && !spec.series.some(ChartFrame.isCloud);

    const legendOn = (parent, width) => {
      const listed = entries();
      return listed.length ? ChartFrame.legend(parent, listed, 2, width - 8) : 0;
    };

    /** Where words above the plot take many rows, as on a phone, the chart is higher: the curves keep their room. */
    const heightOf = (width) => ChartFrame.usualHeight(width)
      + Math.max(0, legendOn(svg("g"), width) + MARK_ROW * (spec.bands.length ? BAND_ROWS + 1 : 0) - WORDS);

    function drawAxes(domain) {
      const { width, height, picture } = frame;
      picture.replaceChildren();
      const legendHeight = legendOn(svg("g", {}, picture), width);
      const box = { top: legendHeight + 24, right: width - 20, bottom: height - 38, left: 0 };
      const rough = scale(domain.y, [box.bottom, box.top], spec.y.log).ticks(Math.max(2, (box.bottom - box.top) / 34));
      box.left = ChartFrame.roomFor(rough.map((tick) => format(tick)));
      const x = scale(domain.x, [box.left, box.right], spec.x.log);
      const marks = labelledMarks(x, box);
      const bands = labelledBands(x, box);
      const nameTop = box.top;
      const bandTop = box.top + MARK_ROW * Math.max(0, ...marks.map((mark) => mark.row + 1));
      const bandRows = Math.max(0, ...bands.map((band) => (band.row ?? -1) + 1));
      const spare = bands.some((band) => band.row === undefined) ? 1 : 0; // for the name of the band at the cursor
      box.top = bandTop + MARK_ROW * (bandRows + spare);
      const y = scale(domain.y, [box.bottom, box.top], spec.y.log);
      const under = svg("g", {}, picture);
      drawBands(under, bands, bandTop, box);
      ChartFrame.yAxis(under, y, { ...box, nameTop }, spec.y.label, rough, format);
      drawTicks(under, x, box);
      const plot = inside(picture, box);
      const curves = spec.series.map((series, index) => curve(plot, entry(series, index)));
      ChartFrame.levels(svg("g", {}, picture), spec.levels, y, box, spec.levels.length ? taken(x, y, box, marks) : []);
      drawMarks(svg("g", {}, picture), marks, nameTop, box);
      drawn = { key: axesKey(domain), x, y, box, curves, bands, spareRow: bandTop + MARK_ROW * bandRows, cursor: svg("g", {}, picture) };
    }

    function drawTicks(parent, x, box) {
      if (!spec.x.places?.length) return ChartFrame.xAxis(parent, x, box, spec.x.label, x.ticks(Math.max(2, (box.right - box.left) / 70)), format);
      const shown = ChartFrame.fitted(spec.x.places.filter(({ at }) => x(at) >= box.left - 0.5 && x(at) <= box.right + 0.5), x);
      const names = new Map(shown.map(({ at, label }) => [at, label]));
      return ChartFrame.xAxis(parent, x, box, spec.x.label, [...names.keys()], (at) => names.get(at));
    }

    /** A window onto the plot: an inner SVG cuts off what lies outside, and needs no name as a clip path would. */
    function inside(parent, box) {
      const size = { x: box.left, y: box.top - EDGE, width: box.right - box.left + EDGE, height: box.bottom - box.top + 2 * EDGE };
      return svg("svg", { ...size, viewBox: `${size.x} ${size.y} ${size.width} ${size.height}` }, parent);
    }

    function curve(parent, series) {
      const band = svg("path", { class: `chart-fill-${series.index % 8} chart-ribbon` }, parent);
      const line = svg("path", { class: ChartFrame.lineClass(series) }, parent);
      const markers = svg("path", { class: ChartFrame.markerClass(series) }, parent);
      if (series.colour) {
        ChartFrame.coloured(series, line, markers);
        band.style.fill = series.colour;
      }
      ChartFrame.faded(series, line, markers);
      return { band, line, markers };
    }

    /** Bands with their ends in pixels; a name begins with its band, in the first of a few rows that has room for it. */
    function labelledBands(x, box) {
      const ends = Array(BAND_ROWS).fill(-Infinity); // right end of the names in each row
      const within = (value) => Math.min(box.right, Math.max(box.left, x(value)));
      const placed = spec.bands.map((band, index) => ({ label: band.label, from: within(band.from), to: within(band.to), isOdd: index % 2 === 1 }));
      return placed.filter(({ from, to }) => to - from > 0.5).map((band) => {
        const width = ChartFrame.widthOf(band.label);
        const left = Math.min(band.from + 2, box.right - width);
        const row = ends.findIndex((end) => end < left);
        if (row < 0) return band;
        ends[row] = left + width + 6;
        return { ...band, left, row };
      });
    }

    function drawBands(parent, bands, top, box) {
      for (const { label, from, to, isOdd, left, row } of bands) {
        svg("rect", { x: from, y: box.top, width: to - from, height: box.bottom - box.top, class: `chart-band${isOdd ? " chart-band-odd" : ""}` }, parent);
        if (row !== undefined) text(label, { x: left, y: top + MARK_ROW * row + 8, class: "chart-text chart-name" }, parent);
      }
    }

    /** Marks in order, each with the place of its label: right of its line if it fits there, in a row where no label is yet. */
    function labelledMarks(x, box) {
      const ends = []; // right end of the labels in each row
      const within = ({ at }) => at >= box.left - 0.5 && at <= box.right + 0.5;
      const shown = spec.marks.map((mark) => ({ ...mark, at: x(mark.x) })).filter(within).sort((a, b) => a.at - b.at);
      return shown.map((mark) => {
        const label = ChartFrame.shortened(mark.label, Math.floor((box.right - box.left) / ChartFrame.LETTER));
        const width = ChartFrame.widthOf(label);
        const left = Math.max(box.left + 2, mark.at + 4 + width > frame.width ? mark.at - 4 - width : mark.at + 4);
        let row = ends.findIndex((end) => end < left);
        if (row < 0) row = ends.length;
        ends[row] = left + width + 8;
        return { ...mark, label, left, width, row };
      });
    }

    /** Labels stand above the plot, where no curve runs; each line goes up to its own, or to one of another's that is in its way. */
    function drawMarks(parent, marks, top, box) {
      for (const { at, label, left, row } of marks) {
        const below = marks.filter((other) => other.row > row && other.left - 2 < at && at < other.left + other.width + 2).map((other) => other.row + 1);
        svg("path", { d: `M${at.toFixed(1)} ${top + MARK_ROW * Math.max(row, ...below)}V${box.bottom}`, class: "chart-mark" }, parent);
        text(label, { x: left, y: top + MARK_ROW * row + 8, class: "chart-text chart-name" }, parent);
      }
    }

    /** Pixels close together along all that is drawn, which words in the plot keep clear of. */
    function taken(x, y, box, marks) {
      const found = marks.flatMap(({ at }) => Array.from({ length: Math.ceil((box.bottom - box.top) / NEAR) }, (_, step) => [at, box.top + NEAR * step]));
      for (const series of spec.series) {
        const kept = series.x.flatMap((value, at) => (isShown(value, spec.x.log) && isShown(series.y[at], spec.y.log) ? [[x(value), y(series.y[at])]] : []));
        if (ChartFrame.isCloud(series)) found.push(...kept);
        else kept.slice(1).forEach(([right, end], at) => {
          const [left, start] = kept[at];
          const steps = Math.min(MOST_STEPS, Math.ceil(Math.max(Math.abs(right - left), Math.abs(end - start)) / NEAR)) || 1;
          for (let step = 0; step < steps; step += 1) found.push([left + ((right - left) * step) / steps, start + ((end - start) * step) / steps]);
        });
      }
      return found;
    }

    const axesKey = (domain) => JSON.stringify([domain, frame.width, spec.marks, spec.bands, spec.levels, spec.x, spec.y,
      spec.series.map(({ name, style, colour, tone, shade, opacity, quiet }) => [name, style, colour, tone, shade, opacity, quiet])]);

    function draw() {
      const domain = domains(spec);
      if (!drawn || drawn.key !== axesKey(domain)) drawAxes(domain);
      const { x, y, box, curves } = drawn;
      spec.lowest = box.bottom;
      spec.highest = box.top;
      spec.hasMarkers = hasMarkers;
      spec.series.forEach((series, index) => {
        if (curves[index].x === series.x && curves[index].y === series.y && curves[index].low === series.low) return;
        Object.assign(curves[index], { x: series.x, y: series.y, low: series.low });
        const { line, markers } = paths(series, ChartFrame.looks(series, index).index, x, y, spec);
        curves[index].band.setAttribute("d", ribbon(series, x, y, spec));
        curves[index].line.setAttribute("d", line);
        curves[index].markers.setAttribute("d", markers);
      });
      frame.describe(spec, summary(domain));
      drawCursor();
    }

    const summary = (domain) => `${spec.y.label} against ${spec.x.label} from ${format(domain.x[0])} to ${format(domain.x[1])}; `
      + `lines: ${spec.series.filter((series) => series.name && !series.quiet).slice(0, 12).map((series) => series.name).join(", ")}`;

    function drawCursor() {
      const { x, y, box, cursor } = drawn;
      cursor.replaceChildren();
      if (cursorAt === null || !isShown(cursorAt, spec.x.log)) return;
      const at = Math.min(box.right, Math.max(box.left, x(cursorAt)));
      svg("path", { d: `M${at.toFixed(1)} ${box.top}V${box.bottom}`, class: "chart-cursor" }, cursor);
      nameBand(at);
      spec.series.forEach((series, index) => {
        const point = series.quiet ? null : markerAt(series, cursorAt, drawn, spec);
        if (!point || point[0] < box.left - 0.5 || point[0] > box.right + 0.5) return;
        const height = Math.min(box.bottom, Math.max(box.top, point[1]));
        const { index: colour, colour: own } = ChartFrame.looks(series, index);
        const dot = svg("circle", { cx: point[0], cy: height, r: 4, class: `chart-fill-${colour % 8} chart-dot` }, cursor);
        if (own) dot.style.fill = own;
      });
    }

    const bandAt = (pixel) => drawn.bands.findLast(({ from, to }) => from <= pixel && pixel <= to);

    /** The name of the band at the cursor, where it has no room of its own. */
    function nameBand(at) {
      const { box, spareRow, cursor } = drawn;
      const band = bandAt(at);
      if (!band || band.row !== undefined) return;
      const left = Math.max(box.left, Math.min(at + 3, box.right - ChartFrame.widthOf(band.label)));
      text(band.label, { x: left, y: spareRow + 8, class: "chart-text chart-name" }, cursor);
    }

    function showTip(event) {
      const place = frame.picture.getBoundingClientRect();
      const pixel = event.clientX - place.left;
      const { x, box } = drawn;
      tip.hidden = pixel < box.left || pixel > box.right;
      if (tip.hidden) return;
      const at = x.invert(pixel);
      const some = spec.series.filter((series) => series.name);
      const rows = (some.length ? some : spec.series).slice(0, 12).map((series) => {
        const point = valueAt(series, at, spec.x.log);
        return `${ChartFrame.shortened(series.name || spec.y.label, 32)}: ${point ? format(point.y) : "missing"}`;
      });
      const band = bandAt(pixel);
      tip.textContent = [`${spec.x.label}: ${format(at)}${band ? ` (${band.label})` : ""}`, ...rows].join("\n");
      tip.style.top = `${box.top}px`;
      tip.style.left = pixel > place.width / 2 ? "auto" : `${pixel + 12}px`;
      tip.style.right = pixel > place.width / 2 ? `${place.width - pixel + 12}px` : "auto";
    }
    frame.picture.addEventListener("pointermove", showTip);
    frame.picture.addEventListener("pointerleave", () => { tip.hidden = true; });
    frame.redraw();

    const head = () => ["series", spec.x.label, spec.y.label, ...(spec.series.some((series) => series.low) ? ["low", "high"] : [])];
    const row = (series, at) => [series.name, series.x[at], series.y[at], ...(series.low ? [series.low[at], series.high[at]] : [])];
    const rows = () => spec.series.flatMap((series) => Array.from(series.x, (_, at) => row(series, at)));
    return {
      element: frame.figure,
      update(partial) { spec = { ...spec, ...partial }; draw(); },
      cursor(x) { cursorAt = x; drawCursor(); },
      toSVG: () => ChartSave.toSVG(frame.picture, spec.title ?? ""),
      toCSV: () => ChartSave.csv([head(), ...rows()]),
      destroy: frame.remove,
    };
  }

  return Object.freeze({ create });
})();

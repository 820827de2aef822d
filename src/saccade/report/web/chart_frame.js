/* The frame of a chart: a figure with title and caption, an SVG that follows its width, axes and legend.
 *
 * Sizes are real pixels at any width, so that a label is as large on a phone as on a desk. Text from data only ever becomes a text
 * node. Colours are classes of theme.css; chart_save.js writes them into a saved file.
 */
const ChartFrame = (() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const [SHORTEST, LONGEST] = [26, 64]; // pixels along an axis in which a name can be read, and to which it is not cut
  const LETTER = 6.3; // mean width of a letter at the charts' 11 px, for how many letters fit somewhere
  const FONT = '11px system-ui, -apple-system, "Segoe UI", sans-serif'; // as theme.css sets it
  const [LONG_TICK, EDGE] = [20, 6]; // pixels: half a name that might reach beyond the picture, and how far beyond the plot it may
  const PAUSE = 800; // milliseconds without a change before a screen reader is told: a slider that is dragged would flood it
  const LEAST_ZOOMED = 260; // pixels of a chart that fills the window
  let ruler = null; // a canvas that is never shown

  /** An SVG element. @param {string} name @param {Object} [attributes] @param {Element} [parent] */
  function svg(name, attributes = {}, parent = null) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  }

  /** An SVG text node. */
  function text(content, attributes, parent) {
    const element = svg("text", attributes, parent);
    element.textContent = content;
    return element;
  }

  /** An HTML element with a class and text. */
  function html(name, className, content, parent) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (content !== undefined) element.textContent = content;
    if (parent) parent.append(element);
    return element;
  }

  /** A line for screen readers. @returns {(content: string) => void} has the last of what it is given read out, once that rests */
  function speaker(parent) {
    const line = html("p", "visually-hidden", "", parent);
    line.setAttribute("role", "status");
    let waiting = 0;
    return (content) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { line.textContent = content; }, PAUSE);
    };
  }

  function shortened(content, most) {
    const whole = String(content);
    return whole.length > most ? `${whole.slice(0, Math.max(1, most - 1))}…` : whole;
  }

  /** Width of a text in a chart, in pixels: words of wide letters must not touch what comes after them. */
  function widthOf(content) {
    ruler ??= document.createElement("canvas").getContext("2d");
    ruler.font = FONT;
    return ruler.measureText(content).width;
  }

  const usualHeight = (width) => Math.round(Math.min(300, Math.max(200, width * 0.5)));

  /**
   * A figure in `container` that calls `draw(width, height)` now and at every change of width.
   * @param {Element} container
   * @param {{title?: string, caption?: string, height?: number, heightOf?: (width: number) => number}} spec
   * @param {(width: number, height: number) => void} draw
   */
  function create(container, spec, draw) {
    const figure = html("figure", "chart");
    const title = html("figcaption", "chart-title", spec.title ?? "", figure);
    const stage = html("div", "chart-stage", undefined, figure);
    const picture = svg("svg", { class: "chart-svg", role: "img", "aria-label": spec.title ?? "chart" }, stage);
    const caption = html("p", "chart-caption", spec.caption ?? "", figure);
    container.append(figure);
    const frame = { figure, stage, picture, width: 0, height: 0, redraw, describe, remove };

    function redraw() {
      frame.width = Math.max(120, Math.floor(stage.clientWidth || container.clientWidth || 600));
      const zoomed = figure.closest(".zoom") ? Math.max(LEAST_ZOOMED, innerHeight - 140) : undefined; // room for title, caption and buttons
      frame.height = zoomed ?? spec.heightOf?.(frame.width) ?? spec.height ?? usualHeight(frame.width);
      const size = { width: frame.width, height: frame.height, viewBox: `0 0 ${frame.width} ${frame.height}` };
      for (const [key, value] of Object.entries(size)) picture.setAttribute(key, value);
      draw(frame.width, frame.height);
    }
    function describe(next, summary) {
      title.textContent = next.title ?? "";
      caption.textContent = next.caption ?? "";
      title.hidden = !next.title;
      caption.hidden = !next.caption;
      picture.setAttribute("aria-label", [next.title, summary].filter(Boolean).join(": "));
    }
    const observer = new ResizeObserver(() => {
      if (stage.clientWidth && Math.floor(stage.clientWidth) !== frame.width) redraw();
    });
    function remove() {
      observer.disconnect();
      figure.remove();
    }
    observer.observe(stage);
    return frame;
  }

  const INK = 7; // number of the colour that is black on a light page and white on a dark one

  /** Colour number, how full it is and, of a shade from 0 (light) to 1 (dark), the colour itself. @param {Object} item a series or group @param {number} place */
  function looks({ tone, shade, colour, opacity }, place) {
    if (shade === undefined) return { index: tone === null ? INK : tone ?? place, colour, opacity };
    const darkest = matchMedia("(prefers-color-scheme: dark)").matches ? 0.3 : 0.06; // that stands out from the page
    return { index: place, colour: ChartScales.sequential(0.92 - (0.92 - darkest) * shade) };
  }

  /** Names that the title does not say already. @param {Object[]} items series or groups */
  const named = (items, title) => (items.length === 1 && items[0].name === title ? [] : items.filter((item) => item.name && !item.quiet));

  /** Legend rows at the top, within `width`; gives the height used. Entry: {name, index, colour?, style?, marker?, box?, ghost?, look?, path?, isLevel?} */
  function legend(parent, entries, left, width) {
    let x = left;
    let y = 10;
    for (const entry of entries) {
      const name = shortened(entry.name, Math.max(6, Math.floor((width - 30) / LETTER)));
      const needed = 24 + widthOf(name) + 14;
      if (x > left && x + needed > left + width) [x, y] = [left, y + 16];
      key(parent, entry, x, y);
      text(name, { x: x + 24, y: y + 4, class: "chart-text" }, parent);
      x += needed;
    }
    return entries.length ? y + 8 : 0;
  }

  function key(parent, entry, x, y) {
    if (entry.path) {
      svg("path", { d: `M${x} ${y}${entry.path}`, class: entry.look }, parent);
      return;
    }
    if (entry.isLevel) {
      svg("path", { d: `M${x} ${y}H${x + 20}`, class: "chart-mark" }, parent);
      return;
    }
    if (entry.box) {
      const look = entry.look ?? (entry.ghost ? "chart-ghost" : `chart-fill-${entry.index % 8}`);
      const box = svg("rect", { x: x + 6, y: y - 5, width: 12, height: 10, class: look }, parent);
      if (entry.colour && !entry.ghost) box.style.fill = entry.colour;
      return;
    }
    const line = svg("path", { d: isCloud(entry) ? "" : `M${x} ${y}H${x + 20}`, class: lineClass(entry) }, parent);
    const outline = isCloud(entry) ? dot(entry, x + 10, y) : entry.marker ? marker(entry.index, x + 10, y) : "";
    const shape = svg("path", { d: outline, class: markerClass(entry) }, parent);
    if (entry.colour) coloured(entry, line, shape);
  }

  /** Points and rings have no line. */
  const isCloud = ({ style }) => style === "points" || style === "rings";

  function lineClass({ index, style }) {
    return `chart-line chart-stroke-${index % 8}${{ dashes: " chart-dash", dots: " chart-dots", pale: " chart-pale" }[style] ?? ""}`;
  }

  /** A colour that is not full. */
  const faded = ({ opacity }, ...shapes) => { if (opacity !== undefined) for (const shape of shapes) shape.setAttribute("opacity", opacity); };

  const markerClass = ({ index, style }) => (style === "rings" ? `chart-ring chart-stroke-${index % 8}` : `chart-fill-${index % 8}`);

  function coloured({ style, colour }, line, markers) {
    line.style.stroke = colour;
    markers.style[style === "rings" ? "stroke" : "fill"] = colour;
  }

  /** Outline of one point of a cloud. */
  function dot({ style }, x, y) {
    const r = style === "rings" ? 3.6 : 2.6;
    return `M${x.toFixed(1)} ${y.toFixed(1)}m${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  }

  /** Horizontal lines at given values, each with its label over or under it, where it covers least of what is drawn (`taken`, in pixels). */
  function levels(parent, given, y, box, taken = []) {
    for (const { y: value, label } of given) {
      const at = y(value);
      if (!(at >= box.top - 0.5 && at <= box.bottom + 0.5)) continue;
      svg("path", { d: `M${box.left} ${at.toFixed(1)}H${box.right}`, class: "chart-mark" }, parent);
      const words = shortened(label, Math.floor((box.right - box.left) / LETTER));
      const width = widthOf(words);
      const heights = [at - 4, at + 12].filter((foot) => foot - 9 >= box.top && foot + 2 <= box.bottom);
      const ends = [box.right - 2, box.left + 4 + width, (box.left + box.right + width) / 2];
      const covered = ([x, foot]) => taken.filter(([left, top]) => left > x - width - 2 && left < x + 2 && top > foot - 11 && top < foot + 3).length;
      const places = ends.flatMap((x) => (heights.length ? heights : [at + 12]).map((foot) => [x, foot]));
      const [x, foot] = places.reduce((best, place) => (covered(place) < covered(best) ? place : best));
      text(words, { x, y: foot, class: "chart-text chart-name chart-end chart-halo" }, parent);
    }
  }

  /** Outline of marker number `index`: shapes tell lines apart where colours cannot. */
  function marker(index, x, y) {
    const [a, b] = [x.toFixed(1), y.toFixed(1)];
    return [
      `M${a} ${b}m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0`, `M${a} ${b}m-3.2 -3.2h6.4v6.4h-6.4z`,
      `M${a} ${b}m0 -4.2l4 7h-8z`, `M${a} ${b}m0 -4.4l4.4 4.4l-4.4 4.4l-4.4 -4.4z`, `M${a} ${b}m0 4.2l4 -7h-8z`,
      `M${a} ${b}m-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z`,
      `M${a} ${b}m-4.4 -1.6h8.8v3.2h-8.8z`, `M${a} ${b}m-1.6 -4.4h3.2v8.8h-3.2z`,
    ][index % 8];
  }

  /** Room left of the plot for the labels of a vertical axis. */
  const roomFor = (labels) => 12 + LETTER * Math.max(2, ...labels.map((label) => label.length));

  /** Horizontal grid lines, tick labels and the axis' name above them. */
  function yAxis(parent, y, box, label, ticks, format) {
    for (const tick of ticks) {
      svg("path", { d: `M${box.left} ${y(tick).toFixed(1)}H${box.right}`, class: "chart-grid" }, parent);
      text(format(tick), { x: box.left - 6, y: y(tick) + 4, class: "chart-text chart-end" }, parent);
    }
    text(shortened(label, Math.floor(box.right / LETTER)), { x: 2, y: (box.nameTop ?? box.top) - 9, class: "chart-text chart-name" }, parent);
  }

  /** Names of places along an axis, as many and as long as fit. @returns {{at: number, label: string}[]} */
  function fitted(places, x) {
    const sorted = [...places].sort((a, b) => a.at - b.at);
    const gap = Math.min(...sorted.slice(1).map((place, index) => x(place.at) - x(sorted[index].at)), 160);
    const step = Math.ceil(26 / Math.max(1, gap)); // below 26 pixels no name could be read
    const letters = Math.max(2, Math.floor((gap * step - 4) / LETTER));
    return sorted.filter((_, index) => index % step === 0).map(({ at, label }) => ({ at, label: shortened(label, letters) }));
  }

  /** Pixels along an axis that each name needs: fewer names can be read, many that are cut cannot. */
  const roomAlong = (names) => Math.min(LONGEST, Math.max(SHORTEST, ...names.map(widthOf)));

  /** Ticks and labels under the plot, each in its row, the axis' name at their right end. */
  function xAxis(parent, x, box, label, ticks, format, row = () => 0) {
    svg("path", { d: `M${box.left} ${box.bottom}H${box.right}`, class: "chart-axis" }, parent);
    for (const tick of ticks) {
      const at = x(tick).toFixed(1);
      svg("path", { d: `M${at} ${box.bottom}v4`, class: "chart-axis" }, parent);
      const half = widthOf(format(tick)) / 2;
      const middle = half > LONG_TICK ? Math.min(at, box.right + EDGE - half).toFixed(1) : at; // a long name at the end is not cut
      text(format(tick), { x: middle, y: box.bottom + 16 + 14 * row(tick), class: "chart-text chart-middle" }, parent);
    }
    const name = shortened(label, Math.floor(box.right / LETTER));
    text(name, { x: box.right, y: box.bottom + 32, class: "chart-text chart-name chart-end" }, parent);
  }

  return Object.freeze({
    LETTER, svg, text, html, speaker, shortened, widthOf, usualHeight, create, looks, named, legend, lineClass, markerClass, coloured, faded, isCloud, dot, marker,
    roomFor, roomAlong, fitted, levels, xAxis, yAxis,
  });
})();

/* All heads of a watched model as small multiples: a cell each, with its curve over time, coloured by the value at this step.
 *
 * A statistic is chosen above; a head is chosen by pointer or arrow keys and is then the one whose attention the text shows.
 */
const Heads = (() => {
  "use strict";
  const { svg, text, html } = ChartFrame;
  const GAP = 2;
  const WIDEST = 150; // pixels of a cell

  /** Curve of a head in a box; gaps where it is missing. */
  function curve(series, box, low, high) {
    let [line, pen] = ["", "M"];
    series.forEach((value, at) => {
      if (!Number.isFinite(value)) { pen = "M"; return; }
      const x = box.x + 2 + ((box.width - 4) * at) / Math.max(1, series.length - 1);
      const y = box.y + box.height - 2 - (box.height - 4) * Math.min(1, Math.max(0, (value - low) / (high - low || 1)));
      line += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
      pen = "L";
    });
    return line;
  }

  // Made once: a colour for each of 256 levels.
  const COLOURS = Array.from({ length: 256 }, (_, level) => Charts.sequential(level / 255));
  const colourOf = (share) => COLOURS[Math.round(255 * Math.min(1, Math.max(0, share)))];

  /** Set what has changed, so that a frame repaints no more than it must. */
  const set = (element, name, value) => { if (element.getAttribute(name) !== value) element.setAttribute(name, value); };

  /** Black or white, whichever is read on a colour of the map. */
  const inkOn = (fraction) => (fraction > 0.55 ? "#000000" : "#ffffff");

  /** @param {Element} container @param {Object} loaded a figure of kind heads, see stills.js @param {(layer: number, head: number) => void} choose */
  function create(container, loaded, choose) {
    const { figure, values } = loaded;
    const [layers, heads] = figure.names;
    const [, nTimes, nLayers, nHeads] = loaded.shape;
    const state = { statistic: 0, moment: nTimes - 1, layer: 0, head: 0 };
    const controls = html("label", "inline", "Statistic ");
    const select = html("select", "", undefined, controls);
    figure.statistics.forEach((statistic, index) => select.append(new Option(statistic.title, String(index))));
    const frame = ChartFrame.create(container, { title: figure.title, caption: "", height: 30 + nLayers * 34 }, draw);
    frame.figure.insertBefore(controls, frame.stage);
    const readout = html("p", "chart-readout", "", frame.figure);
    const speak = ChartFrame.speaker(frame.figure);
    const cells = [];

    const value = (moment, layer, head) => values[((state.statistic * nTimes + moment) * nLayers + layer) * nHeads + head];
    const told = () => figure.statistics[state.statistic];
    const fraction = (number) => (number - told().min) / (told().max - told().min || 1);

    function draw(width) {
      const { picture } = frame;
      picture.replaceChildren();
      cells.length = 0;
      const left = Math.min(width < 560 ? 62 : 150, 14 + Math.max(...layers.map((name) => name.length)) * ChartFrame.LETTER);
      const cellWidth = Math.min(WIDEST, (width - left) / nHeads);
      const cellHeight = Math.max(16, Math.min(34, cellWidth));
      picture.setAttribute("height", 20 + nLayers * cellHeight);
      picture.setAttribute("viewBox", `0 0 ${width} ${20 + nLayers * cellHeight}`);
      for (let head = 0; head < nHeads; head += Math.ceil(18 / cellWidth)) {
        text(heads[head], { x: left + (head + 0.5) * cellWidth, y: 12, class: "chart-middle" }, picture);
      }
      for (let layer = 0; layer < nLayers; layer += 1) {
        const y = 18 + layer * cellHeight;
        const name = layers[layer];
        const most = Math.floor((left - 6) / ChartFrame.LETTER);
        text(name.length > most ? `…${name.slice(-(most - 1))}` : name, { x: left - 6, y: y + cellHeight / 2 + 4, class: "chart-end" }, picture);
        for (let head = 0; head < nHeads; head += 1) {
          cells.push(cell(picture, { x: left + head * cellWidth, y, width: cellWidth - GAP, height: cellHeight - GAP }, layer, head));
        }
      }
      frame.outline = svg("rect", { class: "chart-cell", "data-screen-only": "" }, picture);
      show();
    }

    function cell(picture, box, layer, head) {
      const rect = svg("rect", { ...box, rx: 2 }, picture);
      const series = Array.from({ length: nTimes }, (_, moment) => value(moment, layer, head));
      const path = svg("path", { d: curve(series, box, told().min, told().max), fill: "none", "stroke-width": 1.2 }, picture);
      const pick = () => { [state.layer, state.head] = [layer, head]; show(); choose(layer, head); };
      rect.addEventListener("click", pick);
      path.addEventListener("click", pick);
      return { rect, path, layer, head, box };
    }

    function show() {
      for (const { rect, path, layer, head } of cells) {
        const number = value(state.moment, layer, head);
        const share = fraction(number);
        set(rect, "fill", Number.isFinite(number) ? colourOf(share) : "transparent");
        set(path, "stroke", Number.isFinite(number) ? inkOn(share) : "currentColor");
      }
      const { box } = cells[state.layer * nHeads + state.head];
      for (const key of ["x", "y", "width", "height"]) frame.outline.setAttribute(key, box[key]);
      const number = Charts.format(value(state.moment, state.layer, state.head));
      const colours = `Colours from ${Charts.format(told().min)} (dark) to ${Charts.format(told().max)} (light).`;
      const chosen = `${layers[state.layer]}, head ${heads[state.head]}: ${told().title} ${number}.`;
      readout.textContent = `${chosen} ${colours} ${told().caption}`;
      speak(chosen);
    }

    function moved(event) {
      const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
      if (!down && !across) return;
      event.preventDefault();
      state.layer = Math.min(nLayers - 1, Math.max(0, state.layer + down));
      state.head = Math.min(nHeads - 1, Math.max(0, state.head + across));
      show();
      choose(state.layer, state.head);
    }

    select.addEventListener("change", () => { state.statistic = Number(select.value); draw(frame.width); });
    frame.picture.setAttribute("tabindex", "0");
    frame.picture.setAttribute("aria-label", `${nLayers} layers of ${nHeads} heads; arrow keys choose one`);
    frame.picture.addEventListener("keydown", moved);
    frame.redraw();

    function rows() {
      const times = Stills.timesOf(loaded, [0]);
      const names = cells.map(({ layer, head }) => `${layers[layer]} head ${heads[head]}`);
      const line = (time, moment) => [time, ...Stills.rounded(cells.map(({ layer, head }) => value(moment, layer, head)))];
      return [["time", ...names], ...Array.from(times, line)];
    }
    return {
      element: frame.figure,
      at(moment) { state.moment = moment; show(); },
      toSVG: () => ChartSave.toSVG(frame.picture, `${figure.title}: ${told().title}`),
      toCSV: () => ChartSave.csv(rows()),
    };
  }

  return Object.freeze({ create });
})();

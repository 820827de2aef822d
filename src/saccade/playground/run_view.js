/* What a run looks like: bars of attention for each class, or a map of query by token with embeddings as arrows beside it; the
 * chosen row in linear time; and lines over the logarithm of time, theory and a record laid over them.
 *
 * Axes are fixed for the whole run and theory is drawn over all of it, so its onset stands there before the run reaches it.
 * Solid is the run, dashed is theory, dotted is the record. Another run of the same shape is shown in the same charts.
 */
const RunView = (() => {
  "use strict";
  const { html } = ChartFrame;
  const MOST_ROWS = 8; // bar charts that fit a page
  const MOST_LINES = 8; // colours and markers that can be told apart
  const MOST_ARROWS = 8;
  const TIME = "time, in steps of gradient descent";
  const PROBABILITY = { label: "attention", min: 0, max: 1 };
  const INK = null; // the tone of a line that stands for no token

  const ROWS = { "scan-and-snap": "Class", "focus-and-dilution": "Query" };

  /** The name of a class in a record, which is that of its next token; nothing if tokens have only numbers. */
  function recordedClass(n, record) {
    const name = record?.names?.[record.settings.nextToken?.[n]];
    return name === undefined || /^\d+$/.test(name) ? undefined : name;
  }

  /** What a row is called: a class by its answer, a query by its token. @param {Object} shown {run, record, names, answers} */
  function rowName({ run, record, names, answers }, n) {
    if (run.model === "focus-and-dilution") return names[n];
    return recordedClass(n, record) ?? (record ? String.fromCharCode(65 + n) : answers[n]);
  }

  /** Tokens that a row of attention can show: in Scan and Snap those the class has. */
  function tokensOf(run, row) {
    const chances = run.model === "scan-and-snap" ? run.task.tokenProb[row] : run.task.stationary;
    return chances.flatMap((chance, token) => (chance > 0 ? [token] : []));
  }

  const rowCount = (run) => Math.min(run.seen[0].attention.length, MOST_ROWS);
  const frequentToken = ({ task }) => task.stationary.indexOf(Math.max(...task.stationary));

  /** Index of the last record sample at or before a time. */
  const recordIndex = (record, time) => Math.max(0, record.time.findLastIndex((one) => one <= time * (1 + 1e-9)));
  const recordAt = (record, time) => record.samples[recordIndex(record, time)];

  /** A line for one number of each sample: the run's (filled while it runs), theory's, the record's. */
  function bundle(name, tone, pick, { run, record }, predicted) {
    const lines = [{ kind: "run", name, tone, pick, x: [], y: [] }];
    const over = (kind, style, x, y) => lines.push({ kind, name: `${name}, ${kind}`, tone, quiet: true, style, x, y });
    if (predicted) over("theory", "dashes", run.times.slice(1), predicted);
    if (record) over("record", "dots", record.time, record.samples.map(pick));
    return lines;
  }

  /** The tokens of a row to draw over time: those that hold most attention at the start, or at the end of theory or record. */
  function leading({ run, record, theory }, row) {
    const most = (token) => Math.max(run.seen[0].attention[row][token], record?.samples.at(-1).attention[row][token] ?? 0,
      theory.attention?.(row, token).findLast((share) => share !== null) ?? 0);
    const size = new Map(tokensOf(run, row).map((token) => [token, most(token)]));
    return [...size.keys()].sort((a, b) => size.get(b) - size.get(a)).slice(0, MOST_LINES).sort((a, b) => a - b);
  }

  const tokenName = (name) => (/^\d+$/.test(name) ? `token ${name}` : name);

  /** Attention of the chosen row on each of its tokens. */
  function rowChart(shown) {
    const { run, theory, names, row } = shown;
    const tones = Tones.ofRun(run, row);
    const line = (token) => bundle(tokenName(names[token]), tones[token], (seen) => seen.attention[row][token], shown, theory.attention?.(row, token));
    const title = `Attention of ${ROWS[run.model].toLowerCase()} ${rowName(shown, row)} over time`;
    return { id: "row", title, y: PROBABILITY, lines: leading(shown, row).flatMap(line) };
  }

  function commonChart(shown) {
    const { run, theory } = shown;
    const mass = (n) => (seen) => seen.attention[n].reduce((sum, share, token) => sum + (run.task.common[token] ? share : 0), 0);
    const line = (_, n) => bundle(`class ${rowName(shown, n)}`, Tones.tone(n), mass(n), shown, theory.common?.(n));
    return { id: "common", title: "Attention on the common tokens", y: PROBABILITY, lines: shown.rows.flatMap(line) };
  }

  function frequentChart(shown) {
    const { run, theory, names } = shown;
    const [frequent, tones] = [frequentToken(run), Tones.ofRun(run, 0)];
    const line = (_, n) => bundle(`query ${names[n]}`, tones[n], (seen) => seen.attention[n][frequent], shown, theory.attention?.(n, frequent));
    const title = `Attention on ${tokenName(names[frequent])}, the most frequent`;
    return { id: "frequent", title, y: PROBABILITY, lines: shown.rows.flatMap(line) };
  }

  function valuesChart(shown) {
    const { run, theory } = shown;
    const name = (n) => (n ? `${n + 1}${["nd", "rd"][n - 1] ?? "th"}` : "largest");
    const line = (_, n) => bundle(name(n), Tones.tone(n), (seen) => seen.singularValues?.[n] ?? null, shown, theory.singularValue?.(n));
    const lines = run.seen[0].singularValues.slice(0, MOST_LINES).flatMap(line);
    return { id: "values", title: "Singular values of the embedding", y: { label: "singular value", log: true }, lines };
  }

  function lossChart(shown) {
    return { id: "loss", title: "Loss", y: { label: "loss, in nats", min: 0 }, lines: bundle("run", INK, (seen) => seen.loss, shown, shown.theory.loss) };
  }

  /** The line charts of a model, in their order on the page. */
  const LINES = { "scan-and-snap": [rowChart, commonChart, lossChart], "focus-and-dilution": [valuesChart, frequentChart, rowChart, lossChart] };

  /** Limits of an axis that is not a probability: the loss starts highest, singular values end at a few. */
  function range(run, spec) {
    if (spec.id === "loss") return { max: run.seen[0].loss * 1.05 };
    if (spec.id !== "values") return {};
    const smallest = run.seen[0].singularValues.at(-1);
    return { min: Math.max(1e-7, 10 ** Math.floor(Math.log10(smallest || 1e-7))), max: 10 };
  }

  function lineChart(container, shown, specOf) {
    let spec = specOf(shown);
    const across = () => ({ label: TIME, log: true, min: shown.run.times[1], max: shown.run.times.at(-1) });
    const made = () => ({
      title: spec.title, x: across(), y: { ...spec.y, ...range(shown.run, spec) }, series: spec.lines, marks: TheoryView.marks(shown.run),
    });
    const chart = Charts.line(container, { height: 260, ...made() });
    Charts.saveMenu(chart, `${shown.run.model}-${spec.id}`);
    return {
      chart,
      load(next) {
        shown = next;
        spec = specOf(shown);
        chart.update(made());
      },
      grow: () => chart.update({ marks: TheoryView.marks(shown.run) }),
      draw(moment) {
        const before = shown.run.seen.slice(1, Math.floor(moment.place) + 1);
        const points = moment.place > before.length ? [...before, moment] : before;
        for (const line of spec.lines.filter(({ kind }) => kind === "run")) {
          line.x = points.map((one) => one.time);
          line.y = points.map(line.pick);
        }
        chart.update({ series: spec.lines });
        chart.cursor(moment.place > 0 ? moment.time : null);
      },
    };
  }

  const MARGIN = 0.03; // of the linear axis before time 0, so that the jolt at the start is seen

  /** The chosen row once more, over time itself: a jolt, then a line that hardly moves. Pale is what is still to come. */
  function linearChart(container, shown, height) {
    const title = () => `${ROWS[shown.run.model].toLowerCase()} “${rowName(shown, shown.row)}” in linear time`;
    const tokens = () => leading(shown, shown.row);
    const line = (token, points, style) => ({
      name: shown.names[token], quiet: true, style, tone: Tones.ofRun(shown.run, shown.row)[token],
      x: points.map((one) => one.time), y: points.map((one) => one.attention[shown.row][token]),
    });
    let ahead = null; // {run, row, seen, chosen, pale}: drawn once for what is known of the run
    function known() {
      const { run, row } = shown;
      if (ahead?.run !== run || ahead.row !== row || ahead.seen !== run.seen.length) {
        const chosen = tokens();
        ahead = { run, row, seen: run.seen.length, chosen, pale: chosen.map((token) => line(token, run.seen, "pale")) };
      }
      return ahead;
    }
    function passed({ chosen, pale }, moment) {
      const count = Math.floor(moment.place) + 1;
      return pale.map((whole, at) => ({
        ...whole, style: "line", x: [...whole.x.slice(0, count), moment.time], y: [...whole.y.slice(0, count), moment.attention[shown.row][chosen[at]]],
      }));
    }
    const made = (moment) => ({
      title: title(), x: { label: "", min: -MARGIN * shown.run.times.at(-1), max: shown.run.times.at(-1) }, y: { label: "attention", min: 0, max: 1 },
      series: [...known().pale, ...passed(known(), moment)],
    });
    const chart = Charts.line(container, { height, ...made({ ...shown.run.seen[0], place: 0 }) });
    return {
      chart,
      load(next) { shown = next; },
      draw(moment) {
        chart.update(made(moment));
        chart.cursor(moment.time);
      },
    };
  }

  /** Bars of one class by role, or run and record side by side. */
  function barGroups({ run, record }, n, tokens, moment) {
    const live = tokens.map((token) => moment.attention[n][token]);
    const told = predicted(run, n, tokens, moment);
    if (record) {
      const kept = tokens.map((token) => recordAt(record, moment.time).attention[n][token]);
      return [{ name: "run", tone: 0, values: live, ...(told && { ghost: told }) }, { name: "record", tone: Tones.COMMON, values: kept }];
    }
    const tones = Tones.ofRun(run, n);
    return [{ name: "attention", tones: tokens.map((token) => ({ tone: tones[token] })), values: live, ...(told && { ghost: told }) }];
  }

  /** Theory's bars at a moment between two samples; nothing where it is silent. */
  function predicted(run, n, tokens, { place }) {
    const rows = TheoryView.attention(run);
    const [low, high] = [rows[Math.floor(place)], rows[Math.min(rows.length - 1, Math.ceil(place))]];
    if (!low || !high || rows.length < 2) return null;
    const share = place - Math.floor(place);
    return tokens.map((token) => low[n][token] + (high[n][token] - low[n][token]) * share);
  }

  function barChart(container, shown, n, height) {
    const tokens = () => tokensOf(shown.run, n);
    const made = (moment) => ({ labels: tokens().map((token) => shown.names[token]), groups: barGroups(shown, n, tokens(), moment) });
    const title = shown.record ? `Class ${rowName(shown, n)}` : `before “${rowName(shown, n)}”`;
    const chart = Charts.bars(container, {
      title, height, x: { label: "" }, y: { label: "attention", min: 0, max: 1 }, legend: Boolean(shown.record),
      ...made({ ...shown.run.seen[0], place: 0 }),
    });
    return { chart, load(next) { shown = next; }, draw: (moment) => chart.update(made(moment)) };
  }

  function heatChart(container, shown, height, { title, look, withTheory }) {
    const { names, run } = shown;
    const size = run.seen[0].attention.length;
    const axes = { x: { label: "attention on", ticks: names }, y: { label: "query", ticks: names } };
    const every = run.seen[0].attention.map((_, token) => token);
    const told = (moment) => every.flatMap((n) => predicted(shown.run, n, every, moment) ?? every.map(() => null));
    const now = (moment) => ({ values: look(moment, shown).attention.flat(), ...(withTheory && { outline: told(moment) }) });
    const chart = Charts.heat(container, {
      title, height, rows: size, columns: size, ...axes, min: 0, max: 1, unit: "attention", numbers: size <= MOST_ARROWS, key: size > MOST_ARROWS,
      outlineName: "", ...now({ ...run.seen[0], place: 0 }),
    });
    return { chart, load(next) { shown = next; }, draw: (moment) => chart.update(now(moment)) };
  }

  function arrowChart(container, shown, height) {
    const chart = Arrows.create(container, { title: "Embeddings", height });
    let axes = Arrows.plane(shown.run);
    return {
      chart,
      load(next) {
        shown = next;
        axes = Arrows.plane(shown.run);
      },
      grow() { axes = Arrows.plane(shown.run); },
      draw: (moment) => chart.show(moment.embedding, axes, shown.names, Tones.ofRun(shown.run, 0)),
    };
  }

  /** What stands on the stage: bars for classes; for a chain a map, with arrows or the record's map beside it. */
  function pictures(container, shown, height) {
    if (shown.run.model === "scan-and-snap") {
      return Array.from({ length: rowCount(shown.run) }, (_, n) => barChart(container, shown, n, height));
    }
    const made = [heatChart(container, shown, height, { title: "Attention by query", look: (moment) => moment, withTheory: true })];
    if (shown.record) made.push(heatChart(container, shown, height, { title: "The record", look: ({ time }, now) => recordAt(now.record, time) }));
    else if (shown.run.seen[0].embedding && shown.names.length <= MOST_ARROWS) made.push(arrowChart(container, shown, height));
    return made;
  }

  /** What colours and outlines mean. */
  function drawKey(container, shown) {
    const entry = (look, words) => {
      const item = html("span", "key-item", undefined, container);
      html("i", look, undefined, item);
      return html("span", "", words, item);
    };
    container.replaceChildren();
    const scan = shown.run.model === "scan-and-snap";
    if (scan && !shown.record) {
      entry(`key-box law-tone-${Tones.COMMON}`, "common");
      entry(`key-box law-tone-${Tones.tone(0)}`, "most frequent of its class");
    }
    const outline = TheoryView.outline(shown.run);
    if (outline) entry(scan ? "key-box key-ghost" : "key-line key-theory", "").classList.add("key-outline");
  }

  /** What theory's outlines are at this moment: it may be silent of late times. */
  function sayOutline(container, { run }, { place }) {
    const words = container.querySelector(".key-outline");
    if (!words) return;
    const name = run.model === "scan-and-snap" ? "outline" : "dashes and rims";
    const isTold = TheoryView.attention(run)[Math.floor(place)] !== null;
    const outline = TheoryView.outline(run);
    const said = isTold ? `${name}: ${outline}` : `${outline} ends at time ${Charts.format(run.theory.guideUntil, 2)}`;
    if (words.textContent !== said) words.textContent = said;
  }

  /** What two runs must share to be shown in the same charts. */
  const shape = ({ run, record, names, answers, row }) => JSON.stringify([run.model, names, answers, Boolean(record), row, rowCount(run),
    run.seen[0].attention.map((_, n) => (n < MOST_ROWS ? tokensOf(run, n) : 0)), Boolean(run.seen[0].embedding)]);

  /**
   * @param {{picture: Element, key: Element, linear: Element, lines: Element}} places
   * @param {{run: Object, record: ?Object, names: string[], answers: string[], row: number}} given
   * @returns {{fits(next: Object): boolean, load(next: Object): void, grow(): void, draw(place: number, all: boolean): void, destroy(): void}}
   */
  function create(places, given) {
    const full = (shown) => ({ ...shown, theory: TheoryView.lines(shown.run), rows: shown.run.seen[0].attention.slice(0, MOST_LINES) });
    let shown = full(given);
    drawKey(places.key, shown); // before the picture: it takes its room from it
    places.picture.classList.toggle("is-map", shown.run.model === "focus-and-dilution");
    const room = places.picture.clientHeight;
    const rows = Math.ceil(rowCount(shown.run) / (places.picture.clientWidth < 560 ? 2 : 4));
    const height = Math.max(150, Math.floor((shown.run.model === "scan-and-snap" ? room / rows : room) - 26));
    const near = [...pictures(places.picture, shown, height), linearChart(places.linear, shown, Math.max(120, places.linear.clientHeight - 24))];
    const far = LINES[shown.run.model].map((spec) => lineChart(places.lines, shown, spec));
    const parts = [...near, ...far];
    return {
      fits: (next) => shape(next) === shape(shown),
      load(next) {
        shown = full(next);
        for (const part of parts) part.load(shown);
        drawKey(places.key, shown);
      },
      grow() { for (const part of parts) part.grow?.(); },
      /** `all`: the lines further down the page as well. */
      draw(place, all) {
        const moment = Moments.at(shown.run, place);
        for (const part of all ? parts : near) part.draw(moment);
        sayOutline(places.key, shown, moment);
      },
      destroy() { for (const part of parts) part.chart.destroy(); },
    };
  }

  return Object.freeze({ MOST_ROWS, ROWS, rowName, create });
})();

/* What a run looks like: bars of attention for each class or query, and lines over time, theory and a record laid over them.
 *
 * Axes are fixed for the whole run and theory is drawn over all of it, so its onset stands there before the run reaches it.
 * Solid is the run, dashed is theory, dotted is the record.
 */
const RunView = (() => {
  "use strict";
  const MOST_ROWS = 8; // bar charts that fit a page
  const MOST_LINES = 8; // colours and markers that can be told apart
  const TIME = "time, in steps of gradient descent";

  const WORDS = {
    "scan-and-snap": { row: "Class", name: (n, names, record) => recordedClass(n, record) ?? Laws.className(n) },
    "focus-and-dilution": { row: "Query", name: (n, names) => names[n] },
  };

  /** The name of a class in a record, which is that of its next token; nothing if tokens have only numbers. */
  function recordedClass(n, record) {
    const name = record?.names?.[record.settings.nextToken?.[n]];
    return name === undefined || /^\d+$/.test(name) ? undefined : name;
  }

  /** Tokens that a row of attention can show: in Scan and Snap those the class has. */
  function tokensOf(run, row) {
    const chances = run.model === "scan-and-snap" ? run.task.tokenProb[row] : run.task.stationary;
    return chances.flatMap((chance, token) => (chance > 0 ? [token] : []));
  }

  /** Index of the last record sample at or before a time. */
  const recordIndex = (record, time) => Math.max(0, record.time.findLastIndex((one) => one <= time * (1 + 1e-9)));

  /** A line for one number of each sample: the run's (filled while it runs), theory's, the record's. */
  function bundle(name, tone, pick, { run, record }, predicted) {
    const lines = [{ kind: "run", name, tone, pick, x: [], y: [] }];
    const over = (kind, style, x, y) => lines.push({ kind, name: `${name}, ${kind}`, tone, quiet: true, style, x, y });
    if (predicted) over("theory", "dashes", run.times.slice(1), predicted);
    if (record) over("record", "dots", record.time, record.samples.map(pick));
    return lines;
  }

  /** The tokens of a row to draw over time: those that hold most attention at the start, or at the end of theory or record. */
  function leading(run, record, theory, row) {
    const most = (token) => Math.max(run.seen[0].attention[row][token], record?.samples.at(-1).attention[row][token] ?? 0,
      theory.attention?.(row, token).findLast((share) => share !== null) ?? 0);
    const size = new Map(tokensOf(run, row).map((token) => [token, most(token)]));
    return [...size.keys()].sort((a, b) => size.get(b) - size.get(a)).slice(0, MOST_LINES).sort((a, b) => a - b);
  }

  const PROBABILITY = { label: "attention", min: 0, max: 1 };

  /** Attention of the chosen row on each of its tokens. */
  function rowChart(shown, row) {
    const { run, record, theory, names } = shown;
    const word = WORDS[run.model];
    const on = (token) => (seen) => seen.attention[row][token];
    const name = (token) => (/^\d+$/.test(names[token]) ? `token ${names[token]}` : names[token]);
    const line = (token, at) => bundle(name(token), at, on(token), shown, theory.attention?.(row, token));
    const title = `Attention of ${word.row.toLowerCase()} ${word.name(row, names, record)} over time`;
    return { id: "row", title, y: PROBABILITY, lines: leading(run, record, theory, row).flatMap(line) };
  }

  function commonChart(shown) {
    const { run, record, theory } = shown;
    const mass = (n) => (seen) => seen.attention[n].reduce((sum, share, token) => sum + (run.task.common[token] ? share : 0), 0);
    const line = (_, n) => bundle(`class ${recordedClass(n, record) ?? Laws.className(n)}`, n, mass(n), shown, theory.common?.(n));
    return { id: "common", title: "Attention on the common tokens", y: PROBABILITY, lines: shown.rows.flatMap(line) };
  }

  function frequentChart(shown) {
    const { run, theory, names } = shown;
    const frequent = run.task.stationary.indexOf(Math.max(...run.task.stationary));
    const of = (n) => (seen) => seen.attention[n][frequent];
    const line = (_, n) => bundle(`query ${names[n]}`, n, of(n), shown, theory.attention?.(n, frequent));
    const title = `Attention on token ${names[frequent]}, the most frequent`;
    return { id: "frequent", title, y: PROBABILITY, lines: shown.rows.flatMap(line) };
  }

  function valuesChart(shown) {
    const { run, theory } = shown;
    const name = (n) => (n ? `${n + 1}${["nd", "rd"][n - 1] ?? "th"}` : "largest");
    const line = (_, n) => bundle(name(n), n, (seen) => seen.singularValues?.[n] ?? null, shown, theory.singularValue?.(n));
    const lines = run.seen[0].singularValues.slice(0, MOST_LINES).flatMap(line);
    return { id: "values", title: "Singular values of the embedding", y: { label: "singular value", log: true }, lines };
  }

  function lossChart(shown) {
    const lines = bundle("run", 0, (seen) => seen.loss, shown, shown.theory.loss);
    return { id: "loss", title: "Loss", y: { label: "loss, in nats", min: 0 }, lines };
  }

  /** The line charts of a model, in their order on the page: {id, title, y, lines}. */
  function lineCharts(run, record, names, row) {
    const shown = { run, record, names, theory: TheoryView.lines(run), rows: run.seen[0].attention.slice(0, MOST_LINES) };
    if (run.model === "scan-and-snap") return [rowChart(shown, row), commonChart(shown), lossChart(shown)];
    return [valuesChart(shown), frequentChart(shown), rowChart(shown, row), lossChart(shown)];
  }

  function barChart(container, run, record, names, n) {
    const tokens = tokensOf(run, n);
    const word = WORDS[run.model];
    const attention = TheoryView.lines(run).attention;
    const predicted = attention && tokens.map((token) => attention(n, token));
    const groups = (shown) => {
      const live = { name: "run", values: tokens.map((token) => run.seen[shown].attention[n][token]) };
      if (predicted) live.ghost = shown > 0 ? predicted.map((line) => line[shown - 1]) : live.values;
      if (!record) return [live];
      const sample = record.samples[recordIndex(record, run.seen[shown].time)];
      return [live, { name: "record", values: tokens.map((token) => sample.attention[n][token]) }];
    };
    const chart = Charts.bars(container, {
      title: `${word.row} ${word.name(n, names, record)}`, height: 190, x: { label: "token" }, y: { label: "attention", min: 0, max: 1 },
      labels: tokens.map((token) => names[token]), groups: groups(0), legend: Boolean(record),
    });
    return { chart, draw: (shown) => chart.update({ groups: groups(shown) }) };
  }

  function lineChart(container, run, spec) {
    const limits = { min: run.times[1], max: run.times.at(-1) };
    const live = spec.lines.filter((line) => line.kind === "run");
    const all = live.map(() => ({ x: [], y: [] })); // every sample seen so far; the shown part is cut from it
    const chart = Charts.line(container, {
      title: spec.title, height: 260, x: { label: TIME, log: true, ...limits }, y: { ...spec.y, ...range(run, spec) },
      series: spec.lines, marks: TheoryView.marks(run),
    });
    Charts.saveMenu(chart, `${run.model}-${spec.id}`);
    function draw(shown) {
      for (let at = all[0].x.length + 1; at < run.seen.length; at += 1) {
        live.forEach((line, n) => {
          all[n].x.push(run.times[at]);
          all[n].y.push(line.pick(run.seen[at]));
        });
      }
      live.forEach((line, n) => {
        line.x = all[n].x.slice(0, shown);
        line.y = all[n].y.slice(0, shown);
      });
      chart.update({ series: spec.lines });
      chart.cursor(shown ? run.times[shown] : null);
    }
    return { chart, draw };
  }

  /** Limits of an axis that is not a probability: the loss starts highest, singular values end at a few. */
  function range(run, spec) {
    if (spec.id === "loss") return { max: run.seen[0].loss * 1.05 };
    if (spec.id !== "values") return {};
    const smallest = run.seen[0].singularValues.at(-1);
    return { min: Math.max(1e-7, 10 ** Math.floor(Math.log10(smallest || 1e-7))), max: 10 };
  }

  /**
   * @param {{bars: Element, lines: Element}} places @param {Object} run of LiveRun @param {?Object} record of RecordDrop
   * @param {string[]} names of the tokens @param {number} row shown over time
   * @returns {{draw(shown: number): void, destroy(): void}}
   */
  function create(places, run, record, names, row) {
    const rows = Math.min(run.seen[0].attention.length, MOST_ROWS);
    const bars = Array.from({ length: rows }, (_, n) => barChart(places.bars, run, record, names, n));
    const lines = lineCharts(run, record, names, row).map((spec) => lineChart(places.lines, run, spec));
    const parts = [...bars, ...lines];
    return {
      draw: (shown) => parts.forEach((part) => part.draw(shown)),
      destroy: () => parts.forEach((part) => part.chart.destroy()),
    };
  }

  return Object.freeze({ MOST_ROWS, WORDS, create });
})();

/* An opened claim: its equation, its assumptions, predicted against measured, a curve of its record, the command that makes it. */
const ClaimDetail = (() => {
  "use strict";
  const { html, svg, text } = ChartFrame;

  function equations(parent, claim) {
    if (!claim.equation) return;
    const template = [...document.querySelectorAll("template[data-equation]")].find((other) => other.dataset.equation === claim.equation);
    if (!template) return;
    const part = html("div", "detail-part equations", undefined, parent);
    html("h4", "", "Equation", part);
    part.append(template.content.cloneNode(true));
  }

  function assumptions(parent, claim) {
    const part = html("div", "detail-part", undefined, parent);
    html("h4", "", "Assumptions", part);
    const asked = Object.entries(claim.assumptions ?? {});
    if (!asked.length) html("p", "note", "none asked", part);
    const list = html("ul", "assumptions", undefined, part);
    for (const [name, met] of asked) html("li", met ? "met" : "unmet", `${met ? "met" : "not met"}: ${name}`, list);
  }

  /** Where measured lies between predicted − and + tolerance, on a line three tolerances wide. */
  function bar(parent, claim) {
    const { predicted, measured, tolerance } = claim;
    const said = (sentence) => html("p", "note", sentence, parent);
    if (![predicted, measured, tolerance].every(Number.isFinite)) return said("A number is missing, so there is nothing to compare.");
    const half = 1.25 * Math.max(tolerance, Math.abs(measured - predicted), 1e-12 * Math.abs(predicted), Number.MIN_VALUE);
    if (!Number.isFinite(half)) return said("The two lie too far apart to draw.");
    const place = (value) => 150 + 140 * Math.max(-1, Math.min(1, (value - predicted) / half));
    const picture = svg("svg", { viewBox: "0 0 300 56", class: "claim-bar chart-svg", role: "img" }, parent);
    picture.setAttribute("aria-label", `predicted ${predicted}, measured ${measured}, tolerance ${tolerance}`);
    svg("path", { d: "M10 26H290", class: "chart-axis" }, picture);
    const [left, right] = [place(predicted - tolerance), place(predicted + tolerance)];
    svg("rect", { x: left, y: 18, width: Math.max(2, right - left), height: 16, class: "chart-band chart-band-odd" }, picture);
    svg("path", { d: `M${place(predicted)} 14V38`, class: "chart-mark" }, picture);
    svg("circle", { cx: place(measured), cy: 26, r: 5, class: "chart-fill-1" }, picture);
    text("predicted ± tolerance", { x: place(predicted), y: 10, class: "chart-middle" }, picture);
    text("measured", { x: Math.min(270, Math.max(30, place(measured))), y: 52, class: "chart-middle" }, picture);
    return picture;
  }

  function numbers(parent, claim) {
    const part = html("div", "detail-part", undefined, parent);
    html("h4", "", "Predicted against measured", part);
    const list = html("dl", "numbers", undefined, part);
    for (const key of ["predicted", "measured", "tolerance", "verdict", "expected"]) {
      html("dt", "", key, list);
      html("dd", "", typeof claim[key] === "number" || claim[key] === null ? Charts.format(claim[key], 6) : claim[key], list);
    }
    bar(part, claim);
    html("p", "note", `Source: ${claim.source}`, part);
  }

  function command(parent, claim) {
    if (!claim.command) return;
    const part = html("div", "detail-part command", undefined, parent);
    html("h4", "", "Make it again", part);
    html("code", "", claim.command, part);
    const button = html("button", "copy", "Copy", part);
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(claim.command);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling); // without the right to copy, it is at least marked
        button.textContent = "Marked";
      }
    });
  }

  const wordsOf = (sentence) => new Set(sentence.toLowerCase().match(/[a-z]{4,}/g) ?? []);

  /** The line figure of the record that shares most words with the claim; none if no figure shares any. */
  function nearest(record, claim) {
    const said = wordsOf(claim.statement);
    const shared = (figure) => [...wordsOf(`${figure.name.replaceAll("_", " ")} ${figure.title}`)].filter((word) => said.has(word)).length;
    const able = record.figures.filter((figure) => figure.kind === "line" && shared(figure) > 0);
    return able.sort((a, b) => shared(b) - shared(a))[0];
  }

  const NUMBER = /(\d+(?:\.\d+)?(?:e[+-]?\d+)?)/;

  /** Claims of the same result that differ from this one in one number of their sentence: what is predicted over that number. */
  function family(claim, claims) {
    const parts = claim.statement.split(NUMBER);
    const near = claims.filter((other) => other.result === claim.result && other.source === claim.source)
      .map((other) => ({ other, parts: other.statement.split(NUMBER) }))
      .filter(({ parts: own }) => own.length === parts.length && own.every((part, at) => at % 2 === 1 || part === parts[at]));
    let best = [];
    for (let at = 1; at < parts.length; at += 2) {
      const along = near.filter(({ parts: own }) => own.every((part, place) => place === at || part === parts[place]));
      if (along.length > best.length) best = along.map(({ other, parts: own }) => ({ x: Number(own[at]), claim: other, label: parts[at - 1] }));
    }
    return best.sort((a, b) => a.x - b.x);
  }

  const NOT_NAMES = /^(and|at|by|for|from|in|of|on|or|over|than|the|to|with)$/i;

  /** What a number is of, as far as the words before it say so beyond doubt: `K = 5`, `at iteration 5`; empty if they do not. */
  function nameOf(before) {
    const equated = before.match(/([A-Za-z]\w*)\s*=\s*$/);
    if (equated) return equated[1];
    const guess = before.trim().split(/\s+/).slice(-2).join(" ").replace(/^(at|of|for|with|the) /, "");
    return /^[A-Za-z][A-Za-z0-9]*$/.test(guess) && !NOT_NAMES.test(guess) ? guess : "";
  }

  /** Predicted and measured over what the sentences of a family differ in: the step, a rate, the size of a task. */
  function together(parent, claim, claims) {
    const members = family(claim, claims).filter(({ claim: other }) => other.predicted !== null && other.measured !== null);
    if (members.length < 3) return;
    const part = html("div", "detail-part detail-curve", undefined, parent);
    const name = nameOf(members[0].label);
    const x = members.map((member) => member.x);
    const series = ["predicted", "measured"].map((kind) => ({ name: kind, x, y: members.map((member) => member.claim[kind]), dash: kind === "predicted" }));
    const spread = Math.min(...series.flatMap((one) => one.y));
    const log = spread > 0 && Math.max(...series.flatMap((one) => one.y)) / spread > 100;
    const caption = "Of this claim and those that differ from it in one number alone.";
    const across = { label: name || "the number that differs", log: x[0] > 0 && x.at(-1) / x[0] > 50 };
    const title = `Predicted against measured over ${name || "the claims of this statement"}`;
    const chart = Charts.line(part, { title, caption, x: across, y: { label: "value", log }, series });
    Charts.saveMenu(chart, `${claim.result}-predicted`);
    if (/^(iteration|step|time|t)$/.test(name)) follow(chart);
  }

  /** Let the slider move a chart's cursor for as long as the chart is in the page. */
  function follow(chart) {
    const stop = Player.listen((time) => (chart.element.isConnected ? chart.cursor(time) : stop()));
    chart.cursor(Player.time());
  }

  /** Which run of a record is drawn: the first along every axis that has several. */
  function firstRun(figure) {
    const several = figure.choices.filter((choice) => choice.labels.length > 1);
    return several.map((choice) => `${choice.axis.replaceAll("_", " ")} ${choice.labels[0]}`).join(", ");
  }

  /** A curve from the same record. In which of its runs the claim was measured is not known here, so nothing of the claim is marked. */
  async function curve(parent, claim, record) {
    const figure = record && nearest(record, claim);
    if (!figure) return;
    const part = html("div", "detail-part detail-curve", undefined, parent);
    const loaded = await Stills.load(figure);
    const spec = Stills.still(loaded, [], 0, record.bands);
    const run = firstRun(figure);
    spec.title = `${run ? "First run of the record" : "From the record"}: ${figure.title}`;
    if (run) spec.caption = `The run with ${run}; the claim may be about another. ${spec.caption}`;
    const chart = Charts.line(part, spec);
    Charts.saveMenu(chart, `${record.name}-${figure.name}`);
    follow(chart);
  }

  /**
   * Fill an opened row.
   * @param {Element} cell @param {Object} claim @param {Object[]} claims all of them @param {Object|undefined} record of the same result
   */
  function fill(cell, claim, claims, record) {
    const grid = html("div", "detail-grid", undefined, cell);
    equations(grid, claim);
    numbers(grid, claim);
    assumptions(grid, claim);
    command(grid, claim);
    together(grid, claim, claims);
    return curve(grid, claim, record);
  }

  return Object.freeze({ fill });
})();

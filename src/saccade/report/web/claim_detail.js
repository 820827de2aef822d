/* An opened claim: what it says, its formula, its assumptions with their numbers, what was measured against what was asked, its command. */
const ClaimDetail = (() => {
  "use strict";
  const { html, svg, text } = ChartFrame;

  function part(parent, title, look = "") {
    const element = html("div", `detail-part ${look}`, undefined, parent);
    html("h4", "", title, element);
    return element;
  }

  function statement(parent, claim) {
    const { key, title, place } = claim.statement;
    const own = part(parent, [key, title].filter(Boolean).join(": "), "equations");
    if (claim.sentence) html("p", "claim-sentence", claim.sentence, own);
    const template = [...document.querySelectorAll("template[data-equation]")].find((other) => other.dataset.equation === claim.equation);
    if (template && claim.equation) own.append(template.content.cloneNode(true));
    if (place) html("p", "note", `Where it stands: ${place}`, own);
  }

  function assumptions(parent, claim) {
    const own = part(parent, "Assumptions");
    if (claim.breaks) html("p", "note", `A control: ${claim.breaks} is broken on purpose, so this claim must fail.`, own);
    if (!claim.assumptions.length) html("p", "note", "None.", own);
    const list = html("ul", "assumptions", undefined, own);
    for (const { says, holds, why } of claim.assumptions) {
      const line = html("li", holds ? "met" : "unmet", `${holds ? "met" : "not met"}: ${says}`, list);
      if (why) html("small", "", why, line);
    }
  }

  /** Where measured lies against what is allowed, on a line: the allowed stretch is shaded, and one without an end runs off the line. */
  function bar(parent, claim) {
    const [low, high] = claim.bounds;
    const told = [low, high, claim.measured, ...(claim.interval ?? []), claim.relation.printed].filter(Number.isFinite);
    if (!Number.isFinite(claim.measured)) return html("p", "note", "The measured number is missing.", parent);
    const [least, most] = [Math.min(...told), Math.max(...told)];
    const room = 0.25 * (most - least) || 0.5 * Math.abs(most) || 1;
    if (!Number.isFinite(most - least + 2 * room)) return html("p", "note", "The numbers lie too far apart to draw.", parent);
    const place = ChartScales.scale([least - room, most + room], [10, 290]);
    const picture = svg("svg", { viewBox: "0 0 300 62", class: "claim-bar chart-svg", role: "img", "aria-label": claim.says }, parent);
    svg("path", { d: "M10 28H290", class: "chart-axis" }, picture);
    const [left, right] = [low === null ? 10 : place(low), high === null ? 290 : place(high)];
    svg("rect", { x: left, y: 20, width: Math.max(2, right - left), height: 16, class: "chart-band chart-band-odd claim-allowed" }, picture);
    const clear = right - left > 60; // else the two numbers would lie on each other
    if (low !== null) bound(picture, left, low, clear ? "chart-middle" : "chart-end");
    if (high !== null && high !== low) bound(picture, right, high, clear ? "chart-middle" : "");
    if (Number.isFinite(claim.relation.printed)) svg("path", { d: `M${place(claim.relation.printed)} 18V38`, class: "chart-line chart-stroke-7 chart-dash" }, picture);
    if (claim.interval?.every(Number.isFinite)) {
      svg("path", { d: `M${place(claim.interval[0])} 28H${place(claim.interval[1])}`, class: `chart-line claim-interval claim-${claim.kind}` }, picture);
    }
    svg("circle", { cx: place(claim.measured), cy: 28, r: 5, class: `claim-dot claim-${claim.kind}` }, picture);
    text(`measured ${Charts.format(claim.measured, 4)}`, { x: Math.min(245, Math.max(55, place(claim.measured))), y: 12, class: "chart-middle" }, picture);
    return picture;
  }

  function bound(picture, x, value, align) {
    svg("path", { d: `M${x} 16V40`, class: "chart-mark" }, picture);
    text(Charts.format(value, 4), { x: Math.min(280, Math.max(20, x)), y: 54, class: align }, picture);
  }

  function numbers(parent, claim) {
    const own = part(parent, "Result");
    html("p", "claim-says", claim.says, own);
    bar(own, claim);
    const isPrinted = Number.isFinite(claim.relation.printed);
    html("p", "note", `Shaded: what is allowed.${isPrinted ? ` Dashed: ${claim.relation.said ?? "as printed"}.` : ""}${claim.interval ? " The thick line is the interval over seeds or samples." : ""}`, own);
    html("p", "", `Verdict: ${claim.verdict_says}; compared with: ${claim.against}${claim.bound_set ? `; bound set ${claim.bound_set}` : ""}.`, own);
  }

  function command(parent, claim) {
    if (!claim.command) return;
    const own = part(parent, "Make it again", "command");
    html("code", "", claim.command, own);
    const button = html("button", "copy", "Copy", own);
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

  /** Claims that differ from this one in a single numeric setting of their case: the setting, and the claims in its order. */
  function family(claim, claims) {
    const same = claims.filter((other) => other.result === claim.result && other.title === claim.title && other.breaks === claim.breaks);
    const along = (name) => same.filter((other) => Number.isFinite(other.case[name] ?? NaN)
      && Object.keys(claim.case).every((key) => key === name || other.case[key] === claim.case[key]));
    const all = Object.keys(claim.case).map((name) => ({ name, members: along(name).sort((a, b) => a.case[name] - b.case[name]) }));
    return all.sort((a, b) => b.members.length - a.members.length)[0];
  }

  /** What was measured and what was allowed over a setting in which several claims differ. */
  function together(parent, claim, claims) {
    const { name, members } = family(claim, claims) ?? { members: [] };
    if (members.length < 3) return;
    const x = members.map((member) => member.case[name]);
    const ends = ["lower bound", "upper bound"].map((label, end) => ({ name: label, x, y: members.map((member) => member.bounds[end]), style: "dashes", tone: null }));
    const ranges = members.every((member) => member.interval)
      ? { low: members.map((member) => member.interval[0]), high: members.map((member) => member.interval[1]) } : {};
    const series = [{ name: "measured", x, y: members.map((member) => member.measured), tone: 1, ...ranges },
      ...ends.filter((end) => end.y.some(Number.isFinite))];
    const all = series.flatMap((one) => one.y).filter(Number.isFinite);
    const log = Math.min(...all) > 0 && Math.max(...all) / Math.min(...all) > 100;
    const axis = { label: name, log: x[0] > 0 && x.at(-1) / x[0] > 50 };
    const own = html("div", "detail-part detail-curve", undefined, parent);
    const chart = Charts.line(own, { title: `${claim.title}, over ${name}`, x: axis, y: { label: "value", log }, series });
    Charts.saveMenu(chart, `${claim.result}-over-${name}`);
  }

  /** Fill an opened row. @param {Element} cell @param {Object} claim @param {Object[]} claims all of them */
  function fill(cell, claim, claims) {
    const grid = html("div", "detail-grid", undefined, cell);
    statement(grid, claim);
    numbers(grid, claim);
    assumptions(grid, claim);
    command(grid, claim);
    together(grid, claim, claims);
  }

  return Object.freeze({ fill });
})();

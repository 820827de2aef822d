/* Every claim as a small square, result by result: colour and shape tell the verdict, and a square opens its claim. */
const Overview = (() => {
  "use strict";
  const { svg, text, shortened } = ChartFrame;
  const [SIDE, STEP] = [11, 15]; // pixels of a square, and from one to the next
  const NARROW = 560; // pixels below which names stand above their squares

  const filled = (inset) => (x, y) => `M${x + inset} ${y + inset}h${SIDE - 2 * inset}v${SIDE - 2 * inset}h${2 * inset - SIDE}z`;
  const diamond = (x, y) => `M${x + SIDE / 2} ${y - 2}l${SIDE / 2 + 2} ${SIDE / 2 + 2}l${-SIDE / 2 - 2} ${SIDE / 2 + 2}l${-SIDE / 2 - 2} ${-SIDE / 2 - 2}z`;
  const KINDS = {
    holds: { name: "holds", look: "chart-fill-0", shape: filled(0) },
    known: { name: "fails", look: "chart-ring chart-stroke-1", shape: filled(1) },
    control: { name: "control", look: "chart-ring chart-stroke-2", shape: (x, y) => `${filled(1)(x, y)}M${x + 1} ${y + 1}l${SIDE - 2} ${SIDE - 2}` },
    outside: { name: "assumptions not met", look: "chart-fill-6", shape: filled(3) },
    cannot: { name: "inconclusive", look: "chart-ring chart-stroke-6", shape: filled(3) },
    regress: { name: "regression test", look: "chart-ring chart-stroke-3", shape: filled(1) },
    surprise: { name: "surprise", look: "chart-bad", shape: diamond },
  };

  function rowsOf(claims) {
    const rows = new Map();
    claims.forEach((claim, place) => {
      if (!rows.has(claim.result)) rows.set(claim.result, []);
      rows.get(claim.result).push({ claim, place });
    });
    return [...rows];
  }

  /** What each kind of square means, and how many there are. @returns {number} the height used */
  function legend(picture, claims, width) {
    let [x, y] = [2, 4];
    for (const [kind, { name, look, shape }] of Object.entries(KINDS)) {
      const count = claims.filter((claim) => claim.kind === kind).length;
      if (!count) continue;
      const words = `${name} (${count})`;
      const needed = SIDE + 6 + ChartFrame.widthOf(words) + 14;
      if (x > 2 && x + needed > width) [x, y] = [2, y + 18];
      svg("path", { d: shape(x, y), class: look }, picture);
      text(words, { x: x + SIDE + 6, y: y + 10 }, picture);
      x += needed;
    }
    return y + 26;
  }

  function square(picture, { claim, place }, x, y, open) {
    const { name, look, shape } = KINDS[claim.kind];
    const group = svg("g", { class: "claim-square", "data-kind": claim.kind }, picture);
    svg("rect", { x: x - 2, y: y - 2, width: STEP, height: STEP, fill: "transparent" }, group); // the whole place can be clicked
    svg("path", { d: shape(x, y), class: look }, group);
    svg("title", {}, group).textContent = `${claim.label}: ${claim.says}; ${claim.verdict_says}`;
    group.addEventListener("click", () => open(place));
    return group;
  }

  /** @param {Element} container @param {Object[]} claims @param {(name: string) => string} titleOf a result @param {(place: number) => void} open */
  function create(container, claims, titleOf, open) {
    const rows = rowsOf(claims).map(([name, found]) => [titleOf(name), found]);
    const title = "All claims, result by result";
    const caption = "One square for each claim. Choose one to open its claim; the table of claims below does the same by keyboard.";
    const squares = new Map(); // by the place of their claim
    let shown = null; // places of the claims that filters leave; null: all
    const frame = ChartFrame.create(container, { title, caption, height: 60 + rows.length * 34 }, draw);

    function draw(width) {
      const { picture } = frame;
      const longest = Math.max(...rows.map(([name]) => ChartFrame.widthOf(shortened(name, 36))));
      const isNarrow = width < NARROW;
      const left = isNarrow ? 4 : longest + 14;
      const across = Math.max(1, Math.floor((width - left - 4) / STEP));
      picture.replaceChildren();
      let y = legend(picture, claims, width);
      for (const [name, found] of rows) {
        text(shortened(name, 36), isNarrow ? { x: 2, y: y + 8, class: "chart-name" } : { x: left - 8, y: y + 10, class: "chart-name chart-end" }, picture);
        if (isNarrow) y += 16;
        found.forEach((one, at) => squares.set(one.place, square(picture, one, left + (at % across) * STEP, y + Math.floor(at / across) * STEP, open)));
        y += Math.ceil(found.length / across) * STEP + (isNarrow ? 8 : 5);
      }
      fade();
      picture.setAttribute("height", y);
      picture.setAttribute("viewBox", `0 0 ${width} ${y}`);
      frame.describe({ title, caption }, Object.entries(KINDS).map(([kind, { name: word }]) => `${word}: ${claims.filter((claim) => claim.kind === kind).length}`).join(", "));
    }

    function fade() {
      for (const [place, group] of squares) group.setAttribute("opacity", shown === null || shown.has(place) ? 1 : 0.15);
    }

    frame.redraw();
    const header = ["result", "claim", "statement", "says", "measured", "low", "high", "verdict", "expected", "against", "breaks"];
    const line = (claim) => [claim.result, claim.label, claim.statement.key, claim.says, claim.measured, ...claim.bounds,
      claim.verdict, claim.expected, claim.against, claim.breaks];
    return {
      element: frame.figure,
      /** Only these claims are full. @param {Set<number>} places */
      only(places) { shown = places; fade(); },
      toSVG: () => ChartSave.toSVG(frame.picture, title),
      toCSV: () => ChartSave.csv([header, ...claims.map(line)]),
    };
  }

  return Object.freeze({ create });
})();

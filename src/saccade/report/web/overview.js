/* Every claim as a point: how far measured lies from predicted, in tolerances, result by result. A point opens its claim.
 *
 * Points beyond twice the tolerance stand at the edge. Shape and colour tell the verdict.
 */
const Overview = (() => {
  "use strict";
  const { svg, text, shortened, marker } = ChartFrame;
  const EDGE = 2; // tolerances that are shown on either side
  const KINDS = { holds: [0, "holds"], known: [1, "fails, as known"], outside: [6, "outside its assumptions"], surprise: [3, "surprise"] };
  const NARROW = 560; // pixels below which names stand above their points

  function rowsOf(claims) {
    const rows = new Map();
    claims.forEach((claim, place) => {
      if (!rows.has(claim.result)) rows.set(claim.result, []);
      rows.get(claim.result).push({ claim, place });
    });
    return [...rows];
  }

  /** Points beside each other where they would lie on each other: a few levels, from the middle outwards. */
  function levels(points, x) {
    const taken = [];
    return points.map((point) => {
      const at = x(point.claim.off);
      let level = 0;
      while (level < 4 && taken.some((other) => other.level === level && Math.abs(other.at - at) < 8)) level += 1;
      taken.push({ at, level });
      return { ...point, at, rise: (level % 2 ? -1 : 1) * Math.ceil(level / 2) * 4 };
    });
  }

  function legend(picture, claims, left) {
    let x = left;
    for (const [kind, [index, name]] of Object.entries(KINDS)) {
      const count = claims.filter((claim) => claim.kind === kind).length;
      if (!count) continue;
      svg("path", { d: marker(index, x + 6, 10), class: `chart-fill-${index}` }, picture);
      const words = `${name} (${count})`;
      text(words, { x: x + 15, y: 14 }, picture);
      x += 29 + ChartFrame.widthOf(words);
    }
  }

  function point(picture, found, y, open) {
    const [index, name] = KINDS[found.claim.kind];
    const dot = svg("path", { d: marker(index, found.at, y + found.rise), class: `chart-fill-${index} claim-dot` }, picture);
    svg("title", {}, dot).textContent = `${name}: ${found.claim.statement}`;
    dot.addEventListener("click", () => open(found.place));
  }

  /** @param {Element} container @param {Object[]} claims @param {(place: number) => void} open */
  function create(container, claims, open) {
    const rows = rowsOf(claims);
    const title = "How far measured lies from predicted";
    const caption = "Shaded: within the tolerance. Points at the edge lie further out, or have no number. Choose a point to open its claim; "
      + "the table of claims below does the same by keyboard.";
    const spec = { title, caption, height: 60 + rows.length * 34 };
    const frame = ChartFrame.create(container, spec, draw);

    function draw(width) {
      const { picture } = frame;
      const narrow = width < NARROW;
      const step = narrow ? 34 : 22;
      const longest = Math.max(...rows.map(([name]) => name.length));
      const left = narrow ? 12 : Math.min(230, 20 + longest * ChartFrame.LETTER);
      const [top, right] = [narrow ? 44 : 30, width - 12];
      const height = top + rows.length * step + 36;
      picture.setAttribute("height", height);
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const x = (off) => left + ((right - left) * (Math.max(-EDGE, Math.min(EDGE, off ?? EDGE)) + EDGE)) / (2 * EDGE);
      picture.replaceChildren();
      legendRows(picture, width);
      svg("rect", { x: x(-1), y: top, width: x(1) - x(-1), height: rows.length * step, class: "chart-band" }, picture);
      svg("path", { d: `M${x(0)} ${top}V${top + rows.length * step}`, class: "chart-mark" }, picture);
      rows.forEach(([name, points], index) => {
        const y = top + index * step + (narrow ? 24 : step / 2);
        const where = narrow ? { x: 2, y: y - 11, class: "chart-name" } : { x: left - 8, y: y + 4, class: "chart-name chart-end" };
        text(shortened(name, narrow ? 50 : 32), where, picture);
        svg("path", { d: `M${left} ${y}H${right}`, class: "chart-grid" }, picture);
        for (const found of levels(points, x)) point(picture, found, y, open);
      });
      for (const off of [-2, -1, 0, 1, 2]) {
        const words = off === 0 ? "predicted" : `${off > 0 ? "+" : "−"}${Math.abs(off)}`;
        text(words, { x: x(off), y: height - 20, class: "chart-middle" }, picture);
      }
      text("tolerances", { x: right, y: height - 4, class: "chart-name chart-end" }, picture);
    }

    function legendRows(picture, width) {
      if (width >= NARROW) return legend(picture, claims, 4);
      const group = svg("g", {}, picture);
      const isUpper = (claim) => ["holds", "known"].includes(claim.kind);
      legend(group, claims.filter(isUpper), 0);
      return legend(svg("g", { transform: "translate(0 16)" }, group), claims.filter((claim) => !isUpper(claim)), 0);
    }

    frame.redraw();
    const header = ["result", "statement", "source", "predicted", "measured", "tolerance", "off_by_tolerances", "verdict", "expected"];
    const line = (claim) => header.map((name) => (name === "off_by_tolerances" ? claim.off : claim[name]));
    return {
      element: frame.figure,
      toSVG: () => ChartSave.toSVG(frame.picture, title),
      toCSV: () => ChartSave.csv([header, ...claims.map(line)]),
    };
  }

  return Object.freeze({ create });
})();

/* Embeddings as arrows in a plane: noise at first, then one line, then a fan.
 *
 * The plane is fixed for a run: its first axis is the direction that the embeddings condense to (where the largest singular value
 * stands out most), its second the strongest direction across it at the end. Arrows are scaled to the longest, as embeddings grow a
 * thousandfold; how long that is stands below.
 */
const Arrows = (() => {
  "use strict";
  const { svg, text } = ChartFrame;
  const TURNS = 200; // of the power iteration; a screen cannot tell more

  const dot = (a, b) => a.reduce((sum, x, at) => sum + x * b[at], 0);
  const norm = (a) => Math.sqrt(dot(a, a));

  /** The direction in which rows are longest, across `other` if that is given. */
  function leading(rows, other) {
    const across = (row) => (other ? row.map((x, at) => x - dot(row, other) * other[at]) : row);
    const kept = rows.map(across);
    let v = kept.reduce((longest, row) => (norm(row) > norm(longest) ? row : longest));
    for (let turn = 0; turn < TURNS && norm(v) > 0; turn += 1) {
      const size = norm(v);
      const next = v.map(() => 0);
      for (const row of kept) {
        const along = dot(row, v) / size;
        row.forEach((x, at) => { next[at] += along * x; });
      }
      v = next;
    }
    return norm(v) > 0 ? v.map((x) => x / norm(v)) : v.map((_, at) => (at === 0 ? 1 : 0));
  }

  /** The two axes of a run's plane. The first points along the most frequent token, the second along the rarest. */
  function plane(run) {
    const ratio = ({ singularValues: [first, second] }) => first / (second || 1e-300);
    const condensed = run.seen.reduce((best, one) => (ratio(one) > ratio(best) ? one : best));
    const last = run.seen.at(-1).embedding;
    const { stationary } = run.task;
    const [most, least] = [Math.max(...stationary), Math.min(...stationary)].map((share) => stationary.indexOf(share));
    const turned = (axis, row) => (dot(axis, row) < 0 ? axis.map((x) => -x) : axis);
    const first = turned(leading(condensed.embedding), condensed.embedding[most]);
    return [first, turned(leading(last, first), last[least])];
  }

  /** @param {Element} container @param {{title: string, height: number}} spec */
  function create(container, spec) {
    let shown = null; // {rows: [token][2], names, tones, size}
    const frame = ChartFrame.create(container, spec, draw);

    function arrow(parent, [x, y], tone) {
      const length = Math.hypot(x, y);
      const [ux, uy] = length > 0 ? [x / length, y / length] : [1, 0];
      const tip = Math.min(9, length);
      const base = [x - tip * ux, y - tip * uy];
      svg("path", { d: `M0 0L${base.map((one) => one.toFixed(1)).join(" ")}`, class: `chart-line arrow-shaft chart-stroke-${tone}` }, parent);
      const head = [[x, y], [base[0] - 0.45 * tip * uy, base[1] + 0.45 * tip * ux], [base[0] + 0.45 * tip * uy, base[1] - 0.45 * tip * ux]];
      svg("path", { d: `M${head.map((point) => point.map((one) => one.toFixed(1)).join(" ")).join("L")}Z`, class: `chart-fill-${tone}` }, parent);
    }

    function draw() {
      frame.picture.replaceChildren();
      frame.describe(spec, shown ? `of ${shown.names.join(", ")}` : "");
      if (!shown) return;
      const radius = Math.max(20, Math.min(frame.width / 2 - 26, (frame.height - 20) / 2 - 12));
      const place = svg("g", { transform: `translate(${frame.width / 2} ${(frame.height - 20) / 2})` }, frame.picture);
      svg("circle", { r: radius, class: "arrow-ring" }, place);
      svg("path", { d: `M${-radius} 0H${radius}`, class: "chart-mark" }, place);
      const points = shown.rows.map(([x, y]) => [radius * x, -radius * y]);
      points.forEach((point, token) => arrow(place, point, shown.tones[token]));
      labels(place, points, radius);
      const size = `longest arrow: ${Charts.format(shown.size, 2)}`;
      text(size, { x: frame.width / 2, y: frame.height - 4, class: "chart-text chart-middle" }, frame.picture);
    }

    /** Names at the tips, pushed apart where tips lie on each other; above or below the line where a longer arrow would strike them out. */
    function labels(parent, points, radius) {
      const struck = ([x, y]) => Math.abs(y) < 8 && points.some(([far, high]) => Math.abs(high) < 8 && far * x > 0 && Math.abs(far) > Math.abs(x) + 8);
      let above = false;
      const wanted = points.map((point, token) => {
        const [x, y] = point;
        if (!struck(point)) return { token, x: x + (x < 0 ? -6 : 6), y: y + 4, left: x < 0 };
        above = !above;
        return { token, x, y: above ? -26 : 18, left: x < 0 };
      });
      const placed = [];
      for (const one of wanted.sort((a, b) => a.y - b.y || a.x - b.x)) {
        const width = ChartFrame.widthOf(shown.names[one.token]) + 6;
        const x = Math.max(-radius - 30, Math.min(radius + 4, one.x));
        const span = one.left ? [x - width, x] : [x, x + width];
        const near = placed.filter((other) => other.span[0] < span[1] && span[0] < other.span[1]);
        const y = near.reduce((low, other) => (Math.abs(other.y - low) < 13 ? other.y + 13 : low), one.y);
        placed.push({ y, span });
        text(shown.names[one.token], { x, y, class: `chart-text chart-name chart-halo${one.left ? " chart-end" : ""}` }, parent);
      }
    }
    frame.redraw();
    return {
      element: frame.figure,
      /** @param {number[][]} embedding [token][width] @param {number[][]} axes of `plane` */
      show(embedding, axes, names, tones) {
        const rows = embedding.map((row) => axes.map((axis) => dot(row, axis)));
        const size = Math.max(...embedding.map(norm)) || 1;
        shown = { rows: rows.map((row) => row.map((x) => x / size)), names, tones, size };
        draw();
      },
      destroy: frame.remove,
    };
  }

  return Object.freeze({ create, plane });
})();

/* The attention map of every head, layers down and heads across: queries down, keys across, light where attention goes.
 *
 * A thumbnail has a pixel for a query and a key; of long texts a pixel is the largest of a block. The head that is chosen stands
 * beside them, large, and tells the words under the pointer. Which look is drawn is decided in token_text.js.
 */
const HeadMaps = (() => {
  "use strict";
  const { html } = ChartFrame;
  const MOST = 64; // pixels of a thumbnail's side
  const GAP = 10; // pixels between the pointer and the words
  const TABLE = ChartScales.colourTable("sequential");

  /** A pixel for the square root of a weight, which tells small weights from none. */
  function paint(data, at, root) {
    const level = 3 * Math.round(255 * root);
    [data[4 * at], data[4 * at + 1], data[4 * at + 2], data[4 * at + 3]] = [TABLE[level], TABLE[level + 1], TABLE[level + 2], 255];
  }

  /**
   * @param {Element} container @param {Object} sizes {names, nLayers, nHeads, nQueries, nKeys}
   * @param {{onHead: (layer: number, head: number) => void, onRow: (row: number) => void, say: (row: number, key: number) => string}} answers
   */
  function create(container, { names, nLayers, nHeads, nQueries, nKeys }, { onHead, onRow, say }) {
    const holder = html("div", "head-maps", undefined, container);
    const grid = html("div", "head-grid", undefined, holder);
    grid.style.setProperty("--heads", nHeads);
    const [rows, columns, size] = [Math.min(MOST, nQueries), Math.min(MOST, nKeys), nQueries * nKeys];
    const thumbnails = [];
    for (let layer = 0; layer < nLayers; layer += 1) {
      html("span", "head-layer", names.layer[layer], grid);
      for (let head = 0; head < nHeads; head += 1) thumbnails.push(thumbnail(layer, head));
    }
    const large = html("figure", "head-large", undefined, holder);
    const title = html("figcaption", "", "", large);
    const stage = html("div", "head-stage", undefined, large);
    const canvas = html("canvas", "", undefined, stage);
    [canvas.width, canvas.height] = [nKeys, nQueries];
    const scale = html("p", "head-scale", "", large);
    const under = html("p", "chart-tip head-under", "", stage);
    under.hidden = true;
    const words = html("div", "head-words", undefined, holder); // beside the maps where there is room

    function thumbnail(layer, head) {
      const button = html("button", "head-thumbnail", undefined, grid);
      const small = html("canvas", "", undefined, button);
      [small.width, small.height] = [columns, rows];
      button.type = "button";
      button.tabIndex = layer + head === 0 ? 0 : -1; // one stop for all; arrow keys go on from there
      button.title = `${names.layer[layer]}, head ${names.head[head]}`;
      button.setAttribute("aria-label", button.title);
      button.addEventListener("click", () => onHead(layer, head));
      button.addEventListener("keydown", (event) => {
        const by = { ArrowUp: -nHeads, ArrowDown: nHeads, ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        const next = thumbnails[layer * nHeads + head + by];
        next?.button.focus();
        next?.button.click();
      });
      return { button, context: small.getContext("2d"), image: new ImageData(columns, rows) };
    }

    /** Largest root in each block of queries and keys; of short texts every one. */
    function drawSmall({ context, image }, roots, start) {
      const best = new Float32Array(rows * columns).fill(-1);
      for (let query = 0, at = start; query < nQueries; query += 1) {
        const line = Math.floor((query * rows) / nQueries) * columns;
        for (let key = 0; key < nKeys; key += 1, at += 1) {
          const block = line + Math.floor((key * columns) / nKeys);
          if (roots[at] > best[block]) best[block] = roots[at];
        }
      }
      image.data.fill(0);
      best.forEach((root, at) => { if (root >= 0) paint(image.data, at, root); });
      context.putImageData(image, 0, 0);
    }

    /** All heads of a sequence. @param {Float32Array} roots (layer, head, query, key), -1 where there is none */
    function draw(roots) {
      thumbnails.forEach((one, at) => drawSmall(one, roots, at * size));
    }

    /** One head in full. @param {Object} shown {layer, head, row, own: whether each row has a scale of its own, top: of the row chosen} */
    function enlarge(roots, { layer, head, row, own, top }) {
      const image = new ImageData(nKeys, nQueries);
      const start = (layer * nHeads + head) * size;
      for (let query = 0; query < nQueries; query += 1) {
        const line = roots.subarray(start + query * nKeys, start + (query + 1) * nKeys);
        const highest = own ? line.reduce((best, root) => Math.max(best, root), 0) || 1 : 1;
        line.forEach((root, key) => { if (root >= 0) paint(image.data, query * nKeys + key, root / highest); });
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
      large.style.setProperty("--row", `${(100 * (row + 0.5)) / nQueries}%`);
      thumbnails.forEach(({ button }, at) => button.setAttribute("aria-pressed", String(at === layer * nHeads + head)));
      title.textContent = `${names.layer[layer]}, head ${names.head[head]}: queries down, keys across`;
      scale.textContent = own ? `0 to the largest of each row (${Charts.format(top)} in the row marked)` : "0 to 1 in every row";
    }

    function cellAt(event) {
      const box = canvas.getBoundingClientRect();
      const place = (value, count) => Math.min(count - 1, Math.max(0, Math.floor(value * count)));
      return [place((event.clientY - box.top) / box.height, nQueries), place((event.clientX - box.left) / box.width, nKeys)];
    }

    /** Words beside the pointer, on the side where there is more of the map: they are seen wherever the map is. */
    function tell(event) {
      under.textContent = say(...cellAt(event));
      under.hidden = false;
      const box = stage.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      const [isRight, isLow] = [x > box.width / 2, y > box.height / 2];
      const at = (isHere, pixels) => (isHere ? `${pixels + GAP}px` : "auto");
      Object.assign(under.style, { left: at(!isRight, x), right: at(isRight, box.width - x), top: at(!isLow, y), bottom: at(isLow, box.height - y) });
    }
    canvas.addEventListener("pointermove", tell);
    canvas.addEventListener("pointerleave", () => { under.hidden = true; });
    canvas.addEventListener("click", (event) => onRow(cellAt(event)[0]));
    return { draw, enlarge, words };
  }

  return Object.freeze({ create });
})();

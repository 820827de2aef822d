/* Attention maps over a text: all heads as thumbnails that move with the player, one of them large, and the text itself with the
 * attention of one query over its tokens; the stronger the colour behind a token, the more attention it gets.
 *
 * Tokens are made once, a span each, and only their backgrounds change. Maps are unpacked look by look; between two of them the
 * page shows what lies between, and says so. A token whose query row was not kept can be seen but not chosen.
 */
const TokenText = (() => {
  "use strict";
  const { html } = ChartFrame;
  const MOST_MIXED = 1_000_000; // weights of a sequence that are mixed in a few milliseconds; of larger maps a look stays until the next

  /** What a token looks like in running text: spaces and breaks are made visible. */
  const visible = (token) => token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^\s+$/, (blank) => "␣".repeat(blank.length));

  function chooser(parent, name, labels, change) {
    const holder = html("label", "inline", `${name} `, parent);
    const select = html("select", "", undefined, holder);
    labels.forEach((label, index) => select.append(new Option(label, String(index))));
    select.addEventListener("change", () => change(Number(select.value)));
    holder.hidden = labels.length < 2;
    return select;
  }

  /** Square roots of weights, -1 where missing: of one look, or between two. */
  function mixed(roots, low, high, share) {
    const { SHADES } = Packed;
    for (let at = 0; at < roots.length; at += 1) {
      if (low[at] === 255) roots[at] = -1;
      else if (!high || high[at] === 255) roots[at] = low[at] / SHADES;
      else roots[at] = Math.sqrt((1 - share) * low[at] ** 2 + share * high[at] ** 2) / SHADES;
    }
  }

  /** @param {Element} container @param {Object} text see report/maps.py @param {string} filename for saving */
  function create(container, text, filename) {
    const figure = html("figure", "chart text-map", undefined, container);
    html("figcaption", "chart-title", text.title, figure);
    const [, nLayers, nHeads, nQueries, nKeys] = text.shape;
    const size = nLayers * nHeads * nQueries * nKeys; // of one sequence
    const roots = new Float32Array(size);
    const state = { sequence: 0, layer: 0, head: 0, row: nQueries - 1, look: text.looks.length - 1, share: 0, own: false };
    const maps = HeadMaps.create(figure, { names: text.names, nLayers, nHeads, nQueries, nKeys }, {
      onHead: choose, onRow: chooseRow, say: (row, key) => `${named(text.queries[row])} on ${named(key)}: ${Charts.format(weight(row, key))}`,
    });
    const controls = html("div", "controls", undefined, maps.words);
    const selects = {};
    for (const name of ["sequence", "layer", "head"]) {
      selects[name] = chooser(controls, name, text.names[name], (place) => {
        state[name] = place;
        if (name === "sequence") write();
        show();
      });
    }
    const own = html("input", "", undefined, html("label", "inline", "each row on its own scale ", controls));
    own.type = "checkbox";
    own.addEventListener("change", () => { state.own = own.checked; mark(); });
    const page = html("div", "tokens", undefined, maps.words);
    page.tabIndex = 0;
    page.setAttribute("role", "group");
    page.setAttribute("aria-label", "Text; choose a token, or use the arrow keys, to see what it attends to");
    const readout = html("p", "chart-readout", "", maps.words);
    const speak = ChartFrame.speaker(figure);
    html("p", "chart-caption", text.caption, figure);
    let spans = [];
    let asked = 0;

    const named = (place) => `token ${place} “${visible(text.tokens[state.sequence][place] ?? "")}”`;
    const rootAt = (row, key) => roots[((state.layer * nHeads + state.head) * nQueries + row) * nKeys + key];
    const weight = (row, key) => (rootAt(row, key) < 0 ? NaN : rootAt(row, key) ** 2);
    const weights = () => Array.from({ length: nKeys }, (_, key) => weight(state.row, key));

    function write() {
      const fragment = document.createDocumentFragment();
      const kept = new Set(text.queries);
      spans = text.tokens[state.sequence].map((token, place) => {
        const span = html("span", kept.has(place) ? "token" : "token absent", visible(token), fragment);
        span.dataset.place = String(place);
        return span;
      });
      page.replaceChildren(fragment);
    }

    /** Unpack what is needed, and draw all of it. */
    async function show() {
      asked += 1;
      const ticket = asked;
      const packs = [text.looks[state.look], state.share > 0 ? text.looks[state.look + 1] : null];
      const [low, high] = await Promise.all(packs.map((look) => look && Packed.shades(look.pack)));
      if (ticket !== asked) return; // a later wish has overtaken this one
      const from = state.sequence * size;
      mixed(roots, low.subarray(from, from + size), high?.subarray(from, from + size), state.share);
      maps.draw(roots);
      mark();
    }

    /** The head and the query that are chosen, large, in the text and in words. */
    function mark() {
      const query = text.queries[state.row];
      let [top, best] = [0, 0];
      for (let key = 0; key < nKeys; key += 1) if (rootAt(state.row, key) > top) [top, best] = [rootAt(state.row, key), key];
      for (let key = 0; key < nKeys; key += 1) {
        const root = Math.max(0, rootAt(state.row, key)) / (state.own ? top || 1 : 1);
        spans[key].style.setProperty("--weight", root.toFixed(3));
        if (spans[key].classList.contains("query") !== (key === query)) spans[key].classList.toggle("query", key === query);
      }
      maps.enlarge(roots, { ...state, top: top ** 2 });
      const found = `${named(query)} attends most to ${named(best)}: ${Charts.format(top ** 2)}`;
      speak(`${found}.`);
      readout.textContent = `${when()}: ${found}. The stronger the colour, the more attention.`;
    }

    /** Of which step the maps are. */
    function when() {
      const step = (look) => Charts.format(text.times[text.looks[look].moment], 6);
      return state.share > 0 ? `Between the maps of steps ${step(state.look)} and ${step(state.look + 1)}` : `Step ${step(state.look)}`;
    }

    function choose(layer, head) {
      [state.layer, state.head] = [Math.min(layer, nLayers - 1), Math.min(head, nHeads - 1)];
      [selects.layer.value, selects.head.value] = [String(state.layer), String(state.head)];
      mark();
    }

    function chooseRow(row) {
      state.row = Math.min(nQueries - 1, Math.max(0, row));
      mark();
    }

    page.addEventListener("click", (event) => {
      const place = event.target.dataset?.place;
      if (place === undefined) return;
      const row = text.queries.indexOf(Number(place));
      if (row >= 0) chooseRow(row);
      else readout.textContent = `There is no map of ${named(Number(place))} as a query: ${nQueries} of ${nKeys} query rows are kept, underlined in the text.`;
    });
    page.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      chooseRow(state.row + by);
    });
    figure.classList.toggle("has-gaps", nQueries < nKeys);
    write();
    show();
    const rows = () => weights().map((one, key) => [key, text.tokens[state.sequence][key], Stills.rounded([one])[0]]);
    return {
      element: figure,
      /** Show a time: a look, or what lies between two. */
      at(time) {
        const times = text.looks.map((look) => text.times[look.moment]);
        const look = Stills.momentAt(times, time);
        const share = size <= MOST_MIXED ? Stills.shareOf(times, look, time) : 0;
        if (look !== state.look || share !== state.share) { Object.assign(state, { look, share }); show(); }
      },
      choose,
      toCSV: () => ChartSave.csv([["key", "token", "attention"], ...rows()]),
      toSVG() {
        const away = document.createElement("div");
        const axes = { x: { label: "token" }, y: { label: "attention", min: 0, max: 1 } };
        const groups = [{ name: filename, values: weights() }];
        const bars = Charts.bars(away, { title: readout.textContent, ...axes, labels: text.tokens[state.sequence], groups });
        const source = bars.toSVG();
        bars.destroy();
        return source;
      },
    };
  }

  return Object.freeze({ create });
})();

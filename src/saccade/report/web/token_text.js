/* A text with the attention of one query over its tokens: the stronger the colour behind a token, the more attention it gets.
 *
 * Tokens are made once, a span each, and only their backgrounds change; of 1024 tokens that is a few milliseconds. Maps are unpacked
 * look by look. The query row that is shown is the kept one nearest to the token that was chosen.
 */
const TokenText = (() => {
  "use strict";
  const { html } = ChartFrame;

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

  /** @param {Element} container @param {Object} text see report/maps.py @param {string} filename for saving */
  function create(container, text, filename) {
    const figure = html("figure", "chart text-map", undefined, container);
    html("figcaption", "chart-title", text.title, figure);
    const controls = html("div", "controls", undefined, figure);
    const [, nLayers, nHeads, nQueries, nKeys] = text.shape;
    const state = { sequence: 0, layer: 0, head: 0, row: nQueries - 1, look: text.looks.length - 1 };
    const weights = new Float32Array(nKeys);
    const selects = {};
    for (const name of ["sequence", "layer", "head"]) {
      selects[name] = chooser(controls, name, text.names[name], (place) => {
        state[name] = place;
        if (name === "sequence") write();
        show();
      });
    }
    const page = html("div", "tokens", undefined, figure);
    page.tabIndex = 0;
    page.setAttribute("role", "group");
    page.setAttribute("aria-label", "Text; choose a token, or use the arrow keys, to see what it attends to");
    const readout = html("p", "chart-readout", "", figure);
    const speak = ChartFrame.speaker(figure);
    html("p", "chart-caption", text.caption, figure);
    let spans = [];
    let asked = 0;

    function write() {
      const fragment = document.createDocumentFragment();
      spans = text.tokens[state.sequence].map((token, place) => {
        const span = html("span", "token", visible(token), fragment);
        span.dataset.place = String(place);
        return span;
      });
      page.replaceChildren(fragment);
    }

    const distance = (row, place) => Math.abs(text.queries[row] - place);
    const rowNearest = (place) => text.queries.reduce((best, _, row) => (distance(row, place) < distance(best, place) ? row : best), 0);

    async function show() {
      asked += 1;
      const ticket = asked;
      const look = text.looks[state.look];
      const shades = await Packed.shades(look.pack);
      if (ticket !== asked) return; // a later wish has overtaken this one
      const start = (((state.sequence * nLayers + state.layer) * nHeads + state.head) * nQueries + state.row) * nKeys;
      const query = text.queries[state.row];
      let [largest, best] = [0, 0];
      for (let key = 0; key < nKeys; key += 1) {
        const shade = shades[start + key];
        weights[key] = shade === 255 ? NaN : (shade / Packed.SHADES) ** 2;
        if (weights[key] > largest) [largest, best] = [weights[key], key];
        const span = spans[key];
        span.style.setProperty("--weight", shade === 255 ? "0" : (shade / Packed.SHADES).toFixed(3));
        if (span.classList.contains("query") !== (key === query)) span.classList.toggle("query", key === query);
      }
      const named = (place) => `token ${place} “${visible(text.tokens[state.sequence][place] ?? "")}”`;
      const found = `${named(query)} attends most to ${named(best)}: ${Charts.format(largest)}`;
      speak(`${found}.`);
      readout.textContent = `Step ${Charts.format(text.times[look.moment], 6)}: ${found}. The stronger the colour, the more attention.`;
    }

    page.addEventListener("click", (event) => {
      const place = event.target.dataset?.place;
      if (place === undefined) return;
      state.row = rowNearest(Number(place));
      show();
    });
    page.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      state.row = Math.min(nQueries - 1, Math.max(0, state.row + by));
      show();
    });
    write();
    show();
    const rows = () => Array.from(weights, (weight, key) => [key, text.tokens[state.sequence][key], Stills.rounded([weight])[0]]);
    return {
      element: figure,
      /** Show the last look that is not after a time. */
      at(time) {
        let look = 0;
        text.looks.forEach((other, index) => { if (text.times[other.moment] <= time) look = index; });
        if (look !== state.look) { state.look = look; show(); }
      },
      choose(layer, head) {
        [state.layer, state.head] = [Math.min(layer, nLayers - 1), Math.min(head, nHeads - 1)];
        [selects.layer.value, selects.head.value] = [String(state.layer), String(state.head)];
        show();
      },
      toCSV: () => ChartSave.csv([["key", "token", "attention"], ...rows()]),
      toSVG() {
        const away = document.createElement("div");
        const axes = { x: { label: "token" }, y: { label: "attention", min: 0, max: 1 } };
        const groups = [{ name: filename, values: Array.from(weights) }];
        const bars = Charts.bars(away, { title: readout.textContent, ...axes, labels: text.tokens[state.sequence], groups });
        const source = bars.toSVG();
        bars.destroy();
        return source;
      },
    };
  }

  return Object.freeze({ create });
})();

/* One record over time: a choice of record and run, and all its plots, moved by the player. Two views stand side by side to compare. */
const View = (() => {
  "use strict";
  const { html } = ChartFrame;

  function select(parent, name, labels, place, change) {
    const holder = html("label", "inline", `${name} `, parent);
    const list = html("select", "", undefined, holder);
    labels.forEach((label, index) => list.append(new Option(label, String(index))));
    list.value = String(place);
    list.addEventListener("change", () => change(Number(list.value)));
    return list;
  }

  /** Axes of choice of all figures of a record, each once. */
  function choicesOf(record) {
    const axes = new Map();
    for (const figure of record.figures.filter((other) => other.kind !== "heads")) {
      for (const choice of figure.choices) if (!axes.has(choice.axis)) axes.set(choice.axis, choice.labels);
    }
    return axes;
  }

  /**
   * @param {Element} container @param {Object[]} records @param {{record: number, choice: Object<string, number>}} start
   * @param {(record: Object, choice: Object<string, number>, stay: boolean) => void} onClock called when another clock is chosen: with a
   *   record, or with another run of it, and then the time may stay
   * @param {boolean} isShared whether a chart has axes for all records
   */
  function create(container, records, start, onClock = () => {}, isShared = false) {
    const element = html("div", "view", undefined, container);
    const controls = html("div", "controls", undefined, element);
    const choices = html("div", "controls"); // of lines; below the maps and heads of a watched run, which show all of them
    const plots = html("div", "plots", undefined, element);
    const state = { record: start.record, choice: { ...start.choice } };
    let shown = [];
    const stop = Player.listen((time) => shown.forEach((plot) => plot.at(time)));

    const places = (figure) => figure.choices.map((choice) => state.choice[choice.axis] ?? 0);

    /** The same figure of every record, where they share axes; none where cells or nothing else is drawn. */
    async function family({ name, kind }) {
      if (!isShared || !["line", "bars"].includes(kind)) return [];
      const found = records.flatMap((record) => record.figures.filter((other) => other.name === name && other.kind === kind));
      return Promise.all(found.map(Stills.load));
    }

    /** A record with several clocks is listed once for each. */
    const names = () => records.map(({ title, result, clockLabel }) => (records.filter((one) => one.result === result).length > 1
      ? `${title}, by ${clockLabel.split(",")[0]}` : title));

    function writeControls() {
      controls.replaceChildren();
      choices.replaceChildren();
      if (records.length > 1) {
        select(controls, "Record", names(), state.record, (place) => {
          show(place);
          onClock(records[place], state.choice, false);
        });
      }
      for (const [axis, labels] of choicesOf(records[state.record])) {
        if (labels.length < 2) continue;
        select(choices, axis.replaceAll("_", " "), labels, state.choice[axis] ?? 0, (place) => {
          state.choice[axis] = place;
          shown.forEach((plot) => plot.again());
          const record = records[state.record];
          if (record.clockAxes.includes(axis)) onClock(record, state.choice, true);
        });
      }
    }

    /** A chart of lines, bars or cells that follows the time and the choice. */
    async function chart(place, figure, record) {
      const [loaded, all] = await Promise.all([Stills.load(figure), family(figure)]);
      if (!place.isConnected) return;
      const axes = () => (all.length > 1 ? Stills.sharedAxes(all.map((one) => Stills.still(one, places(one.figure), 0))) : {});
      const times = () => Stills.timesOf(loaded, places(figure));
      const moment = () => Stills.momentAt(times(), Player.time());
      const spec = () => ({ ...Stills.still(loaded, places(figure), moment(), Stills.bandsOf(record, state.choice)), ...axes() });
      const handle = Charts[figure.kind](place, spec());
      Charts.saveMenu(handle, `${record.name}-${figure.name}`);
      let last = -1;
      const plot = {
        at(time) {
          if (figure.kind === "line") return handle.cursor(time);
          const next = moment();
          const share = Stills.shareOf(times(), next, time);
          if (next + share !== last) handle.update(Stills.moving(loaded, places(figure), next, share));
          last = next + share;
          return undefined;
        },
        again() { handle.update(spec()); last = -1; plot.at(Player.time()); },
      };
      shown.push(plot);
      plot.at(Player.time());
    }

    async function heads(place, figure, record, choose) {
      const loaded = await Stills.load(figure);
      if (!place.isConnected) return;
      const handle = Heads.create(place, loaded, choose);
      Charts.saveMenu(handle, `${record.name}-heads`);
      const times = await Packed.array(figure.time);
      const at = (time) => handle.at(Stills.momentAt(times, time));
      shown.push({ at, again() {} });
      at(Player.time());
    }

    function write() {
      const record = records[state.record];
      shown = [];
      writeControls();
      plots.replaceChildren();
      const text = { handle: null };
      const choose = (layer, head) => text.handle?.choose(layer, head);
      if (record.text) textMap(record, text);
      const first = record.text ? record.figures.findIndex((figure) => figure.kind !== "heads") : -1;
      if (first < 0) plots.before(choices);
      for (const [index, figure] of record.figures.entries()) {
        if (index === first) plots.append(choices);
        const place = html("div", `plot plot-${figure.kind}`, undefined, plots);
        place.dataset.figure = figure.name;
        Figures.whenSeen(place, () => (figure.kind === "heads" ? heads(place, figure, record, choose) : chart(place, figure, record)));
      }
    }

    function textMap(record, text) {
      const place = html("div", "plot plot-text", undefined, plots);
      Figures.whenSeen(place, () => {
        text.handle = TokenText.create(place, record.text, record.name);
        Charts.saveMenu(text.handle, `${record.name}-text`);
        shown.push({ at: text.handle.at, again() {} });
        text.handle.at(Player.time());
      });
    }

    /** Another record, with the first of its runs. @param {number} place */
    function show(place) {
      [state.record, state.choice] = [place, {}];
      write();
    }

    write();
    return {
      element,
      state,
      show,
      destroy() { stop(); element.remove(); },
    };
  }

  return Object.freeze({ create, choicesOf });
})();

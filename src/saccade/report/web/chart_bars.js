/* A bar chart: groups of bars over named places, side by side or stacked, with theory's values as outlines.
 *
 * One path for each colour of a group, so that an update at every frame is a few attributes. With more bars than pixels one stands for several
 * and shows the highest.
 */
const ChartBars = (() => {
  "use strict";
  const { extent, scale, format } = ChartScales;
  const { svg, text, html } = ChartFrame;
  const MOST_BARS = 1500; // more than a wide screen's columns
  const COMMON = 6; // the grey of what all share; ink would hide the other bars of a stack

  const looks = (group, place) => ChartFrame.looks(group.tone === null ? { tone: COMMON } : group, place);

  /** The colours of a group's bars, each with the places that have it: one for all unless each has a tone of its own. */
  function coloursOf(group, index) {
    if (!group.tones) return [{ ...looks(group, index), places: null }];
    const found = new Map();
    group.tones.forEach((tone, at) => {
      const look = ChartFrame.looks(tone ?? group, index);
      const key = JSON.stringify(look);
      if (!found.has(key)) found.set(key, { ...look, places: new Set() });
      found.get(key).places.add(at);
    });
    return [...found.values()];
  }

  /** Where each bar of a stacked group begins: on those before it, upwards above zero and downwards below. */
  function feet(groups) {
    const [up, down] = [[], []];
    return groups.map(({ values }) => Array.from(values, (value, at) => {
      const stack = value < 0 ? down : up;
      const foot = stack[at] ?? 0;
      stack[at] = foot + (Number.isFinite(value) ? value : 0);
      return foot;
    }));
  }

  /** Path of bars from the base line, or from where each one's foot stands. */
  function path(values, place, y, box, foot) {
    const step = Math.max(1, Math.ceil(values.length / MOST_BARS));
    const within = (value) => Math.min(box.bottom, Math.max(box.top, y(value)));
    let line = "";
    for (let at = 0; at < values.length; at += step) {
      const value = step === 1 ? values[at] : Math.max(...Array.from(values.slice(at, at + step)).filter(Number.isFinite));
      if (!Number.isFinite(value)) continue;
      const start = foot ? foot[at] : Math.max(0, y.domain[0]);
      const top = within(foot ? start + value : value);
      const [left, base, width] = [place.left(at), within(start), place.width * step].map((pixel) => pixel.toFixed(1));
      line += `M${left} ${base}V${top.toFixed(1)}h${width}V${base}`;
    }
    return line;
  }

  /** @param {Element} container @param {Object} given see charts.js */
  function create(container, given) {
    let spec = { levels: [], ...given };
    let drawn = null;
    const frame = ChartFrame.create(container, spec, () => { drawn = null; draw(); });
    const tip = html("div", "chart-tip", undefined, frame.stage);
    const ghostName = () => spec.ghostName ?? "theory";
    tip.hidden = true;

    function domain() {
      const values = spec.groups.flatMap((group) => (group.ghost ? [group.values, group.ghost] : [group.values]));
      const ends = spec.stacked ? feet(spec.groups).map((foot, index) => foot.map((value, at) => value + (spec.groups[index].values[at] ?? 0))) : [];
      const [low, high] = extent([...values, ...ends, spec.levels.map((level) => level.y)], false);
      return [spec.y.min ?? Math.min(0, low), spec.y.max ?? Math.max(0, high)];
    }

    function entries() {
      const items = spec.groups.length === 1 && spec.groups[0].tones ? spec.roles ?? [] : [...spec.groups, ...spec.roles ?? []];
      const shown = items.map((group, index) => ({ ...group, ...looks(group, index), box: true, ghost: false }));
      const shaded = spec.groups.flatMap(({ shade }, index) => (shade === undefined ? [] : [index]));
      const between = shaded.length > 4 ? shaded.slice(1, -1) : []; // of many from light to dark the first and the last are named
      const groups = ChartFrame.named(shown.filter((_, index) => !between.includes(index)), spec.title);
      if (spec.groups.some((group) => group.ghost)) groups.push({ name: ghostName(), index: 0, box: true, ghost: true });
      return [...groups, ...spec.levels.map(({ label }) => ({ name: label, isLevel: true })).filter(({ name }) => name)]; // beside its line it would lie on bars
    }

    function drawAxes(limits) {
      const { width, height, picture } = frame;
      picture.replaceChildren();
      const shown = entries();
      const listed = shown.length > 0 && spec.legend !== false;
      const legendHeight = listed ? ChartFrame.legend(svg("g", {}, picture), shown, 2, width - 8) : 0;
      const box = { top: legendHeight + 24, right: width - 8, bottom: height - 38, left: 0 };
      const y = scale(limits, [box.bottom, box.top]);
      const ticks = y.ticks(Math.max(2, (box.bottom - box.top) / 34));
      box.left = ChartFrame.roomFor(ticks.map((tick) => format(tick)));
      const under = svg("g", {}, picture);
      ChartFrame.yAxis(under, y, box, spec.y.label, ticks, format);
      const slot = (box.right - box.left) / Math.max(1, spec.labels.length);
      const x = (at) => box.left + (at + 0.5) * slot;
      const room = staggered(slot) ? 2 * slot : slot;
      const letters = Math.max(2, Math.floor(labelRoom(room) / ChartFrame.LETTER));
      const places = labelled(slot, room);
      const row = (at) => (staggered(slot) ? places.indexOf(at) % 2 : 0);
      ChartFrame.xAxis(under, x, box, spec.x.label, places, (at) => ChartFrame.shortened(spec.labels[at], letters), row);
      const bars = spec.groups.map((group, index) => shapes(picture, coloursOf(group, index)));
      ChartFrame.levels(svg("g", {}, picture), spec.levels.map((level) => ({ ...level, label: "" })), y, box);
      drawn = { key: axesKey(limits), y, box, slot, bars };
    }

    const labelRoom = (slot) => Math.max(slot, ChartFrame.roomAlong(spec.labels)) - 2;
    /** Names that are wider than their bars stand in two rows, where the axis' own name leaves room for them. */
    const staggered = (slot) => !spec.x.label && spec.labels.length > 1 && spec.labels.some((name) => 1.1 * ChartFrame.widthOf(name) > slot - 4);
    const labelled = (slot, room) => {
      const step = Math.ceil((labelRoom(room) + 2) / room);
      return Array.from({ length: Math.ceil(spec.labels.length / step) }, (_, index) => index * step);
    };

    function shapes(parent, colours) {
      const parts = colours.map(({ index, colour, opacity, places }) => {
        const bar = svg("path", { class: `chart-fill-${index % 8}` }, parent);
        if (colour) bar.style.fill = colour;
        ChartFrame.faded({ opacity }, bar);
        return { bar, places };
      });
      return { parts, ghost: svg("path", { class: "chart-ghost" }, parent) };
    }

    const axesKey = (limits) => JSON.stringify([limits, frame.width, spec.labels, spec.levels, spec.x, spec.y,
      spec.groups.map(({ name, colour, tone, tones, shade, ghost }) => [name, colour, tone, tones, shade, Boolean(ghost)])]);

    function draw() {
      const limits = domain();
      if (!drawn || drawn.key !== axesKey(limits)) drawAxes(limits);
      const { y, box, slot, bars } = drawn;
      const gap = slot > 8 ? slot * 0.16 : 0;
      const width = (slot - gap) / (spec.stacked ? 1 : Math.max(1, spec.groups.length));
      const stacks = spec.stacked ? feet(spec.groups) : [];
      spec.groups.forEach((group, index) => {
        const place = { left: (at) => box.left + at * slot + gap / 2 + (spec.stacked ? 0 : index * width), width };
        for (const { bar, places } of bars[index].parts) {
          const own = places ? Array.from(group.values, (value, at) => (places.has(at) ? value : null)) : group.values;
          bar.setAttribute("d", path(own, place, y, box, stacks[index]));
        }
        bars[index].ghost.setAttribute("d", group.ghost ? path(group.ghost, place, y, box) : "");
      });
      frame.describe(spec, summary());
    }

    const about = () => `${spec.y.label} over ${spec.labels.length} of ${spec.x.label}`;
    const summary = () => [about(), ...spec.groups.slice(0, 12).map(highest)].join("; ");
    function highest(group) {
      const best = group.values.reduce((found, value, at) => (value > (group.values[found] ?? -Infinity) ? at : found), 0);
      return `${group.name} is highest at ${spec.labels[best] ?? "none"}, ${format(group.values[best])}`;
    }

    function showTip(event) {
      const place = frame.picture.getBoundingClientRect();
      const pixel = event.clientX - place.left;
      const at = Math.floor((pixel - drawn.box.left) / drawn.slot);
      tip.hidden = !(at >= 0 && at < spec.labels.length);
      if (tip.hidden) return;
      const beside = (group) => (group.ghost ? ` (${ghostName()} ${format(group.ghost[at])})` : "");
      const row = (group) => `${group.name}: ${format(group.values[at])}${beside(group)}`;
      tip.textContent = [ChartFrame.shortened(spec.labels[at], 40), ...spec.groups.slice(0, 12).map(row)].join("\n");
      tip.style.top = `${drawn.box.top}px`;
      tip.style.left = pixel > place.width / 2 ? "auto" : `${pixel + 12}px`;
      tip.style.right = pixel > place.width / 2 ? `${place.width - pixel + 12}px` : "auto";
    }
    frame.picture.addEventListener("pointermove", showTip);
    frame.picture.addEventListener("pointerleave", () => { tip.hidden = true; });
    frame.redraw();

    function table() {
      const ghosts = (group) => (group.ghost ? [[`${group.name} (${ghostName()})`, group.ghost]] : []);
      const columns = spec.groups.flatMap((group) => [[group.name, group.values], ...ghosts(group)]);
      const body = spec.labels.map((label, at) => [label, ...columns.map(([, values]) => values[at])]);
      return [[spec.x.label, ...columns.map(([name]) => name)], ...body];
    }
    return {
      element: frame.figure,
      update(partial) { spec = { ...spec, ...partial }; draw(); },
      cursor() {},
      toSVG: () => ChartSave.toSVG(frame.picture, spec.title ?? ""),
      toCSV: () => ChartSave.csv(table()),
      destroy: frame.remove,
    };
  }

  return Object.freeze({ create });
})();

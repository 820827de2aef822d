/* The controls of one model, built from its fields: sliders, whole numbers, choices, and the law's bars.
 *
 * A logarithmic slider moves in the logarithm of its value. Every change gives back the whole settings, already within limits.
 */
const Controls = (() => {
  "use strict";
  const { html } = ChartFrame;
  const LOG_STEPS = 200; // positions of a logarithmic slider over its whole range

  function toSlider(field, value) {
    if (field.kind !== "log") return value;
    return Math.round((LOG_STEPS * Math.log(value / field.low)) / Math.log(field.high / field.low));
  }

  function fromSlider(field, position) {
    if (field.kind !== "log") return Number(position);
    const value = field.low * (field.high / field.low) ** (position / LOG_STEPS);
    return Math.min(field.high, Math.max(field.low, Number(value.toPrecision(field.whole ? 1 : 2))));
  }

  function range(field, input) {
    const limits = field.kind === "log" ? [0, LOG_STEPS, 1] : [field.low, field.high, field.kind === "count" ? 1 : field.step];
    [input.min, input.max, input.step] = limits.map(String);
  }

  /** A label, its control and the value beside it. */
  function labelled(parent, field, control) {
    const line = html("div", "control", undefined, parent);
    control.id = `field-${field.name}`;
    const label = html("label", "control-label", field.label, line);
    label.htmlFor = control.id;
    const value = html("output", "control-value", "", line);
    value.htmlFor = control.id;
    line.append(control);
    return { line, value };
  }

  function slider(parent, field, onValue) {
    const input = html("input");
    input.type = "range";
    range(field, input);
    const { line, value } = labelled(parent, field, input);
    input.addEventListener("input", () => onValue(fromSlider(field, input.value)));
    return {
      line,
      show(next) {
        input.value = String(toSlider(field, next));
        value.textContent = Charts.format(next);
        input.setAttribute("aria-valuetext", Charts.format(next));
      },
    };
  }

  function choice(parent, field, onValue) {
    const select = html("select");
    for (const [name, words] of field.choices) html("option", "", words, select).value = name;
    const { line } = labelled(parent, field, select);
    select.addEventListener("change", () => onValue(select.value));
    return { line, show(next) { select.value = next; } };
  }

  /** The law's editor, made anew when the number of bars changes. */
  function lawEditor(parent, field, onValue, model) {
    const line = html("div", "control control-law", undefined, parent);
    html("span", "control-label", field.label, line);
    const place = html("div", "law", undefined, line);
    let editor = null;
    let shape = "";
    function rows(settings) {
      return settings.law.map((_, n) => {
        const title = model === "scan-and-snap" ? `Class ${Laws.className(n)}` : "Law of the tokens";
        const where = model === "scan-and-snap" ? ` in class ${Laws.className(n)}` : "";
        return { title, names: Laws.rowNames(model, settings, n), describe: (name) => `Chance of token ${name}${where}` };
      });
    }
    return {
      line,
      show(next, settings) {
        const now = JSON.stringify([Laws.shape(model, settings), settings.common]);
        if (now !== shape) editor = LawEditor.create(place, rows(settings), onValue);
        shape = now;
        editor.show(next);
      },
    };
  }

  /**
   * @param {Element} container @param {string} model @param {(settings: Object) => void} onChange
   * @returns {{show(settings: Object, options?: {lawFixed: boolean}): void}}
   */
  function create(container, model, onChange) {
    let settings = null;
    container.replaceChildren();
    const groups = new Map();
    function groupOf(name) {
      if (!groups.has(name)) {
        const group = html("fieldset", "control-group", undefined, container);
        html("legend", "", name, group);
        groups.set(name, group);
      }
      return groups.get(name);
    }
    function changed(field, value) {
      settings = { ...settings, [field.name]: value };
      if (field.shape) settings.law = Laws.fitting(model, settings);
      show(settings);
      onChange(settings);
    }
    const made = Fields.BY_MODEL[model].map((field) => {
      const make = { law: lawEditor, choice }[field.kind] ?? slider;
      return { field, ...make(groupOf(field.group), field, (value) => changed(field, value), model) };
    });
    let fixed = false; // a record on the page brings its own data and start
    function show(next, options) {
      settings = next;
      fixed = options?.lawFixed ?? fixed;
      for (const { field, line, show: showOne } of made) {
        showOne(settings[field.name], settings);
        line.hidden = Boolean(field.when && !field.when(settings));
      }
      for (const [name, group] of groups) group.hidden = fixed && name !== "Learning";
    }
    return { show };
  }

  return Object.freeze({ create });
})();

/* The controls of one model, built from its fields: sliders, whole numbers, choices, words, and the law's bars.
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

  /** Words that are typed: taken as soon as they can be read, answered with a sentence below until then. */
  function words(parent, field, onValue, model) {
    const box = html("details", "control control-words", undefined, parent);
    html("summary", "control-label", field.label, box);
    const area = html("textarea", "", undefined, box);
    Object.assign(area, { id: `field-${field.name}`, rows: model === "scan-and-snap" ? 3 : 1, spellcheck: false, maxLength: 400 });
    area.setAttribute("aria-label", field.label);
    const hint = html("p", "hint", field.hint, box);
    hint.id = `hint-${field.name}`;
    area.setAttribute("aria-describedby", hint.id);
    const back = html("button", "", "Back to the page's words", box);
    back.type = "button";
    back.addEventListener("click", () => onValue(""));
    area.addEventListener("input", () => {
      const text = Words.oneLine(area.value);
      hint.textContent = field.hint;
      try {
        if (text) Words.of(model, { words: text });
        onValue(text);
      } catch (error) {
        hint.textContent = error.message;
      }
    });
    return {
      line: box,
      show(next, settings) {
        back.hidden = !next;
        if (document.activeElement !== area) area.value = next ? next.replaceAll("; ", "\n") : Words.typed(model, settings);
      },
    };
  }

  /** The law's editor, made anew when the number of bars changes. */
  function lawEditor(parent, field, onValue, model) {
    const line = html("div", "control control-law", undefined, parent);
    html("span", "control-label", field.label, line);
    const place = html("div", "law", undefined, line);
    let editor = null;
    let shape = "";
    function rows(settings) {
      const { rows: names, answers } = Words.of(model, settings);
      return names.map((row, n) => {
        const where = answers[n] ? ` before ${answers[n]}` : "";
        const tones = Tones.ofLaw(settings.law[n], row.map((word) => Words.isCommonIn(names, word)));
        return { title: answers[n] ? `before “${answers[n]}”` : "Law of the words", names: row, tones, describe: (name) => `Chance of ${name}${where}` };
      });
    }
    return {
      line,
      show(next, settings) {
        const now = JSON.stringify(Words.of(model, settings));
        if (now !== shape) editor = LawEditor.create(place, rows(settings), onValue);
        shape = now;
        editor.show(next, rows(settings).map((row) => row.tones));
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
      settings = field.name === "optimiser" ? Fields.withOptimiser(model, settings, value) : { ...settings, [field.name]: value };
      if (field.shape) settings.law = Laws.fitting(model, settings);
      show(settings);
      onChange(settings);
    }
    const made = Fields.BY_MODEL[model].map((field) => {
      const make = { law: lawEditor, text: words, choice }[field.kind] ?? slider;
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

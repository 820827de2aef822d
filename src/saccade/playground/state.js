/* The state of the page in the link after #, so that a view can be shared.
 *
 * Only what differs from the defaults, or from the settings of the story that is told, is written. A link is untrusted: every value is checked against its limits, a bad one is left
 * at its default and answered with one sentence. The version says how a link is read; another version is not guessed at.
 *
 * A state: {model, settings: {model: values}, speed, time, row, story}
 */
const State = (() => {
  "use strict";
  const VERSION = "2"; // 1 had other defaults, which its links leave out
  const LONGEST = 4000; // characters; the longest link the page writes has about 600
  const digits = (value) => String(Number(value.toPrecision(4)));

  function defaults() {
    const settings = Object.fromEntries(Fields.MODELS.map((model) => [model, Fields.defaults(model)]));
    return { model: Fields.MODELS[0], settings, speed: 1, time: 0, row: 0, story: "" };
  }

  const lawText = (law) => law.map((row) => row.map((chance) => chance.toFixed(4)).join(",")).join(";");
  const numberRead = (text) => (text.trim() === "" ? NaN : Number(text));
  const lawRead = (text) => text.split(";").map((row) => row.split(",").map(numberRead));

  function fieldText(field, value) {
    if (field.kind === "law") return lawText(value);
    if (field.kind === "text") return encodeURIComponent(Words.oneLine(value));
    return field.kind === "choice" ? value : digits(value);
  }

  /** @param {Object} state @returns {string} what stands after # */
  function encode(state) {
    const { model } = state;
    const values = state.settings[model];
    const story = Stories.byName(state.story);
    const usual = story ? Stories.settings(story) : Fields.defaults(model, values.optimiser);
    const first = story ? usual.optimiser : Fields.defaults(model).optimiser;
    const parts = [["v", VERSION], ["model", model], ...(story ? [["story", story.name]] : [])];
    for (const field of Fields.BY_MODEL[model]) {
      const plain = { law: story ? usual.law : Laws.fitting(model, values), optimiser: first }[field.name] ?? usual[field.name];
      const text = fieldText(field, values[field.name]);
      if (text !== fieldText(field, plain)) parts.push([field.name, text]);
    }
    if (state.speed !== 1) parts.push(["speed", digits(state.speed)]);
    if (state.row) parts.push(["row", String(state.row)]);
    if (state.time > 0) parts.push(["time", String(Number(state.time.toPrecision(6)))]);
    return parts.map(([key, value]) => `${key}=${value}`).join("&");
  }

  const plainText = (text) => `“${text.length > 40 ? `${text.slice(0, 39)}…` : text}”`;

  function allowed({ kind, choices, low, high }) {
    if (kind === "choice") return `one of ${choices.map(([value]) => value).join(", ")}`;
    return `${kind === "count" ? "a whole number" : "a number"} from ${low} to ${high}`;
  }

  /** The value of one field, or undefined with a sentence in `complaints`. */
  function readField(field, text, complaints) {
    const value = ["choice", "text"].includes(field.kind) ? text : numberRead(text);
    if (Fields.allows(field, value)) return value;
    complaints.push(`The link's ${field.label.toLowerCase()} ${plainText(text)} is not ${allowed(field)}; the default is used.`);
    return undefined;
  }

  function pairsOf(hash, complaints) {
    const pairs = new Map();
    for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
      const [key, ...rest] = part.split("=");
      try {
        pairs.set(decodeURIComponent(key), decodeURIComponent(rest.join("=")));
      } catch {
        complaints.push(`The link has a part that cannot be read, ${plainText(part)}; it is left out.`);
      }
    }
    return pairs;
  }

  /** @param {string} hash @returns {{state: Object, complaints: string[]}} a whole state, whatever came */
  function decode(hash) {
    const complaints = [];
    const state = defaults();
    if (hash.replace(/^#/, "") === "") return { state, complaints };
    const refused = (why) => ({ state, complaints: [`The link ${why}; the defaults are used.`] });
    if (hash.length > LONGEST) return refused(`is longer than ${LONGEST} characters, which no link of this page is`);
    const pairs = pairsOf(hash, complaints);
    const version = pairs.get("v") ?? (pairs.size === 1 && pairs.has("story") ? VERSION : "none"); // a story alone means the same in all
    if (version !== VERSION) return refused(`is of version ${plainText(version)}, this page reads version ${VERSION}`);
    pairs.delete("v");
    readStory(pairs, state, complaints);
    readModel(pairs, state, complaints);
    readSettings(pairs, state, complaints);
    readView(pairs, state, complaints);
    const unknown = (key) => `The link has a setting ${plainText(key)} that this page does not know; it is left out.`;
    complaints.push(...[...pairs.keys()].map(unknown));
    return { state, complaints };
  }

  function taken(pairs, key) {
    const value = pairs.get(key);
    pairs.delete(key);
    return value;
  }

  function readStory(pairs, state, complaints) {
    const story = taken(pairs, "story");
    if (story === undefined || Stories.byName(story)) state.story = story ?? "";
    else complaints.push(`The link's story ${plainText(story)} is not one of this page's; none is shown.`);
  }

  function readModel(pairs, state, complaints) {
    const story = Stories.byName(state.story);
    if (story) pairs.set("model", story.model); // a story has its own
    const model = taken(pairs, "model");
    if (model === undefined || Fields.MODELS.includes(model)) {
      state.model = model ?? state.model;
      return;
    }
    complaints.push(`The link's model ${plainText(model)} is not one of ${Fields.MODELS.join(", ")}; ${state.model} is shown.`);
  }

  function readSettings(pairs, state, complaints) {
    const fields = Fields.BY_MODEL[state.model];
    const chosen = fields.find((field) => field.name === "optimiser");
    const optimiser = Fields.allows(chosen, pairs.get("optimiser")) ? pairs.get("optimiser") : undefined;
    const story = Stories.byName(state.story);
    const values = state.settings[state.model] = story ? Stories.settings(story) : Fields.defaults(state.model, optimiser);
    for (const field of fields.filter(({ name, kind }) => kind !== "law" && pairs.has(name))) {
      values[field.name] = readField(field, taken(pairs, field.name), complaints) ?? values[field.name];
    }
    readWords(state.model, values, complaints);
    if (!story) values.law = Laws.fitting(state.model, values);
    const text = taken(pairs, "law");
    if (text === undefined) return;
    const shape = Laws.shape(state.model, values);
    const law = Laws.checked(lawRead(text), shape);
    const rows = `${shape.length} row${shape.length > 1 ? "s" : ""} of ${[...new Set(shape)].join(" or ")} chances`;
    if (law) values.law = law;
    else complaints.push(`The link's law ${plainText(text)} is not ${rows} that each add up to 1; the default is used.`);
  }

  function readWords(model, values, complaints) {
    try {
      Words.of(model, values);
    } catch (error) {
      complaints.push(error.message);
      values.words = "";
    }
  }

  function readView(pairs, state, complaints) {
    const values = state.settings[state.model];
    const rows = state.model === "scan-and-snap" ? values.law.length : values.law[0].length;
    const view = [
      { name: "speed", kind: "number", label: "Speed", low: Fields.SPEEDS[0], high: Fields.SPEEDS.at(-1) },
      { name: "row", kind: "count", label: "Shown row", low: 0, high: rows - 1 },
      { name: "time", kind: "number", label: "Time", low: 0, high: Fields.lastTime(values) },
    ];
    for (const field of view.filter(({ name }) => pairs.has(name))) {
      state[field.name] = readField(field, taken(pairs, field.name), complaints) ?? state[field.name];
    }
    state.speed = Fields.SPEEDS.findLast((speed) => speed <= state.speed); // the menu's own, at or below what the link says
  }

  return Object.freeze({ VERSION, defaults, encode, decode });
})();

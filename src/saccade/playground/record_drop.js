/* A record exported by Python, dropped onto the page or picked with a button.
 *
 * The file is untrusted. It is parsed as JSON, never run; sizes are bounded before anything is built from it; every number is
 * checked; names become text nodes only. Whatever is wrong is said in one sentence and the page stays as it was.
 *
 * {"saccade": "playground-record", "model", "settings", "time": [], "attention": [time][row][token], "loss"?: [],
 *  "singularValues"?: [time][], "tokens"?: [names]}
 */
const RecordDrop = (() => {
  "use strict";
  const MOST_BYTES = 30e6; // 2000 times of 8 classes and 100 tokens, written out, is half of it
  const MOST_TIMES = 5000;
  const MOST_ROWS = 100;
  const MOST_TOKENS = 2000; // as in settings_checks.js
  const MOST_CELLS = 2e6; // numbers of attention in all
  const MOST_PLACES = 20000; // rows times tokens: the run keeps them at every sample, here in 64 MB
  const NAME_LENGTH = 40;
  const ROUNDING = 1e-6; // by which a share may leave 0 to 1: single precision adds up to that
  const DYNAMICS = ["lrDecoder", "lrAttention", "optimiser", "momentum"];

  function need(fine, sentence) {
    if (!fine) throw new Error(`The record is not shown: ${sentence}.`);
  }

  const numbers = (list) => Array.isArray(list) && list.every((value) => typeof value === "number" && Number.isFinite(value));

  function parsed(text) {
    try {
      return JSON.parse(text);
    } catch {
      throw new Error("The record is not shown: the file is not JSON (numbers that are NaN or infinite are not JSON either).");
    }
  }

  function checkedTimes(time) {
    need(numbers(time) && time.length > 0, "`time` must be a list of numbers");
    need(time.length <= MOST_TIMES, `it has ${time.length} times, at most ${MOST_TIMES} can be drawn`);
    need(time.every((one, at) => one >= 0 && (at === 0 || one > time[at - 1])), "`time` must start at 0 or later and grow");
    return time;
  }

  function checkedAttention(attention, nTimes) {
    const lists = (value, length) => Array.isArray(value) && value.length === length;
    need(lists(attention, nTimes), `\`attention\` must have one entry for each of the ${nTimes} times`);
    const [rows, tokens] = [attention[0]?.length, attention[0]?.[0]?.length];
    const [few, small] = [rows > 0 && rows <= MOST_ROWS && tokens > 0 && tokens <= MOST_TOKENS, rows * tokens <= MOST_PLACES];
    need(few, `\`attention\` may have up to ${MOST_ROWS} rows of up to ${MOST_TOKENS} tokens`);
    const fitting = small && nTimes * rows * tokens <= MOST_CELLS;
    need(fitting, `\`attention\` may have ${MOST_PLACES} numbers at a time, ${MOST_CELLS} in all`);
    const fits = (row) => lists(row, tokens) && numbers(row) && row.every((share) => share >= -ROUNDING && share <= 1 + ROUNDING);
    const good = attention.every((one) => lists(one, rows) && one.every(fits));
    need(good, "`attention` must hold rows of one length, with numbers from 0 to 1");
    return attention;
  }

  function checkedSeries(name, list, nTimes) {
    if (list === undefined || list === null) return null;
    need(numbers(list) && list.length === nTimes, `\`${name}\` must have one number for each time`);
    return list;
  }

  function checkedValues(list, nTimes) {
    if (list === undefined || list === null) return null;
    const fits = Array.isArray(list) && list.length === nTimes && list.every((row) => numbers(row) && row.length <= MOST_TOKENS);
    need(fits, "`singularValues` must have one list of numbers for each time");
    return list;
  }

  function checkedNames(names, nTokens) {
    if (names === undefined || names === null) return null;
    need(Array.isArray(names) && names.length === nTokens, `\`tokens\` must have one name for each of the ${nTokens} tokens`);
    return names.map((name) => String(name).slice(0, NAME_LENGTH));
  }

  /** Settings go to the engine, which checks them; here only what would make it large before it could. */
  function checkedSettings(settings) {
    need(settings !== null && typeof settings === "object" && !Array.isArray(settings), "`settings` must be an object");
    need(settings.nVocab === undefined || settings.nVocab <= MOST_TOKENS, `\`nVocab\` may be ${MOST_TOKENS} at most`);
    return settings;
  }

  /** @param {string} text of the file @returns {Object} {model, settings, time, samples, names}; or throws one sentence */
  function read(text) {
    const content = parsed(text);
    need(content?.saccade === "playground-record", "it is not an export for the playground (`saccade` is not `playground-record`)");
    need(Fields.MODELS.includes(content.model), `\`model\` must be one of ${Fields.MODELS.join(", ")}`);
    const settings = checkedSettings(content.settings);
    const time = checkedTimes(content.time);
    const attention = checkedAttention(content.attention, time.length);
    const loss = checkedSeries("loss", content.loss, time.length);
    const values = checkedValues(content.singularValues, time.length);
    const names = checkedNames(content.tokens, attention[0][0].length);
    const sample = (one, at) => ({ time: one, attention: attention[at], loss: loss?.[at] ?? null, singularValues: values?.[at] });
    const samples = time.map(sample);
    return { model: content.model, settings, time, samples, names };
  }

  /** Whether the live run begins where the record did: a start that was drawn by Python is only known if the record holds it. */
  function hasStart({ model, settings }) {
    return Boolean(settings.start) || (model === "scan-and-snap" && (settings.init ?? "zero") === "zero");
  }

  const shown = (value) => String(value).slice(0, 20);

  /** Rates, optimiser and end of a record as the controls can show them, and a sentence for each that they cannot. */
  function dynamics({ model, settings, time }, now) {
    const complaints = [];
    const fitting = { optimiser: "flow" }; // the engine's own, where a record names none
    for (const field of Fields.BY_MODEL[model].filter(({ name }) => DYNAMICS.includes(name) && settings[name] !== undefined)) {
      const { name, label } = field;
      const value = settings[name];
      if (Fields.allows(field, value)) fitting[name] = value;
      else complaints.push(`${label} of the record, ${shown(value)}, is outside this page's limits; the run has ${now[name]}.`);
    }
    const end = Fields.BY_MODEL[model].find(({ name }) => name === "end");
    return { fitting: { ...fitting, end: Math.min(end.high, Math.max(end.low, time.at(-1))) }, complaints };
  }

  async function readFile(file) {
    const millions = Math.round(file.size / 1e6);
    need(file.size <= MOST_BYTES, `the file has ${millions} million bytes, at most ${MOST_BYTES / 1e6} are read`);
    return read(await file.text());
  }

  /**
   * @param {{zone: Element, input: HTMLInputElement, onRecord: (record: Object, name: string) => void,
   *   onError: (sentence: string) => void}} places
   */
  function listen({ zone, input, onRecord, onError }) {
    async function take(file) {
      if (!file) return;
      try {
        onRecord(await readFile(file), String(file.name).slice(0, 60));
      } catch (error) {
        onError(error.message);
      }
    }
    input.addEventListener("change", () => { take(input.files[0]); input.value = ""; });
    zone.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("dropping"); });
    zone.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("dropping");
      take(event.dataTransfer.files[0]);
    });
  }

  return Object.freeze({ read, hasStart, dynamics, listen });
})();

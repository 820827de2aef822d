/* The page: one state, and what follows from it.
 *
 * Whatever changes the state ends in a new run or a new view, and in the link. A record on the page brings its own data and start,
 * which are not in the link: a file cannot be shared that way.
 */
const Page = (() => {
  "use strict";
  const { html } = ChartFrame;
  const at = (id) => document.getElementById(id);
  const LINK_DELAY = 200; // milliseconds; Chromium allows 200 changes in 30 seconds, Safari 100

  let state = State.defaults();
  let run = null;
  let view = null;
  let controls = null;
  let record = null; // {model, settings, time, samples, names}
  let names = [];
  let waiting = 0; // the frame in which changed settings make a new run
  let linking = 0; // the timer after which the link is written
  let passed = ""; // the last onset announced
  const player = Player.create({ onMove: moved, onState: stateChanged });
  const stories = StoryPanel.create({ list: at("stories"), panel: at("story") }, { onTell: tell, onLeave: () => leaveStory() });

  const values = () => state.settings[state.model];

  function say(sentences) {
    at("messages").replaceChildren(...sentences.map((sentence) => html("p", "", sentence)));
    if (!sentences.length) return;
    const close = html("button", "", "Close", at("messages"));
    close.type = "button";
    close.addEventListener("click", () => say([]));
  }

  /** The state goes to the link, with the player's time; a little later, as browsers allow only so many changes of an address. */
  function keepLink() {
    state.time = run && player.shown > 0 ? run.times[player.shown] : 0;
    linking ||= setTimeout(writeLink, LINK_DELAY);
  }

  function writeLink() {
    clearTimeout(linking);
    linking = 0;
    history.replaceState(null, "", `#${State.encode(state)}`);
  }

  function showTabs() {
    for (const tab of document.querySelectorAll("[role=tab]")) {
      const chosen = tab.dataset.model === state.model;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) at("panel").setAttribute("aria-labelledby", tab.id);
    }
  }

  function showControls() {
    const { model } = state;
    if (controls?.model !== model) controls = { model, ...Controls.create(at("controls"), model, changed) };
    controls.show(values(), { lawFixed: Boolean(record) });
    at("speed").value = String(state.speed);
    player.setSpeed(state.speed);
    for (const id of ["record-shown", "record-key"]) at(id).hidden = !record;
  }

  /** A new run from the state; a setting the engine refuses is said, and the old run stays. */
  function restart(time = 0) {
    try {
      run = LiveRun.create(state.model, values(), record?.settings);
    } catch (error) {
      say([error.message]);
      return false;
    }
    const numbered = () => run.seen[0].attention[0].map((_, token) => `${token}`);
    names = record ? record.names ?? numbered() : Laws.tokenNames(state.model, values());
    state.row = Math.min(state.row, run.seen[0].attention.length - 1);
    passed = "";
    at("moment").max = String(run.times.length - 1);
    at("theory-note").textContent = TheoryView.note(run);
    showRows();
    makeView();
    player.load(run, time > 0 ? run.indexOf(time) : 0);
    return true;
  }

  function makeView() {
    view?.destroy();
    view = RunView.create({ bars: at("bars"), lines: at("lines") }, run, record, names, state.row);
  }

  function showRows() {
    const word = RunView.WORDS[state.model];
    const rows = Math.min(run.seen[0].attention.length, RunView.MOST_ROWS);
    at("row").replaceChildren(...Array.from({ length: rows }, (_, n) => {
      const option = html("option", "", `${word.row} ${word.name(n, names, record)}`);
      option.value = String(n);
      return option;
    }));
    at("row").value = String(state.row);
  }

  function moved(shown) {
    view.draw(shown);
    const seen = run.seen[shown];
    at("moment").value = String(shown);
    at("moment").setAttribute("aria-valuetext", `time ${Charts.format(seen.time)}`);
    const time = `time ${Charts.format(seen.time)} of ${Charts.format(run.times.at(-1))}`;
    const facts = [time, `loss ${Charts.format(seen.loss)}`, TheoryView.stage(run, seen.time)];
    at("numbers").textContent = facts.filter(Boolean).join(" · ");
    stories.follow(TheoryView.times(run), seen.time);
    announceOnset(seen.time);
    if (run.stopped && shown >= run.seen.length - 1) say([`The run ended at time ${Charts.format(seen.time)}: ${run.stopped}.`]);
    if (!player.playing) keepLink();
  }

  function announceOnset(time) {
    const mark = TheoryView.marks(run).filter((one) => one.x <= time).at(-1)?.words ?? "";
    if (mark && mark !== passed) at("announce").textContent = `Passed: ${mark}, at time ${Charts.format(time)}.`;
    passed = mark;
  }

  function stateChanged(playing) {
    at("play").textContent = playing ? "Pause" : "Play";
    if (!playing && run) {
      keepLink();
      at("announce").textContent = `Paused at time ${Charts.format(run.times[player.shown])}.`;
    }
  }

  /** A drag changes settings many times in a frame: the last one counts. */
  function changed(settings) {
    state.settings[state.model] = settings;
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      leaveStory(false);
      say([]);
      restart();
    });
  }

  function leaveStory(keep = true) {
    state.story = "";
    stories.show(null);
    if (keep) keepLink();
  }

  function tell(story) {
    record = null;
    state.model = story.model;
    state.settings[story.model] = Stories.settings(story);
    Object.assign(state, { speed: 1, row: 0, story: story.name });
    say([]);
    showAll();
    player.play();
    at("story").scrollIntoView({ block: "nearest" });
  }

  function showAll(time = 0) {
    cancelAnimationFrame(waiting);
    waiting = 0;
    showTabs();
    showControls();
    stories.show(Stories.byName(state.story));
    restart(time);
  }

  function openLink(link) {
    const { state: read, complaints } = State.decode(link);
    state = read;
    record = null;
    say(complaints);
    showAll(state.time);
  }

  function chooseModel(model) {
    if (model === state.model) return;
    Object.assign(state, { model, story: "", row: 0 });
    record = null;
    showAll();
  }

  function chooseSpeed() {
    state.speed = Number(at("speed").value);
    player.setSpeed(state.speed);
    keepLink();
  }

  function chooseRow() {
    state.row = Number(at("row").value);
    makeView();
    view.draw(player.shown);
    keepLink();
  }

  function forget() {
    state = { ...State.defaults(), model: state.model };
    record = null;
    say([]);
    showAll();
  }

  /** A record's data and start go to the engine as they are, its rates and end to the controls. */
  function takeRecord(next, filename) {
    const before = { state: structuredClone(state), record };
    record = next;
    state.model = next.model;
    const { fitting, complaints } = RecordDrop.dynamics(next, values());
    state.settings[next.model] = { ...values(), ...fitting };
    Object.assign(state, { row: 0, story: "" });
    if (!fitsRecord()) {
      ({ state, record } = before);
      return;
    }
    say(complaints);
    const taken = RecordDrop.hasStart(next) ? "data and start" : "data";
    at("record-name").textContent = `Shown: ${filename}. The run takes its ${taken} from the record.`;
    showAll();
  }

  /** Whether the engine takes the record's settings and gives rows and tokens as the record has them; says so if not. */
  function fitsRecord() {
    try {
      const { seen } = LiveRun.create(state.model, values(), record.settings);
      const size = (rows) => `${rows.length} rows of ${rows[0].length} tokens`;
      const [live, kept] = [size(seen[0].attention), size(record.samples[0].attention)];
      if (live === kept) return true;
      say([`The record is not shown: its settings make ${live}, its attention has ${kept}.`]);
    } catch (error) {
      say([`The record is not shown: ${error.message}`]);
    }
    return false;
  }

  async function share() {
    writeLink();
    try {
      await navigator.clipboard.writeText(location.href);
      at("share-answer").textContent = "The link is in the clipboard.";
    } catch {
      at("share-link").hidden = false;
      at("share-link").value = location.href;
      at("share-link").select();
      at("share-answer").textContent = "Copy the link from the field below.";
    }
  }

  function listen() {
    for (const speed of Fields.SPEEDS) html("option", "", `${speed}×`, at("speed")).value = String(speed);
    at("play").addEventListener("click", () => (player.playing ? player.pause() : player.play()));
    at("step").addEventListener("click", () => player.step());
    at("reset").addEventListener("click", () => player.goTo(0));
    at("moment").addEventListener("input", () => player.goTo(Number(at("moment").value)));
    at("speed").addEventListener("change", chooseSpeed);
    at("row").addEventListener("change", chooseRow);
    at("defaults").addEventListener("click", forget);
    at("share").addEventListener("click", share);
    at("record-remove").addEventListener("click", () => { record = null; showAll(); });
    at("skip").addEventListener("click", (event) => { event.preventDefault(); at("play").focus(); });
    window.addEventListener("hashchange", (event) => openLink(new URL(event.newURL).hash));
    const answers = { onRecord: takeRecord, onError: (sentence) => say([sentence]) };
    RecordDrop.listen({ zone: document.body, input: at("record-file"), ...answers });
    listenToTabs();
  }

  function listenToTabs() {
    const tabs = [...document.querySelectorAll("[role=tab]")];
    tabs.forEach((tab, index) => {
      tab.addEventListener("click", () => chooseModel(tab.dataset.model));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(index + step + tabs.length) % tabs.length];
        next.focus();
        chooseModel(next.dataset.model);
      });
    });
  }

  listen();
  openLink(location.hash);
  return Object.freeze({
    /** What the page shows now, for tests and for the console. */
    get state() { return structuredClone(state); },
    get run() { return run; },
    get link() {
      writeLink();
      return location.hash;
    },
    get shown() { return player.shown; },
    get playing() { return player.playing; },
    /** Whether the run is that of the state, and nothing will move by itself any more. */
    get settled() { return waiting === 0 && player.settled; },
  });
})();

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

  const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

  let state = State.defaults();
  let run = null;
  let view = null;
  let controls = null;
  let record = null; // {model, settings, time, samples, names}
  let waiting = 0; // the frame in which changed settings make a new run
  let linking = 0; // the timer after which the link is written
  let passed = ""; // the last stage announced
  let far = false; // whether the curves further down are on the screen
  const player = Player.create({ onMove: moved, onState: stateChanged, onLoad: loaded, onGrow: grown });
  const timeline = Timeline.create(at("timeline"), { onSeek: (place) => player.goTo(place) });
  const lists = new Map([...document.querySelectorAll("[data-stories]")].map((list) => [list.dataset.stories, list]));
  const stories = StoryPanel.create({ lists, caption: at("caption"), next: at("next") }, { onTell: tell });

  const recording = Recording.create({ stage: document.querySelector(".stage"), from: at("caption"), to: at("timeline") });

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
    state.time = run && player.place > 0 ? Moments.at(run, player.place).time : 0;
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

  /** A new run from the state, to be shown at a time; a setting the engine refuses is said, and the old run stays. */
  function restart(time = 0) {
    try {
      const next = LiveRun.create(state.model, values(), record?.settings);
      player.load(next, time === Infinity ? next.times.length - 1 : next.placeOf(time));
    } catch (error) {
      say([error.message]);
      return false;
    }
    return true;
  }

  /** Where the page is, for a run that takes over: at the end it stays at the end. */
  function timeNow() {
    if (!run || player.place <= 0) return 0;
    return player.place >= run.times.length - 1 ? Infinity : Moments.at(run, player.place).time;
  }

  /** What is shown: the run with the names of its tokens and classes. */
  function shown() {
    const numbered = () => run.seen[0].attention[0].map((_, token) => `${token}`);
    const { rows, answers } = record ? { rows: [], answers: [] } : Words.of(state.model, values());
    const names = record ? record.names ?? numbered() : Words.tokens(rows);
    return { run, record, names, answers, row: state.row };
  }

  /** The player has a new run at its place: the page shows it. */
  function loaded(next) {
    run = next;
    state.row = Math.min(state.row, run.seen[0].attention.length - 1);
    passed = "";
    at("moment").max = String(run.times.length - 1);
    at("theory-note").textContent = TheoryView.note(run);
    timeline.load(run);
    showRows();
    if (view?.fits(shown())) view.load(shown());
    else makeView();
  }

  function makeView() {
    view?.destroy();
    view = RunView.create({ picture: at("picture"), key: at("key"), linear: at("linear"), lines: at("lines") }, shown());
  }

  /** The run is known further ahead. */
  function grown() {
    timeline.grow();
    if (!run.done) return;
    view.grow();
    if (!player.playing) view.draw(player.place, true);
  }

  function showRows() {
    const rows = Math.min(run.seen[0].attention.length, RunView.MOST_ROWS);
    const names = Array.from({ length: rows }, (_, n) => `${RunView.ROWS[state.model]} ${RunView.rowName(shown(), n)}`);
    if (names.join() !== [...at("row").options].map((option) => option.textContent).join()) {
      at("row").replaceChildren(...names.map((name, n) => Object.assign(html("option", "", name), { value: String(n) })));
    }
    at("row").value = String(state.row);
  }

  function moved(place) {
    view.draw(place, far || !player.playing);
    timeline.draw(place);
    const { time, loss } = Moments.at(run, place);
    at("moment").value = String(Math.floor(place));
    at("moment").setAttribute("aria-valuetext", `time ${Charts.format(time)}`);
    at("now").textContent = `time ${Charts.format(time)} of ${Charts.format(run.times.at(-1))}`;
    at("loss").textContent = `loss ${Charts.format(loss)}`;
    const stage = TheoryView.stages(run).findLast((one) => one.at <= time);
    at("picture").classList.toggle("is-snapped", stage?.name === "snapped");
    stories.follow(TheoryView.times(run), time, stage?.say ?? "");
    announce(stage, time);
    if (run.stopped && place >= run.seen.length - 1) say([`The run ended at time ${Charts.format(time)}: ${run.stopped}.`]);
    if (!player.playing) keepLink();
  }

  function announce(stage, time) {
    if (stage && passed && stage.name !== passed) at("announce").textContent = `Passed: ${stage.name}, at time ${Charts.format(time)}.`;
    passed = stage?.name ?? "";
  }

  function stateChanged(playing) {
    at("play").textContent = playing ? "Pause" : "Play";
    if (!playing && run) {
      view?.draw(player.place, true);
      keepLink();
      at("announce").textContent = `Paused at time ${Charts.format(Moments.at(run, player.place).time)}.`;
    }
  }

  /** A drag changes settings many times in a frame: the last one counts. One that is still on its way to its place comes first. */
  function changed(settings) {
    state.settings[state.model] = settings;
    showDynamics();
    waiting ||= requestAnimationFrame(change);
  }

  function change() {
    waiting = player.isComing ? requestAnimationFrame(change) : 0;
    if (waiting) return;
    leaveStory();
    say([]);
    restart(timeNow());
    keepLink();
  }

  function leaveStory() {
    state.story = "";
    stories.show(null);
  }

  function tell(story) {
    record = null;
    state.model = story.model;
    state.settings[story.model] = Stories.settings(story);
    Object.assign(state, { speed: 1, row: 0, story: story.name });
    say([]);
    showAll();
    player.play();
  }

  function showAll(time = 0) {
    cancelAnimationFrame(waiting);
    waiting = 0;
    player.pause();
    showTabs();
    showControls();
    showDynamics();
    stories.show(Stories.byName(state.story));
    restart(time);
  }

  /** The switch between the theory's own flow and plain descent. */
  function showDynamics() {
    at("dynamics").hidden = state.model !== "scan-and-snap";
    for (const button of at("dynamics").children) {
      button.setAttribute("aria-pressed", String(button.dataset.optimiser === values().optimiser));
    }
  }

  function chooseDynamics(optimiser) {
    changed(Fields.withOptimiser(state.model, values(), optimiser));
    controls.show(values());
  }

  /** What a link says is shown; without one, or with only a story, the story is told. */
  function openLink(link) {
    const { state: read, complaints } = State.decode(link);
    state = read;
    record = null;
    say(complaints);
    const bare = link.replace(/^#/, "") === "";
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (bare) state.story = Stories.ALL[0].name;
    showAll(state.time);
    if (state.story && state.time === 0 && !still) player.play();
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
    view.grow();
    view.draw(player.place, true);
    keepLink();
  }

  function forget() {
    state = { ...State.defaults(), model: state.model, story: "" };
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
      at("share-answer").textContent = `The link is in the clipboard.${whereItOpens()}`;
    } catch {
      at("share-link").hidden = false;
      at("share-link").value = location.href;
      at("share-link").select();
      at("share-answer").textContent = `Copy the link from the field below.${whereItOpens()}`;
    }
  }

  /** A film of the whole run at the speed that is chosen; the button says how far it is. */
  async function filmRun() {
    const button = at("record");
    const name = button.textContent;
    button.disabled = true;
    player.pause();
    try {
      run.advance(run.times.length - 1, Infinity);
      const film = await recording.film(player.seconds, (share) => {
        player.showShare(share);
        button.textContent = `● ${Math.round(100 * share)} %`;
      });
      ChartSave.download(film, `saccade-${state.story || state.model}.webm`);
      at("announce").textContent = "The film is in your downloads.";
    } catch (error) {
      say([`The film could not be made: ${error.message}`]);
    }
    button.textContent = name;
    button.disabled = false;
  }

  /** A warning where others cannot follow the link. */
  function whereItOpens() {
    if (LOOPBACK.includes(location.hostname)) {
      return " It opens on this computer only: for others write the page to a file with `saccade play --out one.html`, and send that.";
    }
    return location.protocol === "file:" ? " It points to a file on this computer: send the file along." : "";
  }

  /** Space plays, but where a key has its own meaning. */
  function pressed(event) {
    if (event.key !== " " || event.target.closest("button, a, select, textarea, summary, input:not([type=range]), .chart-stage")) return;
    event.preventDefault();
    at("play").click();
  }

  let sized = "";
  /** Charts fit the stage: a window of another size gets new ones. */
  function resized() {
    const size = `${innerWidth} ${innerHeight}`;
    if (!run || size === sized) return;
    sized = size;
    makeView();
    view.grow();
    view.draw(player.place, true);
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
    at("record").hidden = !Recording.works();
    at("record").addEventListener("click", filmRun);
    at("record-remove").addEventListener("click", () => { record = null; showAll(); });
    at("dynamics").addEventListener("click", (event) => {
      const { optimiser } = event.target.dataset;
      if (optimiser) chooseDynamics(optimiser);
    });
    document.addEventListener("keydown", pressed);
    sized = `${innerWidth} ${innerHeight}`;
    window.addEventListener("resize", resized);
    new IntersectionObserver((entries) => { far = entries.at(-1).isIntersecting; }).observe(at("lines"));
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
    get shown() { return Math.floor(player.place); },
    get place() { return player.place; },
    get playing() { return player.playing; },
    /** Whether the run is that of the state, and nothing will move by itself any more. */
    get settled() { return waiting === 0 && player.settled; },
  });
})();

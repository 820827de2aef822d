/* Play, pause, step, reset: where the page is in a run, as a place among its samples that grows with the clock.
 *
 * A whole run takes twelve seconds at speed 1, most of them where attention moves (pace.js). The run is computed ahead in what a
 * frame has left; the player never goes past what is known. A new run takes over at the same place, once it has come there: until
 * then the old one stays on the page. With reduced motion nothing glides: playing moves on by a twentieth of the samples, and rests.
 */
const Player = (() => {
  "use strict";
  const WHOLE_RUN = 12; // seconds at speed 1
  const BUDGET = 8; // milliseconds of a frame for the engine while it plays; the drawing needs some of the other 8
  const BUDGET_STILL = 30; // and while nothing moves
  const PATIENCE = 1.5; // seconds that playing waits for a run to be known to its end, and so for its pace
  const REST = 0.8; // seconds between two moves with reduced motion
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");

  /** @param {{onMove: (place: number) => void, onState: (playing: boolean) => void, onLoad: (run: Object) => void, onGrow: () => void}} listeners */
  function create({ onMove, onState, onLoad, onGrow }) {
    let run = null;
    let coming = null; // {run, place}: takes over when it has come to its place
    let pace = [0];
    let [place, shown, known] = [0, -1, 0];
    let [playing, speed, frame, last, waited] = [false, 1, 0, 0, 0];

    const end = () => run.times.length - 1;
    function setPlaying(next) {
      if (playing === next) return;
      playing = next;
      onState(playing);
    }
    function wake() {
      if (!frame) frame = requestAnimationFrame(tick);
    }

    function takeOver() {
      const reached = coming.run.advance(Math.ceil(coming.place), BUDGET_STILL);
      if (reached < Math.ceil(coming.place) && !coming.run.stopped) return;
      run = coming.run;
      place = Math.min(coming.place, reached);
      [coming, shown, known, waited] = [null, -1, 0, 0];
      onLoad(run);
    }

    /** Computes ahead; what has been seen decides the pace. */
    function lookAhead() {
      if (!run.done) run.advance(end(), playing && waited > PATIENCE ? BUDGET : BUDGET_STILL);
      if (known === run.seen.length) return;
      known = run.seen.length;
      pace = Pace.shares(run.way);
      onGrow();
    }

    /** Where the clock has taken us since the last frame. */
    function moved(now) {
      // A page that slept does not jump, and a frame may be older than the click that started it.
      const seconds = Math.min(0.25, Math.max(0, now - last) / 1000);
      if (reduced.matches) {
        if ((now - last) / 1000 < REST / speed) return place;
        last = now;
        return place + Math.ceil(end() / 20);
      }
      last = now;
      if (!run.done && waited <= PATIENCE) {
        waited += seconds;
        return place;
      }
      const share = Math.min(1, Pace.shareAt(pace, place) + (seconds * speed) / WHOLE_RUN);
      return Math.max(place, Pace.placeAt(pace, share));
    }

    function tick(now) {
      frame = 0;
      if (coming) takeOver();
      if (!run) return wake();
      if (!coming) lookAhead();
      if (playing && !coming) place = Math.min(run.seen.length - 1, moved(now));
      show();
      if (playing && run.done && place >= run.seen.length - 1) setPlaying(false);
      if (playing || coming || !run.done) wake();
      return undefined;
    }

    function show() {
      const next = Math.min(place, run.seen.length - 1);
      if (next === shown || (next < place && !run.done)) return;
      shown = next;
      onMove(shown);
    }

    return {
      /** A new run, shown at a place; what plays goes on playing. */
      load(next, at = 0) {
        coming = { run: next, place: at };
        wake();
      },
      play() {
        if (run && !coming && place >= end()) place = 0;
        last = performance.now();
        setPlaying(true);
        wake();
      },
      pause() { setPlaying(false); },
      goTo(at) {
        setPlaying(false);
        const last = (coming?.run ?? run).times.length - 1;
        place = Math.min(last, Math.max(0, at));
        if (coming) coming.place = place; // a run on its way comes there
        wake();
      },
      /** On by a hundredth of the run. */
      step() { this.goTo(Math.floor(this.place) + Math.ceil(end() / 100)); },
      /** Shows the moment at which so much of the playing time is over, at once. The run must be known to its end. */
      showShare(share) {
        lookAhead();
        place = Pace.placeAt(pace, share);
        show();
      },
      get seconds() { return WHOLE_RUN / speed; },
      setSpeed(next) { speed = next; },
      get playing() { return playing; },
      get isComing() { return coming !== null; },
      /** Whether nothing will move by itself any more. */
      get settled() { return !playing && frame === 0; },
      get place() { return Math.max(0, shown); },
    };
  }

  return Object.freeze({ create });
})();

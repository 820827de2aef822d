/* Play, pause, step, reset: where the page is in a run, as a sample number that grows with the clock.
 *
 * A whole run takes ten seconds at speed 1. When the engine is slower than the clock the player waits for it. With reduced motion
 * nothing glides: playing moves on by a twentieth of the run, and rests between.
 */
const Player = (() => {
  "use strict";
  const WHOLE_RUN = 10; // seconds at speed 1
  const BUDGET = 9; // milliseconds of a frame for the engine; at 60 frames a second the drawing needs some of the other 7
  const REST = 0.8; // seconds between two moves with reduced motion
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");

  /** @param {{onMove: (shown: number) => void, onState: (playing: boolean) => void}} listeners */
  function create({ onMove, onState }) {
    let run = null;
    let target = 0;
    let playing = false;
    let shown = -1;
    let frame = 0;
    let last = 0;
    let speed = 1;

    function setPlaying(next) {
      if (playing === next) return;
      playing = next;
      onState(playing);
    }
    const end = () => run.times.length - 1;

    /** How far the clock has taken us since the last frame. */
    function elapsed(now) {
      // A page that slept does not jump, and a frame may be older than the click that started it.
      const seconds = Math.min(0.25, Math.max(0, now - last) / 1000);
      if (!reduced.matches) {
        last = now;
        return (seconds * speed * end()) / WHOLE_RUN;
      }
      if ((now - last) / 1000 < REST / speed) return 0;
      last = now;
      return Math.ceil(end() / 20);
    }

    function tick(now) {
      frame = 0;
      if (playing && run.seen.length > Math.floor(target)) target = Math.min(end(), target + elapsed(now));
      const goal = Math.floor(target);
      const reached = run.advance(goal, BUDGET);
      if (playing && !reduced.matches) target = Math.min(target, reached + 1);
      if (reached >= goal || run.stopped || !reduced.matches) move(Math.min(goal, reached)); // without motion: not on the way there
      if (run.stopped) target = reached;
      if (playing && (shown >= end() || run.stopped)) setPlaying(false);
      if (playing || shown < Math.floor(target)) wake();
    }

    function move(next) {
      if (next === shown) return;
      shown = next;
      onMove(shown);
    }
    function wake() {
      if (!frame) frame = requestAnimationFrame(tick);
    }

    return {
      /** A new run, shown at a sample. */
      load(next, at = 0) {
        setPlaying(false);
        [run, target, shown] = [next, at, -1];
        wake();
      },
      play() {
        if (shown >= end()) target = 0;
        last = performance.now();
        setPlaying(true);
        wake();
      },
      pause() { setPlaying(false); },
      goTo(at) {
        setPlaying(false);
        target = Math.min(end(), Math.max(0, at));
        wake();
      },
      /** On by a hundredth of the run. */
      step() { this.goTo(this.shown + Math.ceil(end() / 100)); },
      setSpeed(next) { speed = next; },
      get playing() { return playing; },
      /** Whether nothing will move by itself any more. */
      get settled() { return !playing && frame === 0; },
      get shown() { return Math.max(0, shown); },
    };
  }

  return Object.freeze({ create });
})();

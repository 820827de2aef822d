/* Bars of a law that can be dragged, and moved with the keyboard: each bar is a vertical slider.
 *
 * Arrow keys move by a hundredth, page keys by a tenth, Home and End to the ends. Dragging follows the pointer's height in the bar.
 */
const LawEditor = (() => {
  "use strict";
  const { html } = ChartFrame;
  const SMALL = 0.01;
  const LARGE = 0.1;

  /** Where a key takes a chance; undefined for a key that is not ours. */
  function afterKey(key, chance) {
    return {
      ArrowUp: chance + SMALL, ArrowRight: chance + SMALL, ArrowDown: chance - SMALL, ArrowLeft: chance - SMALL,
      PageUp: chance + LARGE, PageDown: chance - LARGE, Home: 0, End: 1,
    }[key];
  }

  function bar(parent, name, label, onValue) {
    const slider = html("div", "law-bar", undefined, parent);
    const track = html("div", "law-track", undefined, slider);
    const fill = html("div", "law-fill", undefined, track);
    const value = html("span", "law-value", "", slider);
    html("span", "law-name", name, slider);
    const limits = { "aria-valuemin": "0", "aria-valuemax": "1" };
    const given = { role: "slider", tabindex: "0", "aria-label": label, "aria-orientation": "vertical", ...limits };
    for (const [key, content] of Object.entries(given)) slider.setAttribute(key, content);
    let chance = 0;

    function follow(event) {
      const place = track.getBoundingClientRect();
      onValue((place.bottom - event.clientY) / place.height);
    }
    slider.addEventListener("pointerdown", (event) => {
      slider.setPointerCapture(event.pointerId);
      slider.focus();
      follow(event);
      event.preventDefault();
    });
    slider.addEventListener("pointermove", (event) => { if (slider.hasPointerCapture(event.pointerId)) follow(event); });
    slider.addEventListener("keydown", (event) => {
      const next = afterKey(event.key, chance);
      if (next === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      onValue(next);
    });
    return (next, tone) => {
      chance = next;
      fill.className = `law-fill law-tone-${tone}`;
      fill.style.height = `${(100 * next).toFixed(2)}%`;
      value.textContent = next.toFixed(next < 0.0995 ? 3 : 2);
      slider.setAttribute("aria-valuenow", next.toFixed(4));
      slider.setAttribute("aria-valuetext", `${(100 * next).toFixed(1)} percent`);
    };
  }

  /**
   * @param {Element} container @param {{title: string, names: string[], describe: (name: string) => string}[]} rows
   * @param {(law: number[][]) => void} onChange
   * @returns {{show(law: number[][], tones: number[][]): void}} tones: numbers of the bars' colours
   */
  function create(container, rows, onChange) {
    let [law, tones] = [[], rows.map((row) => row.tones)];
    container.replaceChildren();
    const setters = rows.map((row, n) => {
      const line = html("div", "law-row", undefined, container);
      line.setAttribute("role", "group");
      line.setAttribute("aria-label", row.title);
      if (rows.length > 1) html("span", "law-title", row.title, container.insertBefore(html("div", ""), line));
      return row.names.map((name, at) => bar(line, name, row.describe(name), (value) => {
        law = law.map((chances, m) => (m === n ? Laws.moved(chances, at, value) : chances));
        show(law);
        onChange(law);
      }));
    });
    function show(next, nextTones = tones) {
      [law, tones] = [next, nextTones];
      setters.forEach((line, n) => line.forEach((set, at) => set(next[n][at], tones[n][at])));
    }
    return { show };
  }

  return Object.freeze({ create });
})();

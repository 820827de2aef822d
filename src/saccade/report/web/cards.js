/* Cards of results: a picture each, and when one is opened its figure, its record over time and its claims.
 *
 * There is one player and one view over time; they move to the card that was opened last.
 */
const Cards = (() => {
  "use strict";
  const { html } = ChartFrame;
  const THUMB = 130; // pixels high

  /** A panel without its words: what is left is the shape of it. */
  function plain(panel) {
    const bare = { ...panel, title: "", caption: "", height: THUMB };
    if (panel.kind === "line") return { ...bare, levels: [], marks: [], series: panel.series.map((one) => ({ ...one, quiet: true })) };
    return ["bars", "timeline"].includes(panel.kind) ? { ...bare, legend: false } : bare;
  }

  async function picture(place, result) {
    if (result.panels) {
      const [first = []] = JSON.parse(await Packed.text(result.panels));
      const panel = first[result.picture] ?? first[0];
      if (panel) Charts[panel.kind](place, plain(panel));
    } else if (result.svg) {
      const image = html("img", "", undefined, place);
      image.alt = "";
      image.src = URL.createObjectURL(new Blob([await Packed.text(result.svg)], { type: "image/svg+xml" }));
    }
  }

  /** Open the card that a link points to. */
  function follow() {
    const card = location.hash.startsWith("#result-") ? document.getElementById(location.hash.slice(1)) : null;
    if (card instanceof HTMLDetailsElement) card.open = true;
  }

  /** @param {Object[]} results @param {(place: number, into: Element) => void} showRecord moves the view over time to a card */
  function attach(results, showRecord) {
    for (const card of document.querySelectorAll("details.card")) {
      const place = Number(card.dataset.result);
      Figures.whenSeen(card, () => picture(card.querySelector(".card-picture"), results[place]));
      let filled = false;
      card.addEventListener("toggle", () => {
        if (!card.open) return;
        if (!filled) Figures.attach(card, results[place], true);
        filled = true;
        showRecord(place, card.querySelector(".time-place"));
      });
      const own = card.querySelector(".own-claims");
      own?.addEventListener("toggle", () => { if (own.open && own.children.length === 1) own.append(Claims.copyOf(results[place].name)); });
    }
    for (const link of document.querySelectorAll('a[href^="#result-"]')) {
      link.addEventListener("click", () => { document.querySelector(link.getAttribute("href")).open = true; });
    }
    addEventListener("hashchange", follow);
    follow();
  }

  return Object.freeze({ attach });
})();

/* A chart or picture over the whole window: by a tap on a phone, or by its button.
 *
 * The figure itself moves there and back, so that it goes on playing. It first fits the window; a tap makes it wider, and then a finger
 * moves it, which a line above it says.
 */
const Zoom = (() => {
  "use strict";
  const { html } = ChartFrame;
  const PICTURE = ".chart-stage, .own-figure img";
  const TAP = matchMedia("(pointer: coarse)").matches ? "tap" : "click";
  let dialog = null;
  let stand = null; // what keeps the figure's place in the page

  function made() {
    dialog = html("dialog", "zoom", undefined, document.body);
    dialog.setAttribute("aria-label", "Enlarged figure");
    const bar = html("div", "zoom-bar", undefined, dialog);
    for (const [look, words, act] of [["zoom-close", "Close", () => dialog.close()], ["zoom-wider", "", () => widen()]]) {
      const button = html("button", look, words, bar);
      button.type = "button";
      button.addEventListener("click", act);
    }
    html("span", "zoom-hint", "", bar).setAttribute("role", "status");
    html("div", "zoom-place", undefined, dialog).addEventListener("click", (event) => { if (event.target.closest(PICTURE)) widen(); });
    dialog.addEventListener("close", back);
    return dialog;
  }

  const part = (look) => dialog.querySelector(`.${look}`);

  /** Wider than the window, or to its width again. */
  function widen(wide = !dialog.classList.contains("is-wide")) {
    dialog.classList.toggle("is-wide", wide);
    part("zoom-wider").textContent = wide ? "Fit" : "Larger";
    part("zoom-hint").textContent = wide ? `↔ drag or scroll to move it, ${TAP} to fit` : `${TAP} the picture for larger`;
    dialog.scrollTo(0, 0);
  }

  function back() {
    if (!stand) return;
    stand.replaceWith(part("zoom-place").firstElementChild);
    stand = null;
  }

  /** @param {HTMLElement} figure */
  function open(figure) {
    if (stand) return;
    dialog ??= made();
    stand = html("div", "zoom-stand");
    stand.style.height = `${figure.offsetHeight}px`;
    figure.replaceWith(stand);
    part("zoom-place").append(figure);
    widen(false);
    dialog.showModal();
  }

  /** Taps on figures of the page. The cells of heads, which are chosen by a tap, have their own large picture. */
  function attach() {
    document.addEventListener("click", (event) => {
      const picture = event.pointerType === "touch" ? event.target.closest(PICTURE) : null;
      const figure = picture?.closest("figure");
      if (figure && !figure.closest(".zoom, .plot-heads, .card-picture, #all-claims")) open(figure);
    });
  }

  return Object.freeze({ open, attach });
})();

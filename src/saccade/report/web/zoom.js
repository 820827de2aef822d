/* A chart or picture over the whole window: by a tap on a phone, or by its button.
 *
 * The figure itself moves there and back, so that it goes on playing; a chart is drawn anew for the larger place, and a finger moves
 * across it where it is wider than the window.
 */
const Zoom = (() => {
  "use strict";
  const { html } = ChartFrame;
  let dialog = null;
  let stand = null; // what keeps the figure's place in the page

  function made() {
    dialog = html("dialog", "zoom", undefined, document.body);
    dialog.setAttribute("aria-label", "Enlarged figure");
    const close = html("button", "zoom-close", "Close", dialog);
    close.type = "button";
    close.addEventListener("click", () => dialog.close());
    html("div", "zoom-place", undefined, dialog);
    dialog.addEventListener("close", back);
    return dialog;
  }

  function back() {
    if (!stand) return;
    stand.replaceWith(dialog.querySelector(".zoom-place").firstElementChild);
    stand = null;
  }

  /** @param {HTMLElement} figure */
  function open(figure) {
    if (stand) return;
    dialog ??= made();
    stand = html("div", "zoom-stand");
    stand.style.height = `${figure.offsetHeight}px`;
    figure.replaceWith(stand);
    dialog.querySelector(".zoom-place").append(figure);
    dialog.showModal();
  }

  /** Taps on figures of the page. The cells of heads, which are chosen by a tap, have their own large picture. */
  function attach() {
    document.addEventListener("click", (event) => {
      const picture = event.pointerType === "touch" ? event.target.closest(".chart-stage, .own-figure img") : null;
      const figure = picture?.closest("figure");
      if (figure && !figure.closest(".zoom, .plot-heads, .card-picture, #all-claims")) open(figure);
    });
  }

  return Object.freeze({ open, attach });
})();

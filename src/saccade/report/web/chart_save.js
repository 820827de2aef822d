/* Saving a chart: SVG and PNG that stand alone, in light colours on white, and the numbers as CSV.
 *
 * A saved picture carries its title and its own style sheet, since the page's is not there. Nothing is sent anywhere: files
 * are made in the page and handed to the browser's download.
 */
const ChartSave = (() => {
  "use strict";
  const TITLE_ROOM = 28;
  const PNG_SCALE = 2; // pixels of the PNG for one of the page, enough for print at column width

  function styleSheet() {
    const rule = (colour, index) => `.chart-stroke-${index}{stroke:${colour}}.chart-fill-${index}{fill:${colour}}`;
    const colours = ChartScales.CATEGORICAL.map(rule);
    return `text{font:11px system-ui,sans-serif;fill:#333}.chart-saved-title{font-size:14px;font-weight:600}.chart-name{fill:#111}
.chart-end{text-anchor:end}.chart-middle{text-anchor:middle}.chart-grid{stroke:#e3e3e3}.chart-axis{stroke:#777}
.chart-line{fill:none;stroke-width:2}.chart-dash{stroke-dasharray:6 4;stroke-width:1.6}
.chart-dots{stroke-dasharray:1 4;stroke-width:3;stroke-linecap:round}
.chart-ring{fill:none;stroke-width:1.5}.chart-ribbon{opacity:.2}
.chart-halo{paint-order:stroke;stroke:#fff;stroke-width:3px}
.chart-ghost{fill:none;stroke:#111;stroke-width:1.5;stroke-dasharray:3 2}
.chart-mark{stroke:#111;stroke-width:1.5;stroke-dasharray:2 3}
.chart-band{fill:#0072b2;opacity:.08}.chart-band-odd{opacity:.16}.chart-cursor{stroke:#111}.chart-bad{fill:#b04300}
.chart-even{fill:#e4e4e4}.chart-uneven{fill:#b5b5b5}.chart-still{fill:#fff;opacity:.6}.chart-still-key{fill:#dbe7ef;stroke:#0072b2}.chart-take{stroke:#111;stroke-width:2}.chart-take-key{fill:none;stroke:#111;stroke-width:2;stroke-dasharray:0 12 10 12}
.chart-unseen{stroke:#fff;stroke-dasharray:4 2}.chart-unseen-key{stroke:#777;stroke-width:10;stroke-dasharray:2 4}
${colours.join("")}`;
  }

  /** The drawing as a file that stands alone. @param {SVGElement} picture @param {string} title @returns {string} */
  function toSVG(picture, title) {
    const copy = picture.cloneNode(true);
    const [width, height] = [Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))];
    copy.setAttribute("viewBox", `0 ${-TITLE_ROOM} ${width} ${height + TITLE_ROOM}`);
    copy.setAttribute("height", height + TITLE_ROOM);
    const style = ChartFrame.svg("style");
    style.textContent = styleSheet();
    const paper = ChartFrame.svg("rect", { x: 0, y: -TITLE_ROOM, width, height: height + TITLE_ROOM, fill: "#ffffff" });
    const heading = ChartFrame.svg("text", { x: 4, y: -10, class: "chart-saved-title" });
    heading.textContent = title;
    copy.prepend(style, paper, heading);
    copy.querySelectorAll("[data-screen-only]").forEach((element) => element.remove());
    return new XMLSerializer().serializeToString(copy);
  }

  /** Text that a spreadsheet would take for a formula; numbers are none. */
  const isFormula = (value) => typeof value === "string" && /^[=+\-@]/.test(value) && Number.isNaN(Number(value));

  const cell = (value) => {
    const plain = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
    const content = isFormula(value) ? `'${plain}` : plain;
    return /[",\n\r]/.test(content) ? `"${content.replaceAll('"', '""')}"` : content;
  };

  /** Rows of values as CSV; a missing number is an empty cell, and text that looks like a formula has an apostrophe before it. */
  const csv = (rows) => `${rows.map((row) => row.map(cell).join(",")).join("\n")}\n`;

  /** Hand a file to the browser's download. @param {Blob} blob @param {string} filename */
  function download(blob, filename) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = filename;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000); // after the browser has surely begun to read it
  }

  /** @param {string} source an SVG file @returns {Promise<Blob>} */
  async function toPNG(source) {
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    try {
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width * PNG_SCALE, image.height * PNG_SCALE];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
    } finally {
      URL.revokeObjectURL(image.src);
    }
  }

  /**
   * Small buttons under a chart.
   * @param {{element: Element, toSVG(): string, toCSV: ?(() => string)}} handle null where there are no numbers to save @param {string} filename without ending
   */
  function saveMenu(handle, filename) {
    const menu = ChartFrame.html("div", "chart-save", undefined, handle.element);
    const save = {
      SVG: async () => new Blob([handle.toSVG()], { type: "image/svg+xml" }),
      PNG: () => toPNG(handle.toSVG()),
      ...(handle.toCSV && { CSV: async () => new Blob([handle.toCSV()], { type: "text/csv" }) }),
    };
    for (const [kind, make] of Object.entries(save)) {
      const button = ChartFrame.html("button", "chart-save-button", kind, menu);
      button.type = "button";
      button.setAttribute("aria-label", `Save ${filename} as ${kind}`);
      button.addEventListener("click", async () => download(await make(), `${filename}.${kind.toLowerCase()}`));
    }
    if (typeof Zoom === "object") { // the playground has none: its charts have their place
      const button = ChartFrame.html("button", "chart-save-button chart-zoom", "⤢", menu);
      button.type = "button";
      button.setAttribute("aria-label", `Enlarge ${filename}`);
      button.addEventListener("click", () => Zoom.open(handle.element));
    }
    return menu;
  }

  return Object.freeze({ toSVG, csv, download, saveMenu });
})();

/* A film of the stage for slides: what plays on the page, drawn into a canvas frame by frame and recorded as WebM.
 *
 * The stage is made of SVG and a little text, which a canvas cannot record as they are. Each frame is therefore drawn from them:
 * SVG as pictures with their styles written into them, text and boxes where the page has them. A frame is left out where drawing
 * takes longer than it lasts. The file is made in the page and handed to the browser's download.
 */
const Recording = (() => {
  "use strict";
  const HOLD = 1500; // milliseconds that the last frame stays
  const WIDEST = 1920; // pixels of the film
  const BITS = 6_000_000; // a second
  const KINDS = ["video/webm;codecs=vp9", "video/webm", "video/mp4"];
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor",
    "clip-path", "visibility", "paint-order", "vector-effect", "image-rendering"];
  const MARGIN = 12; // pixels around the stage
  const BOXES = ".ribbon, .stage-part, .key-box, .hill-head";
  const WORDS = ".caption, .chart-title, .hill-name, .stage-part, .key-item, .ribbon-ticks span";

  /** An SVG as a file that looks as it does on the page. */
  function standing(picture) {
    const copy = picture.cloneNode(true);
    const { width, height } = picture.getBoundingClientRect();
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const copies = copy.querySelectorAll("*");
    picture.querySelectorAll("*").forEach((element, at) => {
      const look = getComputedStyle(element);
      copies[at].setAttribute("style", STYLES.map((name) => `${name}:${look.getPropertyValue(name)}`).join(";"));
    });
    return new XMLSerializer().serializeToString(copy);
  }

  async function imageOf(source) {
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
    try {
      await image.decode();
    } finally {
      URL.revokeObjectURL(image.src);
    }
    return image;
  }

  /** Text of an element, broken as its box needs. */
  function write(context, element, box) {
    const look = getComputedStyle(element);
    context.save();
    if (look.overflow === "hidden") {
      context.beginPath();
      context.rect(box.left, box.top, box.width, box.height);
      context.clip();
    }
    context.font = `${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
    context.fillStyle = look.color;
    context.textBaseline = "middle";
    const height = parseFloat(look.lineHeight) || 1.3 * parseFloat(look.fontSize);
    const [left, room] = [box.left + parseFloat(look.paddingLeft), box.width - parseFloat(look.paddingLeft)];
    const start = element.classList.contains("key-item") ? box.left + 1.2 * parseFloat(look.fontSize) : left;
    let [line, y] = ["", box.top + parseFloat(look.paddingTop) + height / 2];
    for (const word of element.textContent.trim().split(/\s+/)) {
      const longer = line ? `${line} ${word}` : word;
      if (line && context.measureText(longer).width > room + 1) {
        context.fillText(line, start, y);
        [line, y] = [word, y + height];
      } else line = longer;
    }
    context.fillText(line, start, y);
    context.restore();
  }

  /** @param {{stage: Element, from: Element, to: Element}} places what is filmed, and the parts where the film begins and ends */
  function create({ stage, from, to }) {
    const canvas = document.createElement("canvas");
    const context = canvas.getContext("2d");
    let [recorder, drawing] = [null, null];

    const seen = (selector) => [...stage.querySelectorAll(selector)].filter((element) => element.getClientRects().length);

    async function draw() {
      const pictures = await Promise.all(seen("svg").map(async (one) => [one, await imageOf(standing(one))]));
      const top = stage.getBoundingClientRect();
      const place = (element) => {
        const box = element.getBoundingClientRect();
        return { left: box.left - top.left, top: box.top - top.top, width: box.width, height: box.height };
      };
      const scale = canvas.width / (top.width + 2 * MARGIN);
      context.setTransform(scale, 0, 0, scale, scale * MARGIN, 0);
      context.fillStyle = getComputedStyle(document.body).backgroundColor;
      context.fillRect(-MARGIN, 0, top.width + 2 * MARGIN, canvas.height / scale);
      for (const element of seen(BOXES)) {
        const { left, top: up, width, height } = place(element);
        context.fillStyle = getComputedStyle(element).backgroundColor;
        context.fillRect(left, up, width, height);
      }
      for (const [element, image] of pictures) {
        const { left, top: up, width, height } = place(element);
        context.drawImage(image, left, up, width, height);
      }
      for (const element of seen(WORDS)) write(context, element, place(element));
    }

    /** A frame, unless the one before is still being drawn. */
    function frame() {
      if (recorder) drawing ??= draw().finally(() => { drawing = null; });
    }

    /** @param {(film: Blob, ending: string) => void} onFilm called with the film when it has ended */
    async function start(onFilm) {
      const [begin, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
      const scale = Math.min(2, WIDEST / (begin.width + 2 * MARGIN));
      const size = [begin.width + 2 * MARGIN, end.bottom - begin.top + MARGIN];
      [canvas.width, canvas.height] = size.map((one) => 2 * Math.round((one * scale) / 2)); // codecs want even numbers
      await draw();
      const kind = KINDS.find((one) => MediaRecorder.isTypeSupported(one));
      const parts = [];
      recorder = new MediaRecorder(canvas.captureStream(), { mimeType: kind, videoBitsPerSecond: BITS });
      recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
      recorder.addEventListener("stop", () => onFilm(new Blob(parts, { type: kind }), kind.slice(6, 10).replace(";", "")));
      recorder.start();
    }

    /** After the last frame. */
    async function stop() {
      await drawing;
      await draw();
      await new Promise((resolve) => { setTimeout(resolve, HOLD); });
      await draw();
      recorder.stop();
      recorder = null;
    }

    return { start, stop, frame, get on() { return recorder !== null; } };
  }

  const works = () => typeof MediaRecorder === "function" && KINDS.some((one) => MediaRecorder.isTypeSupported(one));

  return Object.freeze({ create, works });
})();

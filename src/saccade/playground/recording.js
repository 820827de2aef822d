/* A film of the stage for slides: thirty frames for every second of playing, each drawn into a canvas and encoded (WebCodecs), as WebM.
 *
 * The stage is made of SVG and a little text, which a canvas cannot take as they are. Each frame is therefore drawn from them:
 * SVG as pictures with their styles written into them, text and boxes where the page has them. That takes longer than a frame
 * lasts, so the film is not recorded while the run plays: the page is put at each frame's moment in turn, and none is left out.
 * The file is made in the page and handed to the browser's download.
 */
const Recording = (() => {
  "use strict";
  const RATE = 30; // frames a second
  const HOLD = 1.5; // seconds that the last frame stays
  const KEY = 60; // frames from one that stands alone to the next
  const WIDEST = 1920; // pixels of the film
  const BITS = 6_000_000; // a second
  const CODEC = "vp8"; // that every browser with an encoder has
  const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "fill-opacity", "font-size", "font-family", "font-weight", "text-anchor",
    "clip-path", "visibility", "paint-order", "vector-effect", "image-rendering"];
  const MARGIN = 12; // pixels around the stage
  const BOXES = ".ribbon, .stage-part, .key-box, .hill-head";
  const WORDS = ".caption, .chart-title, .hill-name, .stage-name, .key-item, .ribbon-ticks span";

  const STYLED = /fill|stroke/; // colours that data give, beside those of classes

  function styles(element) {
    const look = getComputedStyle(element);
    return STYLES.map((name) => `${name}:${look.getPropertyValue(name)}`).join(";");
  }

  /** An SVG as a file that looks as it does on the page. @param {Map<string, string>} looks of elements by the classes around them, asked for once a film */
  function standing(picture, looks) {
    const copy = picture.cloneNode(true);
    const { width, height } = picture.getBoundingClientRect();
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    const copies = copy.querySelectorAll("*");
    const stage = picture.closest(".picture")?.className; // at the snap outlines get another look
    picture.querySelectorAll("*").forEach((element, at) => {
      const own = element.getAttribute("style") ?? "";
      const kind = [element.tagName, element.getAttribute("class"), element.parentElement.getAttribute("class"), stage, own && STYLED.test(own) ? own : ""].join("|");
      if (!looks.has(kind)) looks.set(kind, styles(element));
      copies[at].setAttribute("style", `${looks.get(kind)};${own}`);
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
      if (line && look.whiteSpace !== "nowrap" && context.measureText(longer).width > room + 1) {
        context.fillText(line, start, y);
        [line, y] = [word, y + height];
      } else line = longer;
    }
    context.fillText(line, start, y, Math.max(room, 1));
    context.restore();
  }

  /** @param {{stage: Element, from: Element, to: Element}} places what is filmed, and the parts where the film begins and ends */
  function create({ stage, from, to }) {
    const canvas = document.createElement("canvas");
    const context = canvas.getContext("2d");

    const seen = (selector) => [...stage.querySelectorAll(selector)].filter((element) => element.getClientRects().length && getComputedStyle(element).visibility !== "hidden");

    async function draw(looks) {
      const pictures = await Promise.all(seen("svg:not(svg svg)").map(async (one) => [one, await imageOf(standing(one, looks))]));
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
        const look = getComputedStyle(element);
        context.fillStyle = look.backgroundColor;
        context.fillRect(left, up, width, height);
        if (look.borderStyle !== "dashed") continue;
        context.strokeStyle = look.borderColor;
        context.setLineDash([3, 2]);
        context.strokeRect(left, up, width, height);
      }
      for (const [element, image] of pictures) {
        const { left, top: up, width, height } = place(element);
        context.drawImage(image, left, up, width, height);
      }
      for (const element of seen(WORDS)) write(context, element, place(element));
    }

    function sized() {
      const [begin, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
      const scale = Math.min(2, WIDEST / (begin.width + 2 * MARGIN));
      const size = [begin.width + 2 * MARGIN, end.bottom - begin.top + MARGIN];
      [canvas.width, canvas.height] = size.map((one) => 2 * Math.round((one * scale) / 2)); // codecs want even numbers
      return { width: canvas.width, height: canvas.height };
    }

    /**
     * @param {number} seconds of the run @param {(share: number) => void} show puts the page where so much of them is over
     * @returns {Promise<Blob>}
     */
    async function film(seconds, show) {
      const [frames, looks, size] = [[], new Map(), sized()];
      let wrong = null;
      const encoder = new VideoEncoder({
        output(chunk) {
          const data = new Uint8Array(chunk.byteLength);
          chunk.copyTo(data);
          frames.push({ time: Math.round(chunk.timestamp / 1000), isKey: chunk.type === "key", data });
        },
        error(error) { wrong = error; },
      });
      encoder.configure({ codec: CODEC, ...size, bitrate: BITS, framerate: RATE });
      const keep = (second, keyFrame) => {
        const frame = new VideoFrame(canvas, { timestamp: Math.round(1e6 * second) });
        encoder.encode(frame, { keyFrame });
        frame.close();
      };
      const last = Math.round(RATE * seconds);
      for (let at = 0; at <= last && !wrong; at += 1) {
        show(at / last);
        await draw(looks);
        keep(at / RATE, at % KEY === 0);
      }
      keep(seconds + HOLD, true); // the last one once more: players end with their last frame
      await encoder.flush();
      encoder.close();
      if (wrong) throw wrong;
      return Webm.file(frames, { ...size, duration: 1000 * (seconds + HOLD) });
    }

    return { film };
  }

  const works = () => typeof VideoEncoder === "function";

  return Object.freeze({ create, works });
})();

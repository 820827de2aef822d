/* A WebM file from encoded frames: the few parts of Matroska that a player needs, as all frames are known when it is written. */
const Webm = (() => {
  "use strict";
  const bytes = (number, count) => Uint8Array.from({ length: count }, (_, at) => Math.floor(number / 256 ** (count - 1 - at)) % 256);
  const hex = (id) => Uint8Array.from(id.match(/../g), (pair) => parseInt(pair, 16));
  const length = (parts) => parts.reduce((sum, part) => sum + part.length, 0);

  function joined(parts) {
    const whole = new Uint8Array(length(parts));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /** Identity, size in eight bytes (the first says so), content. */
  const element = (id, ...parts) => joined([hex(id), hex("01"), bytes(length(parts), 7), ...parts]);
  const whole = (id, number) => element(id, bytes(number, 6));
  const words = (id, text) => element(id, new TextEncoder().encode(text));
  function real(id, number) {
    const content = new Uint8Array(8);
    new DataView(content.buffer).setFloat64(0, number);
    return element(id, content);
  }

  /** One frame of track 1, at a time after its cluster's. */
  const block = ({ time, isKey, data }, start) => element("a3", hex("81"), bytes(time - start, 2), hex(isKey ? "80" : "00"), data);

  /** Frames from each key frame to the next. */
  function clusters(frames) {
    const groups = [];
    for (const frame of frames) frame.isKey ? groups.push([frame]) : groups.at(-1).push(frame);
    return groups.map((group) => element("1f43b675", whole("e7", group[0].time), ...group.map((frame) => block(frame, group[0].time))));
  }

  /** @param {{time: number, isKey: boolean, data: Uint8Array}[]} frames of VP8, times in milliseconds @param {{width, height, duration}} size */
  function file(frames, { width, height, duration }) {
    const head = element("1a45dfa3", whole("4286", 1), whole("42f7", 1), whole("42f2", 4), whole("42f3", 8), words("4282", "webm"), whole("4287", 2), whole("4285", 2));
    const about = element("1549a966", whole("2ad7b1", 1e6), real("4489", duration), words("4d80", "saccade"), words("5741", "saccade"));
    const video = element("e0", whole("b0", width), whole("ba", height));
    const tracks = element("1654ae6b", element("ae", whole("d7", 1), whole("73c5", 1), whole("83", 1), words("86", "V_VP8"), video));
    return new Blob([head, element("18538067", about, tracks, ...clusters(frames))], { type: "video/webm" });
  }

  return Object.freeze({ file });
})();

/* Data of the page, unpacked when it is first asked for: the other side of report/packing.py.
 *
 * A blob is base64 of deflated bytes in an element of its own. Inflating needs DecompressionStream: Chrome and Edge 80, Firefox 113,
 * Safari 16.4, or later ones. What has been unpacked is kept.
 */
const Packed = (() => {
  "use strict";
  const CODES = 65534; // as in packing.py
  const MISSING = 65535;
  const SHADES = 254;
  const kept = new Map();

  /** Whether this browser can inflate. */
  const works = () => typeof DecompressionStream === "function";

  /** Bytes of a blob. @param {number} blob @returns {Promise<Uint8Array>} */
  async function bytes(blob) {
    const source = document.getElementById(`blob-${blob}`).textContent;
    const raw = Uint8Array.from(atob(source), (letter) => letter.charCodeAt(0));
    const inflated = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(inflated).arrayBuffer());
  }

  /** Bytes of equal weight stand together; put those of each number side by side. */
  function joined(planes, size) {
    const count = planes.length / size;
    const whole = new Uint8Array(planes.length);
    for (let plane = 0; plane < size; plane += 1) {
      for (let at = 0, from = plane * count; at < count; at += 1) whole[at * size + plane] = planes[from + at];
    }
    return whole.buffer;
  }

  /** Undo differences along one axis, in place; sums wrap around as the differences did. */
  function summed(codes, shape, axis) {
    const stride = shape.slice(axis + 1).reduce((product, size) => product * size, 1);
    const block = stride * shape[axis];
    for (let at = 0; at < codes.length; at += 1) if (at % block >= stride) codes[at] += codes[at - stride];
    return codes;
  }

  function decoded(pack, raw) {
    if (pack.mode === "float32") return new Float32Array(joined(raw, 4));
    if (pack.mode === "float64") return new Float64Array(joined(raw, 8));
    if (pack.mode === "root8") return Float32Array.from(raw, (shade) => (shade === 255 ? NaN : (shade / SHADES) ** 2));
    let codes = new Uint16Array(joined(raw, 2));
    if (pack.axis !== null) codes = summed(codes, pack.shape, pack.axis);
    const slope = (pack.high - pack.low) / CODES;
    const value = (code) => (code === MISSING ? NaN : pack.low + slope * code);
    return Float64Array.from(codes, pack.mode === "log16" ? (code) => Math.exp(value(code)) : value);
  }

  /** What is made of a blob, kept by what it is: equal bytes lie in one blob, whatever they stand for. */
  function once(kind, pack, make) {
    const key = `${kind} ${pack.blob}`;
    if (!kept.has(key)) kept.set(key, bytes(pack.blob).then(make));
    return kept.get(key);
  }

  /** Numbers of a packed array, row by row. @returns {Promise<Float32Array|Float64Array>} */
  const array = (pack) => once("array", pack, (raw) => decoded(pack, raw));

  /** Weights of a map as bytes, 255 where missing: (byte / 254) squared is the weight. @returns {Promise<Uint8Array>} */
  const shades = (pack) => once("shades", pack, (raw) => raw);

  /** A packed text. @returns {Promise<string>} */
  const text = (pack) => once("text", pack, (raw) => new TextDecoder().decode(raw));

  return Object.freeze({ works, array, shades, text, SHADES });
})();

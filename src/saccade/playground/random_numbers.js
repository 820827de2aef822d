/* Random starts that a shared link can repeat: xoshiro128** of Blackman and Vigna, seeded by splitmix32, and normal deviates.
 *
 * The stream is the browser's own: NumPy's generator gives other numbers for the same seed. To lay a run beside one of the
 * Python engine, give both the same `start`.
 */
const RandomNumbers = (() => {
  "use strict";

  const rotated = (x, by) => (x << by) | (x >>> (32 - by));

  /** Four words of state from one seed. */
  function seeded(seed) {
    let a = (seed >>> 0) ^ Math.floor(seed / 2 ** 32);
    return Uint32Array.from({ length: 4 }, () => {
      a = (a + 0x9e3779b9) | 0;
      let t = a ^ (a >>> 16);
      t = Math.imul(t, 0x21f0aaad);
      t ^= t >>> 15;
      t = Math.imul(t, 0x735a2d97);
      return t ^ (t >>> 15);
    });
  }

  /**
   * @param {number} seed a whole number from 0
   * @returns {{uniform: () => number, normal: () => number}} uniform on (0, 1) with 53 bits; normal of mean 0, variance 1
   */
  function generator(seed) {
    const s = seeded(seed);
    function word() {
      const result = Math.imul(rotated(Math.imul(s[1], 5), 7), 9) >>> 0;
      const t = s[1] << 9;
      s[2] ^= s[0];
      s[3] ^= s[1];
      s[1] ^= s[2];
      s[0] ^= s[3];
      s[2] ^= t;
      s[3] = rotated(s[3], 11);
      return result;
    }
    const uniform = () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6) + 0.5) / 2 ** 53;
    const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    return { uniform, normal };
  }

  return Object.freeze({ generator });
})();

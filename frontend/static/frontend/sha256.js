// SHA-256 in pieces (FIPS 180-4). The implementation of the browser needs the whole file in memory.

class Sha256 {
  static #constants = Uint32Array.from({ length: 64 }, (_, place) => Sha256.#root(place, 1 / 3));

  #state = Uint32Array.from({ length: 8 }, (_, place) => Sha256.#root(place, 1 / 2));
  #words = new Uint32Array(64);
  #rest = new Uint8Array(64);
  #resting = 0;
  length = 0;

  // The first 32 bits of the fractional part of a root of the n-th prime.
  static #root(place, power) {
    const root = Sha256.#primes[place] ** power;
    return (root - Math.floor(root)) * 2 ** 32;
  }

  static get #primes() {
    const found = [];
    for (let number = 2; found.length < 64; number++) {
      if (found.every((prime) => number % prime)) found.push(number);
    }
    return found;
  }

  update(bytes) {
    this.length += bytes.length;
    let at = 0;
    if (this.#resting) {
      at = Math.min(64 - this.#resting, bytes.length);
      this.#rest.set(bytes.subarray(0, at), this.#resting);
      this.#resting += at;
      if (this.#resting < 64) return this;
      this.#block(new DataView(this.#rest.buffer), 0);
      this.#resting = 0;
    }
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (; at + 64 <= bytes.length; at += 64) this.#block(view, at);
    this.#rest.set(bytes.subarray(at));
    this.#resting = bytes.length - at;
    return this;
  }

  // Return the digest in base64. No more bytes can be added afterwards.
  base64() {
    const bits = this.length * 8;
    const end = new Uint8Array((this.#resting < 56 ? 64 : 128) - this.#resting);
    end[0] = 0x80;
    const view = new DataView(end.buffer);
    view.setUint32(end.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(end.length - 4, bits >>> 0);
    this.update(end);
    const digest = new DataView(new ArrayBuffer(32));
    this.#state.forEach((word, place) => digest.setUint32(place * 4, word));
    return btoa(String.fromCharCode(...new Uint8Array(digest.buffer)));
  }

  #block(view, at) {
    const w = this.#words;
    const k = Sha256.#constants;
    for (let t = 0; t < 16; t++) w[t] = view.getUint32(at + t * 4);
    for (let t = 16; t < 64; t++) {
      const x = w[t - 15];
      const y = w[t - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    let [a, b, c, d, e, f, g, h] = this.#state;
    for (let t = 0; t < 64; t++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const one = (h + s1 + ((e & f) ^ (~e & g)) + k[t] + w[t]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const two = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, place) => (this.#state[place] += word));
  }
}

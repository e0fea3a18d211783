// The hash specification (docs/hash-spec.md) in JavaScript, from its text alone: node tests/interop/hash.mjs CLASSES
// reads a JSON object a line from standard input, as in tests/vectors/version-2.json, and writes the results of each.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const GOLDEN = 0x9e3779b97f4a7c15n, LOW = 0xffffffffn;
const ascending = (a, b) => (a < b ? -1 : 1);
const u64 = (x) => BigInt.asUintN(64, x);

function mix(x) {
  x = u64((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = u64((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return x ^ (x >> 31n);
}

const expand = (seed, count) => Array.from({ length: count }, (_, n) => mix(u64(seed + BigInt(n + 1) * GOLDEN)));

// RFC 7693, one message of any length; parameters as for the settings of the specification.
const IV = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const SIGMA = `0123456789abcdef ea489fd61c02b753 b8c052fdae367194 7931dcbe265a40f8 905724afe1bc683d
2c6a0b834d75fe19 c51fed4a0763928b db7ec13950f4862a 6fe9b308c2d714a5 a2847615fb9e3cd0`
  .split(/\s/).map((line) => [...line].map((digit) => parseInt(digit, 16)));
const MIXED = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];
const rotate = (x, by) => u64((x >> by) | (x << (64n - by)));
const words = (bytes) => Array.from({ length: Math.ceil(bytes.length / 8) }, (_, n) =>
  Buffer.concat([bytes.subarray(8 * n, 8 * n + 8), Buffer.alloc(8)]).readBigUInt64LE());

function blake2b(message, { size = 8, key = Buffer.alloc(0), salt = Buffer.alloc(16), person = "" } = {}) {
  const parameters = Buffer.alloc(64);
  parameters.set([size, key.length, 1, 1]);
  parameters.set(salt, 32);
  parameters.write(person, 48);
  const h = words(parameters).map((value, n) => value ^ IV[n]);
  const first = key.length ? Buffer.concat([key, Buffer.alloc(128 - key.length)]) : key;
  const data = Buffer.concat([first, message]);
  for (let begin = 0; begin === 0 || begin < data.length; begin += 128) {
    const end = Math.min(begin + 128, data.length), m = words(Buffer.concat([data.subarray(begin, end), Buffer.alloc(128 - end + begin)]));
    const v = [...h, ...IV];
    v[12] ^= BigInt(end);
    if (end === data.length) v[14] = u64(~v[14]);
    for (let round = 0; round < 12; round += 1) {
      const s = SIGMA[round % 10];
      MIXED.forEach(([a, b, c, d], n) => {
        v[a] = u64(v[a] + v[b] + m[s[2 * n]]); v[d] = rotate(v[d] ^ v[a], 32n); v[c] = u64(v[c] + v[d]); v[b] = rotate(v[b] ^ v[c], 24n);
        v[a] = u64(v[a] + v[b] + m[s[2 * n + 1]]); v[d] = rotate(v[d] ^ v[a], 16n); v[c] = u64(v[c] + v[d]); v[b] = rotate(v[b] ^ v[c], 63n);
      });
    }
    h.forEach((value, n) => { h[n] = value ^ v[n] ^ v[n + 8]; });
  }
  return Buffer.concat(h.map((value) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(value); return b; })).subarray(0, size);
}

function number(value, size = 8) {
  const bytes = Buffer.alloc(size);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

// 1. Text to tokens
const ranges = readFileSync(process.argv[2], "utf-8").split("\n").filter((line) => line && !line.startsWith("#"))
  .map((line) => line.split(/\.\.| /)).map(([first, last, name]) => [parseInt(first, 16), parseInt(last, 16), name]);
const set = (...names) => ranges.filter(([, , name]) => names.includes(name))
  .map(([first, last]) => `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`).join("");
const TOKEN = new RegExp(`[${set("unspaced", "unspaced_mark")}][${set("mark", "unspaced_mark")}]*|[${set("word", "mark")}]+`, "gu");
const CLASSED = new RegExp(`[${set("word", "mark", "unspaced", "unspaced_mark")}]`, "u");
const VISIBLE = /[^\p{C}\p{Z}]/u;

function normalise(text, { case: letters = "lower", accents = "keep", digits = "keep", arabic = "keep" }) {
  text = text.normalize("NFKC");
  if (letters === "lower") text = text.toLowerCase();
  if (accents === "drop") text = text.normalize("NFD").replace(/[\u0300-\u036f]/gu, "").normalize("NFC");
  if (arabic === "drop") text = text.replace(/[\u0640\u064b-\u0652\u0670]/gu, "");
  return digits === "zero" ? text.replace(/\p{Nd}/gu, "0") : text;
}

// The text with its visible separators set apart, or as they are, and all others as spaces.
function space(text, { tokens = "words" }) {
  const other = { words: () => " ", punctuation: (char) => ` ${char} `, whitespace: (char) => char }[tokens];
  return [...text].map((char) => (CLASSED.test(char) ? char : VISIBLE.test(char) ? other(char) : " ")).join("");
}

function tokenise({ text, ids, unit = "tokens", settings }) {
  if (ids) return ids.map((id) => number(id));
  if (unit === "set") return text.split("\n").slice(0, -1).map((line) => Buffer.from(line));
  const spaced = space(normalise(text, settings), settings);
  if (unit === "char") return [...spaced.split(/ +/).filter(Boolean).join(" ")].map((char) => Buffer.from(char));
  const runs = spaced.split(" ").filter(Boolean);
  const cut = (run) => (CLASSED.test(run) || settings.tokens !== "punctuation" ? run.match(TOKEN) ?? [] : [run]);
  return (settings.tokens === "whitespace" ? runs : runs.flatMap(cut)).map((token) => Buffer.from(token));
}

// 2. Tokens to hashes
function hashTokens(tokens, seed, key) {
  if (key.length) return tokens.map((token) => blake2b(token, { key, salt: number(seed, 16) }).readBigUInt64LE());
  const [start] = expand(BigInt(seed), 1);
  return tokens.map((token) => u64(words(token).reduce((sum, block, n) => sum + mix(block ^ u64(start + BigInt(n) * GOLDEN)), 0n)));
}

// 3. Token hashes to shingles
function shingle(hashes, size, seed, key) {
  const keyed = (_, place) => blake2b(number(place), { key, salt: number(seed, 16), person: "weight" }).readBigUInt64LE();
  const weights = (key.length ? Array.from({ length: 64 }, keyed) : expand(BigInt(seed) ^ 0x776569676874n, 64)).map((w) => w | 1n);
  const length = Math.min(size, hashes.length), found = new Set();
  for (let begin = 0; length && begin + length <= hashes.length; begin += 1) {
    const run = hashes.slice(begin, begin + length);
    found.add(mix(run.reduce((sum, hash, n) => u64(sum + hash * weights[length - 1 - n]), u64(BigInt(length) * GOLDEN))));
  }
  return [...found].sort(ascending);
}

// The set of a document of several columns, of each of which a shingle is as many elements as the column weighs.
function joinColumns(sets, weights) {
  const owners = weights.flatMap((weight, column) => Array(weight).fill(column));
  return owners.flatMap((column, n) => sets[column].map((each) => mix(u64(each + BigInt(n + 1) * GOLDEN)))).sort(ascending);
}

// 4. Shingles to signature
function sign(shingles, count, seed) {
  const rows = Array(count).fill(u64(-1n)), seeds = expand(BigInt(seed), 2 * count);
  let empty = shingles.length ? count : 0;
  for (let round = 0; empty; round += 1) {
    for (const each of shingles) {
      const h = mix(each ^ seeds[round]), value = (BigInt(round) << 32n) | (h & LOW);
      const row = round < count ? Number(((h >> 32n) * BigInt(count)) >> 32n) : round - count;
      if (rows[row] === u64(-1n)) empty -= 1;
      if (value < rows[row]) rows[row] = value;
    }
  }
  return rows;
}

// 5. Signature to band keys
function keyBands(signature, bands, rows) {
  const salts = expand(0x6b6579n, bands * rows), salted = signature.map((value, n) => mix(u64((value & LOW) + salts[n])));
  return Array.from({ length: bands }, (_, band) => mix(u64(salted.slice(band * rows, (band + 1) * rows).reduce((a, b) => a + b, 0n))));
}

// The lowest bits of all values, end to end.
function pack(signature, bits) {
  const bytes = Buffer.alloc(Math.ceil(signature.length * bits / 8)), mask = BigInt((1 << bits) - 1);
  signature.forEach((value, n) => { bytes[(n * bits) >> 3] |= Number(value & mask) << ((n * bits) & 7); });
  return bytes.toString("hex");
}

const hex = (values) => values.map((value) => value.toString(16).padStart(16, "0"));

for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line), { shingles: { shingle_size: size, seed }, lsh } = given;
  let key = Buffer.from(given.key, "hex");
  if (key.length > 64) key = blake2b(key, { size: 64 });
  const texts = given.weights ? given.text.split("\x1e") : [given.text];
  const columns = texts.map((text) => hashTokens(tokenise({ ...given, text }), seed, key)), hashes = columns.flat();
  const sets = columns.map((own) => shingle(own, size, seed, key)), shingles = given.weights ? joinColumns(sets, given.weights) : sets[0];
  const signature = sign(shingles, lsh.bands * lsh.rows, lsh.seed);
  console.log(JSON.stringify({
    token_hashes: hex(hashes), shingle_set: hex(shingles), signature: hex(signature),
    low_bytes: pack(signature, 8), packed: { 1: pack(signature, 1), 2: pack(signature, 2), 4: pack(signature, 4) },
    band_keys: hex(keyBands(signature, lsh.bands, lsh.rows)),
  }));
}

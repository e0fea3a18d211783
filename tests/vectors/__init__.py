"""Makes version-2.json, the test vectors of docs/hash-spec.md, by the oracles: python -m tests.vectors."""
# ruff: noqa: RUF001 - letters that look alike are what the contract must tell apart

from hashlib import blake2b
from pathlib import Path
from typing import Any

import xxhash

from tests import oracles

FILE = Path(__file__).parent / "version-2.json"
LONG = " ".join(f"word{number * number % 97} of document, number {number};" for number in range(30))
KEY = bytes(range(1, 33))
CASES: list[dict[str, Any]] = [
    {"text": "The quick brown fox jumps over the lazy dog."},
    {"text": LONG, "lsh": {"bands": 21, "rows": 6, "seed": 1}},
    {"text": LONG, "lsh": {"bands": 4, "rows": 3, "seed": 99}, "shingles": {"shingle_size": 2, "seed": 7}},
    {"text": "too short"},
    {"text": "?!"},
    {"text": ""},
    {"text": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft hat über 64 Bytes."},
    {"text": "ＦＵＬＬ ｗｉｄｔｈ, ﬁgure ½, e\u0301cole, ΟΔΟΣ, İstanbul, q\u0301\u20dd"},
    {"text": "漢字かなカナ kana ภาษาไทย abc漢def မြန်မာ हिन्दी한국어"},
    {"text": "Case Is Kept, Été 2024", "settings": {"case": "keep", "accents": "drop", "digits": "zero"}},
    {"text": "f(x) = x**2  # squared、全角", "settings": {"tokens": "punctuation"}},
    {"text": "f(x) = x**2  # squared、全角", "settings": {"tokens": "whitespace"}},
    {"text": "The quick brown fox jumps over the lazy dog.", "key": KEY.hex()},
    {"text": LONG, "key": KEY.hex(), "shingles": {"shingle_size": 64, "seed": 7}},
]


def make(
    text: str,
    settings: dict[str, str] | None = None,
    key: str = "",
    shingles: dict[str, int] | None = None,
    lsh: dict[str, int] | None = None,
) -> dict[str, Any]:
    """Return all that comes of one text; 64-bit values as 16 hexadecimal digits."""
    settings, shingles, lsh = (
        settings or {},
        shingles or {"shingle_size": 5, "seed": 1},
        lsh or {"bands": 4, "rows": 3, "seed": 1},
    )
    tokens = oracles.tokens(text, **settings)
    hashes = [oracles.token_hash(token, shingles["seed"]) for token in tokens]
    if key:
        salt = shingles["seed"].to_bytes(16, "little")
        digests = [blake2b(token.encode(), digest_size=8, key=bytes.fromhex(key), salt=salt) for token in tokens]
        hashes = [int.from_bytes(each.digest(), "little") for each in digests]
    found = oracles.shingle_hashes(hashes, shingles["shingle_size"], shingles["seed"], bytes.fromhex(key))
    signature = oracles.signature(found, lsh["bands"] * lsh["rows"], lsh["seed"])
    low = [value & 0xFFFFFFFF for value in signature]
    return {
        "text": text,
        "settings": settings,
        "key": key,
        "shingles": shingles,
        "lsh": lsh,
        "tokens": tokens,
        "token_hashes": [f"{value:016x}" for value in hashes],
        "shingle_set": [f"{value:016x}" for value in found],
        "digest": xxhash.xxh3_128_hexdigest(b"".join(value.to_bytes(8, "little") for value in found)),
        "signature": [f"{value:016x}" for value in signature],
        "low_bytes": bytes(value & 0xFF for value in signature).hex(),
        "band_keys": [f"{value:016x}" for value in oracles.band_keys(low, lsh["bands"], lsh["rows"])],
    }

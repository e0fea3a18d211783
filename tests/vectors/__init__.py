"""Makes version-2.json, the test vectors of docs/hash-spec.md, by the oracles: python -m tests.vectors."""
# ruff: noqa: RUF001 - letters that look alike are what the contract must tell apart

from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import xxhash

from dedup.kernels.text.markup import READERS
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
    {"text": "Running runners ran; the flies' wings' wing '", "settings": {"stemming": "english"}},
    {"text": "Häuser 漢字 Hauses", "settings": {"stemming": "german"}, "key": KEY.hex()},
    {"text": "كِتَـــابٌ ـ قُرْآن ٱلرَّحْمَـٰن a\u064eb", "settings": {"arabic": "drop"}},
    {"text": "漢語與國際 乾坤 頭髮 カナ", "settings": {"han": "simplified"}},
    {
        "text": "<title>T</title><p>A<b>bc</b> d&eacute;<br>e</p><script>no</script><ul><li>f<li>g</ul>",
        "settings": {"markup": "html"},
    },
    {
        "text": "# A *b*c\n\nd `e` [f](http://x) ![no](y)\ng &amp; <i>h</i>\n\n| i | j |\n|---|---|\n| k | l |\n",
        "settings": {"markup": "markdown"},
    },
    {"unit": "char", "text": "<p>The</p>\n<p>fox</p>", "settings": {"markup": "html"}},
    {"unit": "char", "text": " The quick\n— brown  fox! "},
    {"unit": "char", "text": "漢字かな kana, Été½ q\u0301 \U0001d11e\U00020000"},
    {"unit": "char", "text": "f(x) = 1 、全角", "settings": {"tokens": "punctuation"}, "key": KEY.hex()},
    {"unit": "char", "text": "f(x) =  1 、全角", "settings": {"tokens": "whitespace", "case": "keep"}},
    {"unit": "char", "text": "!abc"},
    {"unit": "ids", "ids": [0, 255, 15496, 11, 995, 0, 50256, 199997]},
    {"unit": "ids", "ids": [15496, 11], "key": KEY.hex()},
    {"unit": "set", "text": "b\na\n\nb\nAn \\\\ and\\nÉ\n", "shingles": {"shingle_size": 1, "seed": 1}},
    {"unit": "set", "text": "17\n-3\n", "shingles": {"shingle_size": 1, "seed": 1}, "key": KEY.hex()},
    {"text": "A title\x1e\x1eA title, and words of a body.", "weights": [3, 1, 1]},
]


def to_bytes(value: int) -> bytes:
    return value.to_bytes(8, "little")


def make(
    *,
    text: str = "",
    settings: dict[str, str] | None = None,
    key: str = "",
    shingles: dict[str, int] | None = None,
    lsh: dict[str, int] | None = None,
    unit: str = "tokens",
    ids: list[int] | None = None,
    weights: list[int] | None = None,
) -> dict[str, Any]:
    """Return all that comes of one text, or columns in it, or token ids; 64-bit values as 16 hexadecimal digits."""
    settings, shingles, lsh = (
        settings or {},
        shingles or {"shingle_size": 5, "seed": 1},
        lsh or {"bands": 4, "rows": 3, "seed": 1},
    )
    chosen = {**settings}
    read = READERS[chosen.pop("markup")]() if "markup" in settings else str
    cut = {"char": oracles.characters, "set": lambda text: text.split("\n")[:-1]}.get(unit, oracles.tokens)
    secret, salt = bytes.fromhex(key), shingles["seed"].to_bytes(16, "little")
    columns = [
        [token.encode() for token in cut(read(part), **chosen)] if ids is None else [to_bytes(each) for each in ids]
        for part in (text.split("\x1e") if weights else [text])
    ]

    def hash_token(token: bytes) -> int:
        keyed = blake2b(token, digest_size=8, key=secret, salt=salt).digest()
        return int.from_bytes(keyed, "little") if key else oracles.token_hash(token, shingles["seed"])

    hashed = [[hash_token(token) for token in tokens] for tokens in columns]
    sets = [oracles.shingle_hashes(each, shingles["shingle_size"], shingles["seed"], secret) for each in hashed]
    found = oracles.join_columns(sets, weights) if weights else sets[0]
    tokens, hashes = [*chain(*columns)], [*chain(*hashed)]
    signature = oracles.signature(found, lsh["bands"] * lsh["rows"], lsh["seed"])
    low = [value & 0xFFFFFFFF for value in signature]
    return {
        **({} if unit == "tokens" else {"unit": unit}),
        **({"text": text} if ids is None else {"ids": ids}),
        **({"weights": weights} if weights else {}),
        "settings": settings,
        "key": key,
        "shingles": shingles,
        "lsh": lsh,
        **({"tokens": [token.decode() for token in tokens]} if ids is None else {}),
        "token_hashes": [f"{value:016x}" for value in hashes],
        "shingle_set": [f"{value:016x}" for value in found],
        "digest": xxhash.xxh3_128_hexdigest(b"".join(map(to_bytes, found))),
        "signature": [f"{value:016x}" for value in signature],
        "low_bytes": bytes(value & 0xFF for value in signature).hex(),
        "packed": {f"{bits}": oracles.pack(low, bits).hex() for bits in (1, 2, 4)},
        "band_keys": [f"{value:016x}" for value in oracles.band_keys(low, lsh["bands"], lsh["rows"])],
    }

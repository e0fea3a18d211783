"""Documents that a search could stumble over, each of any size: what they are made of is what costs."""

from collections.abc import Callable
from functools import partial
from random import Random

PLAIN = "plain"
MARKS = "\u0301\u0323\u0327\u0345\u05b0"
ARABIC = "ابتثجحخدذرزسشصضطظعغفقكلمنهوي"
HEBREW = "אבגדהוזחטיכלמנ"
POINTS = "\u05b0\u05b1\u05b7\u05bc\u05c1"
WORDS = [f"w{number}x" for number in range(20_000)]
QUESTION = "At what time of the day does high water come over the old wall at the harbour in May?"


def _fill(draw: Callable[[Random], str], between: str, seed: int, size: int) -> str:
    """Return what is drawn, over and over, until it has so many bytes."""
    rng, parts, length = Random(seed), [], 0
    while length < size:
        parts.append(draw(rng))
        length += len(parts[-1].encode()) + len(between.encode())
    return between.join(parts)


def _choose(pool: str, least: int = 1, most: int = 1) -> Callable[[Random], str]:
    return lambda rng: "".join(rng.choices(pool, k=rng.randint(least, most)))


def _repeat(content: str, seed: int, size: int) -> str:
    """Return a text over and over, behind a word that no other seed has."""
    return f"x{seed} " + content * (size // len(content.encode()))


def _point(rng: Random) -> str:
    letters = rng.choices(HEBREW, k=rng.randint(2, 8))
    return "".join(letter + "".join(rng.choices(POINTS, k=rng.randint(0, 2))) for letter in letters)


def _unassigned(rng: Random) -> str:
    return "".join(chr(rng.choice((0x378, 0x2FE0, rng.randrange(0x50000, 0x5FFFF)))) for _ in range(rng.randint(2, 8)))


def _nest(seed: int, size: int) -> str:
    """Return a text that holds a copy of its first half behind it, which does so too."""
    text = _fill(lambda rng: rng.choice(WORDS), " ", seed, size >> 8)
    while len(text) < size:
        text = f"{text} x{seed}y{len(text)} {text}"
    return text[:size]


def _deepen(seed: int, size: int) -> str:
    depth = size // 15
    return f"<b>x{seed}</b>" + "<ul><li>" * depth + "</ul>\n" * depth


def _grow(seed: int, size: int) -> str:
    """Return a text that has a word more than that of the seed before."""
    text = _fill(lambda rng: rng.choice(WORDS), " ", 0, size)
    return text[: text.rindex(" ", 0, size * 3 // 4 + 7 * seed)]


DOCUMENTS: dict[str, Callable[[int, int], str]] = {
    PLAIN: partial(_fill, lambda rng: rng.choice(WORDS), " "),
    "marks": lambda seed, size: "a" + _fill(_choose(MARKS), "", seed, size),
    "marks in runs": partial(_fill, lambda rng: "a" + _choose(MARKS, 1, 40)(rng), ""),
    "marks taken apart": lambda seed, size: "a" + _fill(_choose("\u0344\u0323\u0f73\uff9e"), "", seed, size),
    "marks over one letter": partial(_repeat, "\u0308"),
    "one word": partial(_repeat, "word "),
    "one letter": partial(_repeat, "a "),
    "letters": partial(_fill, _choose("abcdefghij"), " "),
    "one token": partial(_fill, _choose("abcdefghij"), ""),
    "a period of words": partial(_repeat, " ".join(WORDS[:60]) + " "),
    "nested copies": _nest,
    "versions": _grow,
    "lines of a letter": partial(_fill, _choose("abcdefghij"), "\n"),
    "empty lines": partial(_repeat, "\n"),
    "one line": partial(_repeat, "Home | News | Contact all of us\n"),
    "lines": partial(_fill, lambda rng: f"abcde fghij klmno {rng.randrange(10**6)}", "\n"),
    "paragraphs": partial(_fill, _choose("abcdefghij", 20, 22), "\n\n"),
    "deep markup": _deepen,
    "angles": partial(_repeat, "<"),
    "tags": partial(_fill, lambda rng: f"<a href='x{rng.randrange(10**9)}'>", ""),
    "right to left": partial(_fill, _choose(ARABIC, 2, 8), " "),
    "points": partial(_fill, _point, " "),
    "directions": partial(_fill, _choose("\u202a\u202b\u202c\u202e\u2066\u2067\u2069"), ""),
    "unassigned": partial(_fill, _unassigned, " "),
    "private": partial(_fill, lambda rng: "".join(chr(rng.randrange(0xE000, 0xF8FF)) for _ in range(6)), " "),
    "capital sigmas": partial(_fill, _choose("ΣΑΒ", 1, 8), " "),
    "a sigma behind quotes": partial(_fill, lambda rng: "Σ" + "'" * rng.randrange(1000), ""),
    "Han": partial(_fill, lambda rng: chr(rng.randrange(0x4E00, 0x9FFF)), ""),
    "jamo": partial(_fill, lambda rng: rng.choice("\u1100\u1112") + rng.choice("\u1161\u1175") + "\u11a8", ""),
    "joined emoji": partial(_repeat, "👩\u200d"),
    "wide letters": partial(_fill, _choose("ＡｂＣ１２３ｱﾞ", 2, 8), " "),
    "ligatures": partial(_repeat, "\ufdfa"),
    "stops and quotes": partial(_fill, lambda rng: "." + "\"'" * rng.randrange(100) + rng.choice(WORDS), ""),
    "punctuation": partial(_fill, _choose("!?.,;:-()"), ""),
    "zero bytes": partial(_repeat, "\0"),
    "questions": partial(_repeat, QUESTION + " "),
}
"""Documents by what they are, of a seed and so many bytes."""

"""What the kernels must compute, said again slowly: plain Python, one value at a time, nothing shared with them.

Every constant stands here a second time on purpose: a kernel that changes one no longer says what this file says.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from itertools import combinations

import regex
from opencc import OpenCC
from Stemmer import Stemmer

MASK = (1 << 64) - 1
EMPTY = MASK

UNSPACED = "".join(
    rf"\p{{Script={name}}}" for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
TOKEN = regex.compile(
    rf"""
    [{UNSPACED}] \p{{Mark}}*                                        # one character of such a script, with its marks
    | (?: (?! [{UNSPACED}] ) [\p{{Letter}}\p{{Mark}}\p{{Number}}_] )+  # or a run of word characters of the others
    """,
    regex.VERBOSE,
)


def decode(text: str | bytes | None) -> str:
    """Return the text of a cell: null is empty, and bytes that are not UTF-8 are U+FFFD."""
    if text is None:
        return ""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def normalise(
    text: str | bytes | None,
    *,
    case: str = "lower",
    accents: str = "keep",
    digits: str = "keep",
    arabic: str = "keep",
    han: str = "keep",
) -> str:
    normal = unicodedata.normalize("NFKC", decode(text))
    if case == "lower":
        normal = normal.lower()
    if accents == "drop":
        bare = [char for char in unicodedata.normalize("NFD", normal) if not 0x300 <= ord(char) <= 0x36F]
        normal = unicodedata.normalize("NFC", "".join(bare))
    if digits == "zero":
        normal = "".join("0" if unicodedata.category(char) == "Nd" else char for char in normal)
    if arabic == "drop":
        normal = regex.sub(r"[\u0640\u064b-\u0652\u0670]", "", normal)
    if han == "simplified":
        normal = "".join(map(simplify, normal))
    return normal


@cache
def simplify(char: str) -> str:
    """Return the simplified form of a traditional character."""
    return OpenCC("t2s").convert(char) if TOKEN.fullmatch(char) else char


def is_other(char: str) -> bool:
    """Tell whether a character can be seen and is of no word."""
    return char.isprintable() and char != " " and not TOKEN.fullmatch(char)


def tokens(text: str | bytes | None, tokens: str = "words", stemming: str = "", **settings: str) -> list[str]:
    if stemming:
        stemmer = Stemmer(stemming)
        return [stemmer.stemWord(each) or each for each in globals()["tokens"](text, tokens, **settings)]
    normal = normalise(text, **settings)
    if tokens == "words":
        return TOKEN.findall(normal)
    if tokens == "whitespace":
        apart = "".join(char if is_other(char) or TOKEN.fullmatch(char) else " " for char in normal)
        return [token for token in apart.split(" ") if token]
    found, run = [], ""
    for char in f"{normal} ":
        if is_other(char) or char == " ":
            found += [*TOKEN.findall(run), *char.strip(" ")]
            run = ""
        else:
            run += char
    return found


def characters(text: str | bytes | None, tokens: str = "words", **settings: str) -> list[str]:
    """Return the code points of the normalised text, each run of separators between two others as one space."""
    spaced = ""
    for char in normalise(text, **settings):
        if is_other(char):
            spaced += {"words": " ", "punctuation": f" {char} ", "whitespace": char}[tokens]
        else:
            spaced += char if TOKEN.fullmatch(char) else " "
    return [*" ".join(filter(None, spaced.split(" ")))]


def shingle_set(
    text: str | bytes | None, size: int, cut: Callable[[str | bytes | None], Sequence] = tokens
) -> frozenset[tuple]:
    words = cut(text)
    if not words:
        return frozenset()
    return frozenset(tuple(words[start : start + size]) for start in range(max(len(words) - size + 1, 1)))


def jaccard(left: frozenset, right: frozenset) -> Fraction:
    shared = len(left & right)
    return Fraction(shared, max(len(left) + len(right) - shared, 1))


def similar_pairs(sets: Mapping, threshold: float | Fraction) -> dict[tuple, Fraction]:
    """Return every pair of keys, the lesser first, whose sets reach the threshold, by comparing all.

    A float is read as the decimal it prints as: 0.8 is 4/5, not the double a little above it.
    """
    floor = Fraction(str(threshold))
    compared = ((pair, jaccard(sets[pair[0]], sets[pair[1]])) for pair in combinations(sorted(sets), 2))
    return {pair: similarity for pair, similarity in compared if similarity >= floor}


def components(edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the least vertex of the component of every vertex that has an edge, by union-find."""
    parents: dict[int, int] = {}

    def find(vertex: int) -> int:
        while parents.setdefault(vertex, vertex) != vertex:
            vertex = parents[vertex]
        return vertex

    for left, right in edges:
        low, high = sorted((find(left), find(right)))
        parents[high] = low
    return {vertex: find(vertex) for vertex in list(parents)}


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def expand(seed: int, count: int) -> list[int]:
    return [mix((seed + step * 0x9E3779B97F4A7C15) & MASK) for step in range(1, count + 1)]


def token_hash(token: str | bytes, seed: int) -> int:
    content = token.encode() if isinstance(token, str) else token
    total = 0
    for number, start in enumerate(range(0, len(content), 8)):
        block = int.from_bytes(content[start : start + 8], "little")
        total += mix(block ^ (expand(seed, 1)[0] + number * 0x9E3779B97F4A7C15) & MASK)
    return total & MASK


def weights(count: int, seed: int = 1, key: bytes = b"") -> list[int]:
    """Return what the last token of a shingle weighs, the one before it, and so on."""
    if not key:
        return [value | 1 for value in expand(seed ^ int.from_bytes(b"weight"), count)]
    salt = seed.to_bytes(16, "little")
    digests = [
        blake2b(place.to_bytes(8, "little"), digest_size=8, key=key, salt=salt, person=b"weight")
        for place in range(count)
    ]
    return [int.from_bytes(each.digest(), "little") | 1 for each in digests]


def shingle_hash(token_hashes: Sequence[int], seed: int = 1, key: bytes = b"") -> int:
    total = len(token_hashes) * 0x9E3779B97F4A7C15
    for value, weight in zip(reversed(token_hashes), weights(len(token_hashes), seed, key), strict=True):
        total += value * weight
    return mix(total & MASK)


def shingle_hashes(token_hashes: Sequence[int], size: int, seed: int = 1, key: bytes = b"") -> list[int]:
    """Return the ascending distinct shingle hashes of one document."""
    if not token_hashes:
        return []
    starts = range(max(len(token_hashes) - size + 1, 1))
    return sorted({shingle_hash(token_hashes[start : start + size], seed, key) for start in starts})


def join_columns(sets: Iterable[Iterable[int]], weights: Sequence[int]) -> list[int]:
    """Return the set of a document of several columns; a shingle counts as often as its column weighs."""
    owners = [number for number, weight in enumerate(weights) for _ in range(weight)]
    sets = [*map(list, sets)]
    return sorted(
        mix(shingle + place * 0x9E3779B97F4A7C15 & MASK)
        for place, owner in enumerate(owners, 1)
        for shingle in sets[owner]
    )


def signature(shingles: Iterable[int], size: int, seed: int) -> list[int]:
    """Return the least `round << 32 | u` that reaches each row in all 2 x size rounds, none left out."""
    rows = [EMPTY] * size
    shingles = list(shingles)
    for number, round_seed in enumerate(expand(seed, 2 * size)):
        for shingle in shingles:
            bits = mix(shingle ^ round_seed)
            row = (bits >> 32) * size >> 32 if number < size else number - size
            rows[row] = min(rows[row], number << 32 | bits & 0xFFFFFFFF)
    return rows


def pack(values: Sequence[int], bits: int) -> bytes:
    """Return the lowest bits of all values, the first value in the lowest bits of the first byte."""
    whole = sum((value & (1 << bits) - 1) << bits * place for place, value in enumerate(values))
    return whole.to_bytes(-(-bits * len(values) // 8), "little")


def band_keys(values: Sequence[int], bands: int, rows: int) -> list[int]:
    salted = [mix((value + salt) & MASK) for value, salt in zip(values, expand(0x6B6579, bands * rows), strict=True)]
    return [mix(sum(salted[band * rows : (band + 1) * rows]) & MASK) for band in range(bands)]


def choose_kept(
    documents: Mapping[int, tuple], known: Mapping[tuple, bool], is_similar: Callable, *, starred: Callable
) -> tuple[dict[int, int], Mapping[tuple, bool]]:
    """Return the document kept for each, and the pairs compared, of documents that resemble others.

    Parameters
    ----------
    documents
        By doc_id the component, the shingle set's id and the sort key, less is better.
    known
        Whether two sets are similar, of pairs that were compared.
    is_similar
        Tells it of any other pair of sets; None where their sizes rule it out.
    starred
        Tells whether a removed document of this component must itself resemble the one kept.
    """
    ordered = sorted(documents, key=lambda one: documents[one][2])
    while True:
        owners: dict[int, int] = {}
        for one in ordered:
            component, own, _ = documents[one]
            for other in ordered:
                if other == one or (owners.get(other) == other and documents[other][0] == component):
                    theirs = documents[other][1]
                    if (
                        other == one
                        or not starred(component)
                        or own == theirs
                        or known.get((min(own, theirs), max(own, theirs)))
                    ):
                        owners[one] = other
                        break
        tops = {documents[one][1] for one in ordered if owners[one] == one and starred(documents[one][0])}
        gone = {own for _, own, _ in documents.values()} - tops
        around = {
            own: {other for pair, similar in known.items() if similar and own in pair for other in pair} & tops
            for own in gone
        }
        asked = {pair for others in around.values() for pair in combinations(sorted(others), 2)}
        answers = {pair: is_similar(*pair) for pair in asked if pair not in known}
        answers = {pair: answer for pair, answer in answers.items() if answer is not None}
        if not answers:
            break
        known = {**known, **answers}
    return owners, known

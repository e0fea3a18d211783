"""Facts of texts that two must share to say the same: vectors tell "approved" from "rejected" worse than a list does.

A fact is a word of `facts.txt`, by the name that the file gives it, or a number, name or quote as it stands. Those of a
kind are compared in their order, so "from 3 to 5" is not "from 5 to 3". The lists are of English, German and French
together, since a text is not asked for its language: a word that one of them has and another uses otherwise counts as
a fact in both texts, or parts two that say the same, never the reverse.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from importlib.resources import files

import numpy as np

from dedup.kernels import Flags, Hashes


def _read_words() -> dict[str, dict[str, str]]:
    """Return the facts of listed words, by kind."""
    found, kind, name = dict[str, dict[str, str]](), "", ""
    for line in files(__package__).joinpath("facts.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
            found[kind] = {}
        elif line and not line.startswith("#"):
            begin, separator, words = line.partition(": ")
            name = begin if separator else name
            found[kind] |= dict.fromkeys((words if separator else line).split(), name)
    return found


_LEXICON = _read_words()
_FUNCTION, _ABBREVIATED = (_LEXICON.pop(name) for name in ("function", "abbreviations"))
KINDS = (*_LEXICON, "names", "quotes")
"""Kinds of facts, in the order of their digests."""
FACT_BYTES = 16
WORDING = "wording"
"""Guard of pairs whose texts are alike but for words exchanged."""
EXCHANGED = 2
"""Tokens in other places, or other ones in their places, up to which texts of equal length are alike."""
CAPITALISED_ONLY = frozenset({"may", "march", "august"})
"""Months that are other words too, unless a capital begins them."""

_PLAIN = str.maketrans({"\u2019": "'", "\u2212": "-"})
"""An apostrophe and a minus of their own."""
_PARTS = re.compile(
    r"(?P<number>(?<![\w.,])[-+]?\d+(?:[.,' ]\d{3})+(?!\d)(?:[.,]\d+)?|(?<!\w)[-+]?\d+(?:[.,:/-]?\d+)*|\d+)"
    r"|(?P<word>[^\W\d_]+(?:['-][^\W\d_]+)*'?)"
    r"|(?P<symbol>[%‰$€£¥°])"
    r"|(?P<stop>[.!?:;…\n\"“”„«»()\[\]\u2013\u2014])"
)
_QUOTED = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|\"([^\"\n]+)\"|`([^`\n]+)`")
_COMPOUND = re.compile(r"(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und(\w+)")
_UNIT_NAMES = {"%": "percent", "‰": "permille", "lbs": "lb"}


def read_facts(text: str) -> dict[str, list[str]]:
    """Return the facts of a text of each of KINDS, in their order.

    Examples
    --------
    >>> facts = read_facts('On 3 May Anna Weber said "no" to 20 %.')
    >>> facts["numbers"], facts["dates"], facts["units"], facts["names"], facts["quotes"]
    (['3', '20'], ['m5'], ['percent'], ['may', 'anna', 'weber'], ['no'])
    """
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    parts, end = [*_PARTS.finditer(plain)], -2
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    found["quotes"] = [" ".join(next(filter(None, each.groups())).lower().split()) for each in _QUOTED.finditer(plain)]
    found["names"] = [*_find_names(parts)]
    for part in parts:
        kind, value = part.lastgroup, part.group()
        if kind == "number":
            found["numbers"].append(_normalise(value))
        elif kind == "symbol":
            found["units"].append(_UNIT_NAMES.get(value, value))
        elif kind == "word":
            for word in _divide(value):
                _add_word(found, word, follows_number=part.start() - end < 2)
        if kind == "number" or value == "°":
            end = part.end()
    return found


def _find_names(parts: Sequence[re.Match[str]]) -> Iterator[str]:
    """Yield the words with a capital that neither the beginning of a sentence nor a list explains."""
    words = {part.group() for part in parts}
    for before, part in zip((None, *parts), parts, strict=False):
        value, own = part.group(), part.group().lower()
        if part.lastgroup == "word" and value[0].isupper() and not _is_listed(own):
            begins = before is None or before.lastgroup == "stop"
            if not begins or (own not in _FUNCTION and own not in words):
                yield own.removesuffix("'s").removesuffix("'")


@cache
def _is_listed(word: str) -> bool:
    return word not in CAPITALISED_ONLY and any(word in lexicon for lexicon in _LEXICON.values())


def _divide(word: str) -> list[str]:
    """Return the words that hyphens and apostrophes join; a listed one stays whole."""
    own = word.lower()
    if ("'" not in word and "-" not in word) or any(own in lexicon for lexicon in _LEXICON.values()):
        return [word]
    if own.endswith("n't"):
        return [word[:-3], "not"]
    return [each for part in word.split("-") for each in re.findall(r"[^']+'?", part)]


def _add_word(found: dict[str, list[str]], word: str, *, follows_number: bool) -> None:
    own = word.lower()
    if compound := _COMPOUND.fullmatch(own):
        tens = _LEXICON["numbers"].get(compound[2])
        if tens:
            ones = _LEXICON["numbers"].get(compound[1], "1")
            found["numbers"] += [tens, ones]
            return
    for kind, lexicon in _LEXICON.items():
        if (fact := lexicon.get(own)) and (own not in CAPITALISED_ONLY or word[0].isupper() or kind != "dates"):
            found[kind].append(fact)
    if follows_number and own in _ABBREVIATED:
        found["units"].append(_UNIT_NAMES.get(own, own))


def _normalise(number: str) -> str:
    """Return a number with a point before its decimals and nothing between its thousands, where that is sure."""
    sign, digits = ("-", number[1:]) if number[0] == "-" else ("", number.removeprefix("+"))
    digits = re.sub(r"(?<=\d)[' ](?=\d{3})", "", digits)
    for thousands, decimal in (",.", ".,"):
        # One separator before three digits may be either: "1.500".
        if digits.count(thousands) > 1 or (thousands in digits and decimal in digits.partition(thousands)[2]):
            digits = digits.replace(thousands, "")
    return sign + digits.replace(",", ".")


def digest_facts(text: str) -> bytes:
    """Return a digest of the facts of each of KINDS, of FACT_BYTES each."""
    facts = read_facts(text)
    return b"".join(blake2b("\n".join(facts[kind]).encode(), digest_size=FACT_BYTES).digest() for kind in KINDS)


def are_exchanged(one: Hashes, other: Hashes) -> bool:
    """Tell whether texts have the same tokens but for one or two in place of others, or all in another order.

    A synonym and its opposite stand in the same place, and who does what to whom is their order: no count of words
    tells which of them it is.
    """
    if one.size != other.size:
        return False
    differing = np.count_nonzero(one != other)
    return bool(differing) and bool(differing <= EXCHANGED or np.array_equal(np.sort(one), np.sort(other)))


def find_exchanged(tokens: Sequence[Hashes], left: Sequence[int], right: Sequence[int]) -> Flags:
    """Flag the pairs of texts that are alike but for words exchanged."""
    return np.array([are_exchanged(tokens[a], tokens[b]) for a, b in zip(left, right, strict=True)], dtype=bool)

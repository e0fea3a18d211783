"""Facts of texts that two must share to say the same: vectors tell "approved" from "rejected" worse than a list does.

A fact is a word of `facts.txt`, by the name that the file gives it, or a number, name or quote as it stands. Those of a
kind are compared in any order, as often as they occur. The words are of English, German and French together, since a
text is not asked for its language: a word that one of them has and another uses otherwise counts as a fact in both
texts, or parts two that say the same, never the reverse.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from dedup.kernels import Hashes


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
_FUNCTION, _ABBREVIATED, _DETERMINERS = (_LEXICON.pop(name) for name in ("function", "abbreviations", "determiners"))
KINDS = (*_LEXICON, "quotes", "addresses")
"""Kinds of facts that are compared by digests, in their order."""
NAMES = "names"
FACT_BYTES = 16
WORDING = "wording"
"""Guard of pairs whose texts are alike but for words exchanged."""
EXCHANGED = 0.5
"""Share of the places of two texts of one length with other tokens, up to which words were exchanged."""
CAPITALISED_ONLY = frozenset({"may", "march", "august"})
"""Months that are other words too, unless a capital begins them."""

_PLAIN = str.maketrans({"\u2019": "'", "\u2212": "-"})
"""An apostrophe and a minus of their own."""
_PARTS = re.compile(
    r"(?P<number>(?<![\w.,])[-+]?\d+(?:[.,' ]\d{3})+(?!\d)(?:[.,]\d+)?"
    r"|(?:(?<!\w)[-+]?\d+(?:[.,:/-]?\d+)*|\d+)(?:\+(?!\w))?)"
    r"|(?P<word>[^\W\d_]+(?:['-][^\W\d_]+)*'?)"
    r"|(?P<symbol>[%‰$€£¥°])"
    r"|(?P<stop>[.!?:;…\n\"“”„«»()\[\]\u2013\u2014])"
)
_QUOTED = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|\"([^\"\n]+)\"|`([^`\n]+)`")
_VISIBLE = re.compile(r"[!-~]+")
_ADDRESS = re.compile(r"\w[/\\_@]\w|://|[^\W\d_]\.[^\W\d_]{2}")
"""Part of an address of the web or of mail, of a path, or of a name in code."""
_ELIDED = re.compile(r"(?:[ldjmtscn]|qu)'\w", re.IGNORECASE)
_COMPOUND = re.compile(r"(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und(\w+)")
_UNIT_NAMES = {"%": "percent", "‰": "permille", "lbs": "lb"}


def read_facts(text: str) -> dict[str, list[str]]:
    """Return the facts of a text of each of KINDS; names, and apart words with a capital that begin a sentence.

    Examples
    --------
    >>> facts = read_facts('On 3 May Anna Weber said "no" to 20 %.')
    >>> facts["numbers"], facts["dates"], facts["units"], facts["names"], facts["quotes"]
    (['3', '20'], ['m5'], ['percent'], ['may', 'anna', 'weber'], ['no'])
    """
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    parts, end = [(part.lastgroup, part.group(), part.span()) for part in _PARTS.finditer(plain)], -2
    found = {kind: list[str]() for kind in KINDS}
    found["quotes"] = [" ".join(next(filter(None, each.groups())).lower().split()) for each in _QUOTED.finditer(plain)]
    visible = (each.strip("<>()[]{}\"'`*.,;:!?/") for each in _VISIBLE.findall(plain))
    found["addresses"] = [each.lower() for each in visible if _ADDRESS.search(each)]
    found["names"], found["openers"] = _find_names(parts)
    for kind, value, (begin, stop) in parts:
        if kind == "word":
            for fact_kind, fact in _list_facts(value):
                found[fact_kind].append(fact)
            if begin - end < 2 and value.lower() in _ABBREVIATED:
                found["units"].append(_UNIT_NAMES.get(value.lower(), value.lower()))
        elif kind == "number":
            found["numbers"].append(_normalise(value))
        elif kind == "symbol":
            found["units"].append(_UNIT_NAMES.get(value, value))
        if kind == "number" or value == "°":
            end = stop
    return found


def _find_names(parts: Sequence[tuple[str | None, str, tuple[int, int]]]) -> tuple[list[str], list[str]]:
    """Return the words with a capital that no list explains, and apart those that begin a sentence."""
    names, openers, words = list[str](), list[str](), {value for _, value, _ in parts}
    before, begins = "", True
    for kind, value, _ in parts:
        if kind == "word" and (name := _to_name(value)):
            if value[0].islower() or not begins:
                # A noun of German has a capital like a name, which an article tells.
                if before.lower() not in _DETERMINERS:
                    names.append(name)
            elif name not in _FUNCTION and name not in words:
                openers.append(name)
        before, begins = value, kind == "stop"
    return names, openers


@lru_cache(1 << 16)
def _to_name(word: str) -> str:
    """Return what a word with a capital may name, without elided articles and genitives; empty of other words."""
    whole = word.rpartition("'")[2] if _ELIDED.match(word) else word
    own = whole.lower().removesuffix("'s").removesuffix("'")
    is_listed = own not in CAPITALISED_ONLY and any(own in lexicon for lexicon in _LEXICON.values())
    return "" if not whole[:1].isupper() or is_listed else own


@lru_cache(1 << 16)
def _list_facts(word: str) -> tuple[tuple[str, str], ...]:
    """Return the facts of a word, or of the words that hyphens and apostrophes join, each after its kind."""
    own = word.lower()
    if ("'" in word or "-" in word) and not any(own in lexicon for lexicon in _LEXICON.values()):
        if own.endswith("n't"):
            return (*_list_facts(word[:-3]), *_list_facts("not"))
        joined = [each for part in word.split("-") for each in re.findall(r"[^']+'?", part)]
        return tuple(fact for each in joined if each != word for fact in _list_facts(each))
    if (compound := _COMPOUND.fullmatch(own)) and (tens := _LEXICON["numbers"].get(compound[2])):
        return ("numbers", tens), ("numbers", _LEXICON["numbers"].get(compound[1], "1"))
    return tuple(
        (kind, lexicon[own])
        for kind, lexicon in _LEXICON.items()
        if own in lexicon and (own not in CAPITALISED_ONLY or word[0].isupper() or kind != "dates")
    )


def _normalise(number: str) -> str:
    """Return a number with a point before its decimals and nothing between its thousands, where that is sure."""
    sign, digits = ("-", number[1:]) if number[0] == "-" else ("", number.removeprefix("+"))
    digits = re.sub(r"(?<=\d)[' ](?=\d{3})", "", digits)
    for thousands, decimal in (",.", ".,"):
        # One separator before three digits may be either: "1.500".
        if digits.count(thousands) > 1 or (thousands in digits and decimal in digits.partition(thousands)[2]):
            digits = digits.replace(thousands, "")
    return sign + digits.replace(",", ".")


class Facts(NamedTuple):
    """Facts of a text, to be compared."""

    digests: bytes
    """Digest of the facts of each of KINDS, of FACT_BYTES each."""
    names: bytes
    """Hashes of names, 8 bytes each, distinct."""
    openers: bytes
    """Hashes of words with a capital that begin a sentence."""


def digest_facts(text: str) -> Facts:
    """Return the digests of the facts of a text."""
    facts = read_facts(text)
    digests = (_digest("\n".join(sorted(facts[kind])), FACT_BYTES) for kind in KINDS)
    names, openers = (b"".join(_digest(each, 8) for each in sorted({*facts[kind]})) for kind in (NAMES, "openers"))
    return Facts(b"".join(digests), names, openers)


def _digest(text: str, size: int) -> bytes:
    return blake2b(text.encode(), digest_size=size).digest()


def share_names(one: Sequence[Hashes], other: Sequence[Hashes]) -> bool:
    """Tell whether texts have the same names, given the names and the openers of each.

    A word that begins a sentence may be a name or not: it is one if the other text has it as a name, and if both texts
    have such words that the other has nowhere, they may be different names.
    """
    every = [np.concatenate(each) for each in (one, other)]
    if not (np.isin(one[0], every[1]).all() and np.isin(other[0], every[0]).all()):
        return False
    return bool(np.isin(one[1], every[1]).all() or np.isin(other[1], every[0]).all())


def are_exchanged(one: Hashes, other: Hashes) -> bool:
    """Tell whether texts of one length agree in at least half of their places, or are of the same tokens in all.

    A synonym and its opposite stand in the same place, and who does what to whom is an order: no vector tells which of
    them it is. Of one text said anew hardly a word stays in its place. Equal texts are not exchanged. Of texts of two
    lengths some tokens in a row were added, or have taken the place of others, and the rest is at least half of the
    longer one.
    """
    if one.size != other.size:
        least = min(one.size, other.size)
        begin = _count_equal(one[:least], other[:least])
        common = begin + _count_equal(one[::-1][: least - begin], other[::-1][: least - begin])
        return bool(EXCHANGED * max(one.size, other.size) <= common)
    differing = np.count_nonzero(one != other)
    return bool(0 < differing <= EXCHANGED * one.size) or are_reordered(one, other)


def _count_equal(one: Hashes, other: Hashes) -> int:
    """Return how many places from the first on are equal."""
    differing = one != other
    return int(differing.argmax()) if differing.any() else one.size


def are_reordered(one: Hashes, other: Hashes) -> bool:
    """Tell whether texts have the same tokens, each as often, in another order."""
    return (
        one.size == other.size and not np.array_equal(one, other) and bool(np.array_equal(np.sort(one), np.sort(other)))
    )


def find_overlap(one: Hashes, other: Hashes) -> float:
    """Return the Jaccard similarity of the words of two texts, as sets; 1 of texts without any."""
    shared, every = np.intersect1d(one, other).size, np.union1d(one, other).size
    return shared / every if every else 1.0

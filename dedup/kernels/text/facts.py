"""Facts of texts that two must share to say the same: vectors tell "approved" from "rejected" worse than a list does.

A fact is a word of `facts.txt`, by the name that the file gives it, or a number, name or quote as it stands. Those of a
kind are compared in any order, as often as they occur. The words are of English, German and French together, since a
text is not asked for its language: a word that one of them has and another uses otherwise counts as a fact in both
texts, or parts two that say the same, never the reverse.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
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
KINDS = (*_LEXICON, "quotes")
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
    r"(?P<number>(?<![\w.,])[-+]?\d+(?:[.,' ]\d{3})+(?!\d)(?:[.,]\d+)?|(?<!\w)[-+]?\d+(?:[.,:/-]?\d+)*|\d+)"
    r"|(?P<word>[^\W\d_]+(?:['-][^\W\d_]+)*'?)"
    r"|(?P<symbol>[%‰$€£¥°])"
    r"|(?P<stop>[.!?:;…\n\"“”„«»()\[\]\u2013\u2014])"
)
_QUOTED = re.compile(r"“([^“”]+)”|„([^„“”]+)[“”]|«([^«»]+)»|\"([^\"\n]+)\"|`([^`\n]+)`")
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
    parts, end = [*_PARTS.finditer(plain)], -2
    found = {kind: list[str]() for kind in KINDS}
    found["quotes"] = [" ".join(next(filter(None, each.groups())).lower().split()) for each in _QUOTED.finditer(plain)]
    found["names"], found["openers"] = _find_names(parts)
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


def _find_names(parts: Sequence[re.Match[str]]) -> tuple[list[str], list[str]]:
    """Return the words with a capital that no list explains, and apart those that begin a sentence."""
    words = {part.group() for part in parts}
    names, openers = list[str](), list[str]()
    for before, part in zip((None, *parts), parts, strict=False):
        elided, _, whole = part.group().rpartition("'") if _ELIDED.match(part.group()) else ("", "", part.group())
        own = whole.lower().removesuffix("'s").removesuffix("'")
        if part.lastgroup != "word" or not whole[:1].isupper() or _is_listed(own):
            continue
        if elided or (before is not None and before.lastgroup != "stop"):
            # A noun of German has a capital like a name, which an article tells.
            if before is None or before.group().lower() not in _DETERMINERS:
                names.append(own)
        elif own not in _FUNCTION and own not in words:
            openers.append(own)
    return names, openers


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
    them it is. Of one text said anew hardly a word stays in its place. Equal texts are not exchanged.
    """
    if one.size != other.size:
        return False
    differing = np.count_nonzero(one != other)
    return bool(differing) and bool(differing <= EXCHANGED * one.size or np.array_equal(np.sort(one), np.sort(other)))

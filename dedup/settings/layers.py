"""The settings of the layers but `near`, whose settings are older than the word."""

from dataclasses import dataclass, field
from typing import Literal

from dedup.errors import ConfigError
from dedup.settings.rules import Range, Table, Texts

NEAR = "near"
NAMES = ("url", "exact", NEAR, "passages")
"""Layers there are, in the order of most pipelines."""


def check_layers(names: Texts, where: str) -> None:
    """Refuse layers that are unknown or named twice, and a run of none.

    Raises
    ------
    ConfigError
    """
    unknown = [name for name in names if name not in NAMES]
    if not names or unknown or len({*names}) < len(names):
        rule = f"layers must name some of {', '.join(NAMES)}, each once"
        raise ConfigError(f"{where}: {rule} (got {', '.join(map(repr, names)) or 'none'})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Url(Table):
    """Layer "url": of documents of one address, one stays."""

    column: str = ""
    """Column of the addresses, dots leading to fields of structs; a null or what is no URL is like no other."""

    scheme: Literal["ignore", "compare"] = "ignore"
    """Scheme: with "ignore" http and https are one, with "compare" they are not."""

    query: Literal["compare", "ignore"] = "compare"
    """Query: "compare" sorts its parameters and leaves out those of tracking, "ignore" leaves out all of it."""

    tracking: Texts = ("utm_*", "fbclid", "gclid", "dclid", "msclkid", "yclid", "igshid", "mc_cid", "mc_eid", "_ga")
    """Parameters of the query that say where a reader came from and not which page it is, a list of Unicode strings, in
    which a star stands for any characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Table):
    """Layer "exact": of documents of one text, one stays; empty ones are like no other."""

    compare: Literal["bytes", "text"] = "bytes"
    """Equality: "bytes" of the text in UTF-8, or "text" as [text] normalises it, its tokens in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages(Table):
    """Layer "passages": of spans of tokens that occur twice, in one document or in several, one stays."""

    tokens: int = field(default=50, metadata={"range": Range(10, 1000)})
    """Tokens, as [text] has them, of the shortest passage, an integer from 10 to 1000."""

    action: Literal["cut", "drop", "mark"] = "cut"
    """What becomes of passages: "cut" takes them out of the texts, "drop" removes documents of which they are a share
    of at least drop_share and leaves the others whole, "mark" lists them in OUT/spans and changes nothing."""

    keep_first: bool = True
    """Whether one occurrence of each passage stays, that of the first document by keep.order, true or false; no token
    of it is cut for another passage, so what stays is whole. With false all go."""

    drop_share: float = field(default=0.5, metadata={"range": Range(0, 1, above=True)})
    """Least share of a document's tokens that must be repeated for "drop" to remove it, a number above 0 and at most
    1."""

    min_tokens_left: int = field(default=10, metadata={"range": Range(0)})
    """Least tokens that "cut" must leave of a document, a 64-bit integer of at least 0; one with fewer is removed."""

    ends: Literal["token", "sentence"] = "token"
    """Where passages are cut: with "token" before their first and behind their last word, with "sentence" where a
    sentence or line begins and ends, if one does within a fifth of tokens on their inside; what stays may then be
    repeated."""

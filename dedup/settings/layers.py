"""Settings of all layers but `near`, which has tables of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from dedup.errors import ConfigError
from dedup.settings.rules import Range, Table, Texts

NEAR = "near"
NAMES = ("url", "exact", "lines", NEAR, "containment", "contamination", "passages")
"""Layers there are, in the order of most pipelines."""


def check_layers(names: Texts, where: str) -> None:
    """Refuse unknown layers, repeated ones and an empty list.

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
    """Column of the addresses, dots leading to fields of structs; http and https are one, and a null or what is no
    URL is like no other."""

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


class PromptSet(NamedTuple):
    """An entry of `contamination.sets`: its three parts between colons."""

    name: str
    column: str
    path: str


def parse_sets(entries: Sequence[str], where: str) -> tuple[PromptSet, ...]:
    """Return the entries of `contamination.sets`.

    Raises
    ------
    ConfigError
        When an entry is malformed, or two have one name.
    """
    # Behind the last colon of the two is the path, which may have more of them.
    sets = [PromptSet(*(*entry.split(":", 2), "", "")[:3]) for entry in entries]
    for each, entry in zip(sets, entries, strict=True):
        if not all(part.strip() for part in each):
            raise ConfigError(f"{where}: sets must have entries NAME:COLUMN:PATH (got {entry!r})")
    names = [each.name for each in sets]
    if len({*names}) < len(names):
        raise ConfigError(f"{where}: sets must have names of their own (got {', '.join(names)})")
    return tuple(sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Table):
    """Layer "lines": lines that many documents have, such as menus and notices, each with all its occurrences."""

    unit: Literal["line", "paragraph"] = "line"
    """Unit that is counted and cut: "line", or "paragraph", a block of lines between blank ones."""

    compare: Literal["bytes", "text"] = "bytes"
    """Equality: "bytes" of the line without white space at both ends, or "text" as [text] normalises it, its tokens in
    their order, so that case, width and punctuation do not count."""

    documents: int = field(default=100, metadata={"range": Range(1)})
    """Documents that may have a line, a 64-bit integer of at least 1; a line that more of them have is common."""

    sources: int = field(default=0, metadata={"range": Range(0)})
    """Sources, by input.source_column, of which a line is common too, a 64-bit integer of at least 0; 0 asks for
    none."""

    min_characters: int = field(default=20, metadata={"range": Range(1)})
    """Characters that a line must have to count, without white space at both ends, a 64-bit integer of at least 1:
    shorter ones are headings, brackets and fences of code as often as boilerplate."""

    action: Literal["cut", "ignore", "mark"] = "cut"
    """Action on common lines: "cut" takes them out of the texts, with their ends; "ignore" leaves them in the output,
    but the layers that follow do not see them; "mark" only lists them in the folder spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment(Table):
    """Layer "containment": documents of which a larger one includes most, such as quotes and parts."""

    threshold: float = field(default=0.9, metadata={"range": Range(0, 1, above=True)})
    """Least share of a document's shingles that another of as many or more must have for the former to go, a number
    above 0 and at most 1."""

    min_shingles: int = field(default=20, metadata={"range": Range(1)})
    """Shingles that a document must have to be removed, a 64-bit integer of at least 1: of few shingles many documents
    have most by chance."""

    max_larger: int = field(default=150, metadata={"range": Range(1)})
    """Larger documents that a document is compared with for one shingle that they share, a 64-bit integer of at least
    1: the largest of them; pairs beyond that are counted in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contamination(Table):
    """Layer "contamination": documents that share n consecutive tokens with texts that a model is to be tested by."""

    sets: Texts = ()
    """Sets of texts, a list of Unicode strings NAME:COLUMN:PATH: the name that the report calls a set by, the column of
    its texts, dots leading to fields of structs, and its file, glob or folder, of any format that is read."""

    match_tokens: int = field(default=13, metadata={"range": Range(1, 64)})
    """Consecutive tokens that make a match, an integer from 1 to 64; a text of the sets with fewer matches as a
    whole."""

    action: Literal["drop", "cut", "mark"] = "drop"
    """Action on matches: "drop" removes the documents; "cut" takes them out of the texts, with the margin; "mark" only
    lists them in the folder spans, as the others do too."""

    margin: int = field(default=0, metadata={"range": Range(0, 10_000)})
    """Tokens on both sides of a match that "cut" takes out as well, an integer from 0 to 10000."""

    common: int = field(default=0, metadata={"range": Range(0)})
    """Documents that may share n tokens for these to count, a 64-bit integer of at least 0: those of more are a common
    phrase, which removes and cuts nothing and is listed apart in the report and in the folder spans. 0 sets no
    limit."""

    def __post_init__(self) -> None:
        """Check the fields, then the entries of the sets."""
        Table.__post_init__(self)
        parse_sets(self.sets, type(self).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages(Table):
    """Layer "passages": of spans of tokens that occur twice, in one document or in several, one stays."""

    tokens: int = field(default=50, metadata={"range": Range(10, 1000)})
    """Tokens, as [text] has them, of the shortest passage, an integer from 10 to 1000."""

    action: Literal["cut", "drop", "mark"] = "cut"
    """Action on passages: "cut" takes them out of the texts, "drop" removes documents of which they are a share of at
    least drop_share and leaves the others whole, "mark" lists them in OUT/spans and changes nothing."""

    keep_first: bool = True
    """Whether one occurrence of each passage stays, that of the first document by keep.order, true or false; no token
    of it is cut for another passage, so what stays is whole. With false all go."""

    drop_share: float = field(default=0.5, metadata={"range": Range(0, 1, above=True)})
    """Least share of a document's tokens that must be repeated for "drop" to remove it, a number above 0 and at most
    1."""

    min_tokens_left: int = field(default=10, metadata={"range": Range(0)})
    """Least tokens that "cut" must leave of a document, a 64-bit integer of at least 0; one with fewer is removed."""

    ends: Literal["token", "sentence"] = "token"
    """Boundaries of cuts: "token" cuts before the first and behind the last word of a passage, "sentence" where a
    sentence or line begins and ends, if one does within a fifth of tokens on their inside; what stays may then be
    repeated."""

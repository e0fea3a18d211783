"""Explanations as text, plain or with a terminal's colours."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

from dedup.display import printable
from dedup.explain.comparison import TextComparison
from dedup.explain.differ import WordRun, shorten
from dedup.explain.values import Explanation, Pair, Removal, Span, Top

LINES = 12
"""Most lines of differences, unless all are wanted."""
SPANS = 10
"""Most spans, unless all are wanted."""
BANDS = 12
"""Most agreeing bands named; the JSON has all."""
INDENT = "    "
RED, GREEN, BOLD, PLAIN = "\033[31m", "\033[32m", "\033[1m", "\033[0m"
MARKS = {"removed": ("[-", "-]", RED), "kept": ("{+", "+}", GREEN)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Layout of text."""

    width: int = 100
    """Characters of a line."""
    colour: bool = False
    full: bool = False
    """Show whole texts, shared parts included."""


def to_json(found: Explanation | Top) -> str:
    """Write an explanation or a list as JSON; the words of texts are joined to strings again."""
    return json.dumps(asdict(found, dict_factory=_join_words), indent=1)


def _join_words(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(entries)
    if named.keys() == {"shared", "left", "right"}:
        return {name: "".join(value) if isinstance(value, tuple) else value for name, value in named.items()}
    return named


def to_text(found: Explanation, style: Style) -> str:
    """Write an explanation for people."""
    return "\n".join(_write(found, style))


def _write(found: Explanation, style: Style) -> Iterator[str]:
    yield from _head(found)
    for pair in found.chain:
        yield from _show_pair(pair, style)
    if found.direct and len(found.chain) != 1:
        yield from _show_pair(found.direct, style)
    if found.removed:
        yield from ("", *_list_removals("least similar of the documents removed for it", found.removed))
    yield from _list_spans(found.spans, style)
    if found.text:
        yield from ("", "its text, with what was cut in [- and -]")
        yield from _show_pieces(found.text, style)
    for pair in found.near_misses:
        yield from _show_pair(pair, style)
    if found.fate == "kept" and not (found.direct or found.near_misses):
        yield from ("", "no near miss: no document that it was compared with falls just short of the threshold")


def _head(found: Explanation) -> Iterator[str]:
    yield _field("document", found.id)
    if found.fate == "removed":
        yield _field("removed", f"{found.kind}{_tell_instead(found)}")
        yield _field("layer", found.layer)
    else:
        others = found.stands_for
        yield _field("kept", f"stands for {others:,} removed" if others else "no other is removed for it")
    if found.profile:
        yield _field("profile", found.profile)
    if found.documents > 1:
        yield _field("component", f"{found.component_id}, {found.documents:,} documents")
    if found.copies:
        yield _field("equal rows", f"{found.copies:,} removed")
    if found.direct:
        if found.direct.fate:
            yield _field("other", f"{found.direct.right_id}, {found.direct.fate}")
        yield _field("directly", found.direct.verdict)
    if found.chain:
        yield _field("chain", " -> ".join([str(found.id), *(str(pair.right_id) for pair in found.chain)]))
    measured = [pair for pair in found.chain if pair.jaccard is not None]
    if len(found.chain) > 1 and measured:
        weakest = min(measured, key=lambda pair: pair.jaccard or 0)
        yield _field("weakest link", f"{weakest.left_id} -> {weakest.right_id}, Jaccard {weakest.jaccard:.4f}")
    for note in found.notes:
        yield _field("note", note)


def _tell_instead(found: Explanation) -> str:
    if found.representative_id is not None:
        return f", a duplicate of {found.representative_id}"
    return ", as all documents alike were" if found.is_dropped else ""


def _field(name: str, value: object) -> str:
    return f"{name:<15}{printable(str(value))}"


def _show_pair(pair: Pair, style: Style) -> Iterator[str]:
    heading = printable(f"{pair.left_id} -> {pair.right_id}") + (f" ({printable(pair.fate)})" if pair.fate else "")
    yield ""
    yield f"{BOLD}{heading}{PLAIN}" if style.colour else heading
    yield f"{INDENT}{pair.verdict}"
    if pair.comparison:
        yield f"{INDENT}{_summarise(pair.comparison)}"
        yield ""
        yield from _show_pieces(pair.comparison.pieces, style)


def _summarise(found: TextComparison) -> str:
    summary = (
        f"{found.shared:,} shingles shared, {found.left_only:,} in the first only, "
        f"{found.right_only:,} in the second only"
    )
    if found.bands is None:
        return summary
    if not found.bands or found.jaccard == 1:
        return f"{summary}; {'all' if found.bands else 'no'} bands agree"
    shown = ", ".join(map(str, found.bands[:BANDS])) + (", ..." if len(found.bands) > BANDS else "")
    return f"{summary}; {len(found.bands)} bands agree ({shown})"


def _show_pieces(pieces: Sequence[WordRun], style: Style) -> Iterator[str]:
    """Yield the differences of two texts with the words around them: [-words of the first-]{+words of the second+}."""
    if all(piece.shared for piece in pieces):
        alike = all(piece.left == piece.right for piece in pieces)
        yield f"{INDENT}the same words in the same order" + ("" if alike else "; case, punctuation or spaces differ")
        return
    lines = [*_wrap(_mark(pieces, full=style.full), style)]
    shown = lines if style.full or len(lines) <= LINES + 1 else lines[:LINES]
    yield from shown
    if len(shown) < len(lines):
        yield f"{INDENT}... {len(lines) - len(shown):,} more lines (--full shows them)"


def _mark(pieces: Sequence[WordRun], *, full: bool) -> Iterator[tuple[str, str]]:
    """Yield coloured words; of shared ones those next to a difference."""
    for kind, words in chain.from_iterable(shorten(pieces, full=full)):
        split = "".join(words).split()
        if kind == "gap":
            yield f"... {len(words):,} words ...", ""
        elif kind == "shared":
            yield from ((printable(word), "") for word in split)
        else:
            begin, end, colour = MARKS[kind]
            yield from ((word, colour) for word in printable(f"{begin}{' '.join(split)}{end}").split(" "))


def _wrap(words: Iterable[tuple[str, str]], style: Style) -> Iterator[str]:
    """Yield lines of whole words."""
    line, length = "", 0
    for word, colour in words:
        if length and length + 1 + len(word) > style.width - len(INDENT):
            yield INDENT + line
            line, length = "", 0
        line += (" " if length else "") + (f"{colour}{word}{PLAIN}" if style.colour and colour else word)
        length += len(word) + bool(length)
    if line:
        yield INDENT + line


def _list_removals(title: str, removals: Sequence[Removal]) -> Iterator[str]:
    yield from _table(
        title,
        ("id", "layer", "kept instead", "edges between", "direct Jaccard"),
        [(each.id, each.layer, each.representative_id, f"{each.steps:,}", _decimal(each.jaccard)) for each in removals],
    )


def _decimal(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def _list_spans(spans: Sequence[Span], style: Style) -> Iterator[str]:
    """Yield parts of a text, and where they stay."""
    shown = spans if style.full else spans[:SPANS]
    for span in shown:
        stays = "" if span.kept_id is None else f", stays in {span.kept_id} at {span.kept_begin:,}"
        yield ""
        yield printable(f"characters {span.begin:,} to {span.end:,}: {span.effect} by {span.layer}, {span.kind}{stays}")
        text = " ".join(span.text.split())
        most = len(text) if style.full else style.width - len(INDENT)
        yield INDENT + printable(text if len(text) <= most else text[: most - 4] + " ...")
    if len(shown) < len(spans):
        yield f"... {len(spans) - len(shown):,} more (--full shows them)"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in (list(head), *cells)) for place in range(len(head))]
    yield title
    for row in (list(head), *cells):
        yield INDENT + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def to_tables(top: Top) -> str:
    """Write the components and removals worth a look as tables."""
    largest = [
        (
            f"{each.documents:,}",
            "-" if each.representative_id is None else each.representative_id,
            each.component_id,
            each.text,
        )
        for each in top.largest
    ]
    if not largest:
        return "no document was removed"
    return "\n".join(
        (
            *_table("largest components", ("documents", "kept", "component", "its text begins"), largest),
            "",
            *_list_removals("removals with the longest chains", top.longest),
            "",
            *_list_removals("removals least similar to the document kept", top.least_similar),
        )
    )

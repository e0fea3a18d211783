"""The layer of lines: lines or paragraphs that many documents have, each cut or marked wherever it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, describe
from dedup.kernels.runs.batches import conform, take_equal
from dedup.kernels.runs.counting import add_groups, count_groups
from dedup.kernels.runs.groups import drop_repeated
from dedup.kernels.text import lines
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.layer import CHANGED, EarlierKeys, Found, Layer, Setup
from dedup.settings.rules import Range, Table
from dedup.tables.arrow import SPANS, integer_lists, integers

NAME = "lines"
MOST = 20
"""Common lines shown in the report, those of most documents."""
SHOWN_CHARACTERS = 200
"""Characters shown of each."""
KEY = ("high", "low")
"""Halves of the digest of a line."""

PLACES = ("high", "low", "begin", "end", "first")
"""Columns of a line in a text; `first` is 1 where the text has it for the first time, else 0."""
HELD = pa.schema(integer_lists(*PLACES))
"""Lines of a document."""
LISTED = integers("doc_id", *PLACES)
"""Occurrences of lines."""
OWN, WHOLE, CUT = range(3)
"""States of occurrences: of this batch, or of an earlier one, which has left or found it."""
MET = pa.schema([*LISTED, *integers("state")])
"""Occurrences of lines of a batch, and those of the same lines in earlier ones."""
TOLD = pa.schema([*MET, *integers("common")])
"""The first, with 1 where the line is common; and of the others those of which another state is known than that."""
STORED = integers(*PLACES[:2], "doc_id", *PLACES[2:], "common")
"""Rows of the table of this name in a store."""
COUNTED = integers(*KEY, "documents", "occurrences", "characters", "doc_id", "begin", "end")
"""Common lines with their first occurrence."""
TOTALS = ("lines", "all_occurrences", "all_characters")
CHOSEN = integers("one", *TOTALS, *COUNTED.names)
SHOWN = pa.schema([*integers("doc_id", *TOTALS), *integer_lists("documents", "occurrences", "begin", "end")])
"""The lines that the report shows, by the document of their first occurrence, with what all common ones come to."""
TEXTS = pa.schema([("text", pa.string()), *integers("documents", "occurrences")])


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

    min_characters: int = field(default=20, metadata={"range": Range(1)})
    """Characters that a line must have to count, without white space at both ends, a 64-bit integer of at least 1:
    shorter ones are headings, brackets and fences of code as often as boilerplate."""

    action: Literal["cut", "ignore", "mark"] = "cut"
    """Action on common lines: "cut" takes them out of the texts, with their ends; "ignore" leaves them in the output,
    but the layers that follow do not see them; "mark" only lists them in the folder spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesLayer(Layer):
    """The layer with its settings.

    All occurrences of a common line go, the first too: what a hundred documents say around their own text belongs to
    none of them.
    """

    name = NAME
    table = Lines
    reads = ()
    is_incremental = True
    settings: Lines
    tokenizer: Tokenizer

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        return cls(settings=setup.config.of(Lines), tokenizer=setup.tokenizer)

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: DOCUMENTS -> SPANS.

        Every line is shuffled once, as 48 bytes, and a second time if it is common. Whoever counts a line holds back
        no more rows than those of the documents that may have it, so a line of any number of documents is counted
        exactly.
        """
        documents = self._read(engine)
        count = Shuffle(
            emit=_list,
            emitted=LISTED,
            by=KEY,
            order=["doc_id", "begin"],
            work=partial(_select, enough=self.enough),
            schema=LISTED,
            repeated=True,
        )
        return self._tell(engine, documents, engine.group("common", documents, count))

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch: a line counts in earlier ones too, which stay as they are.

        See `Layer.find_since`.
        """
        documents = self._read(engine)
        own = engine.map(documents, _list_own, MET, name="listed")
        met = engine.map(past.look_up(engine, NAME, own), _meet, MET)
        count = Shuffle(
            emitted=MET,
            by=KEY,
            order=["doc_id", "begin", "state"],
            work=partial(_judge, enough=self.enough),
            schema=TOLD,
        )
        told = engine.group("told", engine.concat(own, met), count)
        common = engine.map(told, partial(take_equal, schema=LISTED, state=OWN, common=1), LISTED, name="common")
        return replace(
            self._tell(engine, documents, common),
            stored={NAME: engine.map(told, partial(take_equal, schema=STORED, state=OWN), STORED)},
            changes=engine.map(told, _to_changes, CHANGED, name="changed"),
        )

    @property
    def enough(self) -> int:
        """Documents from which on a line is common."""
        return self.settings.documents + 1

    def _read(self, engine: Engine[Rows]) -> Rows:
        return describe(engine, "documents", partial(_read, settings=self.settings, tokenizer=self.tokenizer), HELD)

    def _tell(self, engine: Engine[Rows], documents: Rows, common: Rows) -> Found[Rows]:
        spans = engine.map(common, partial(_to_spans, kind=self.settings.unit), SPANS)
        details = _describe(engine, common)
        return Found(documents=documents, spans=spans, effect=self.settings.action, details=details)


def _read(batch: pa.RecordBatch, *, settings: Lines, tokenizer: Tokenizer) -> Mapping[str, pa.Array]:
    found = lines.read_lines(
        batch["text"],
        tokenizer,
        by_paragraph=settings.unit == "paragraph",
        by_tokens=settings.compare == "text",
        min_characters=settings.min_characters,
    )
    owners = np.repeat(np.arange(batch.num_rows), np.diff(found.offsets))
    first = np.zeros(owners.size, dtype=np.int64)
    first[np.unique(owners * (found.numbers.max(initial=0) + 1) + found.numbers, return_index=True)[1]] = 1
    offsets = pa.array(found.offsets, pa.int32())
    columns = zip(PLACES, (found.high, found.low, found.begins, found.ends, first), strict=True)
    return {name: pa.ListArray.from_arrays(offsets, pa.array(values, pa.int64())) for name, values in columns}


def _list(batches: Batches) -> Batches:
    """Give every line a row."""
    for batch in batches:
        owners = batch["doc_id"].take(pc.list_parent_indices(batch["begin"]))
        yield pa.RecordBatch.from_arrays([owners, *(batch[name].flatten() for name in PLACES)], schema=LISTED)


def _select(batches: Batches, *, enough: int) -> Batches:
    """Take the lines that enough documents have."""
    # Equal rows, which share a document id, are one document.
    distinct = drop_repeated(batches, (*KEY, "doc_id", "begin"))
    for batch, counts in count_groups(distinct, KEY, enough):
        yield batch.filter(pa.array(counts >= enough))


def _list_own(batches: Batches) -> Batches:
    for batch in _list(batches):
        yield conform(batch, MET, state=OWN)


def _meet(batches: Batches) -> Batches:
    for batch in batches:
        yield conform(batch, MET, state=np.where(batch["common"].to_numpy(), CUT, WHOLE))


def _judge(batches: Batches, *, enough: int) -> Batches:
    """MET -> TOLD."""
    # A document that an earlier batch has too is one, and its own row comes first.
    distinct = drop_repeated(batches, (*KEY, "doc_id", "begin"))
    for batch, counts in count_groups(distinct, KEY, enough):
        states, common = batch["state"].to_numpy(), counts >= enough
        wanted = (states == OWN) | ((states == CUT) != common)
        yield conform(batch, TOLD, common=common.astype(np.int64)).filter(pa.array(wanted))


def _to_changes(batches: Batches) -> Batches:
    for batch in batches:
        earlier = batch.filter(pc.not_equal(batch["state"], OWN))
        was, would_be = (pc.equal(earlier[name], value) for name, value in (("state", WHOLE), ("common", 0)))
        yield conform(earlier, CHANGED, was_kept=was, would_be_kept=would_be)


def _to_spans(batches: Batches, *, kind: str) -> Batches:
    for batch in batches:
        yield conform(batch.select(["doc_id", "begin", "end"]), SPANS, layer=NAME, kind=kind)


def _describe(engine: Engine[Rows], common: Rows) -> dict[str, Any]:
    """Return what the report says of the common lines."""
    add = partial(add_groups, by=KEY, sums=COUNTED.names[2:5], firsts=COUNTED.names[5:])
    counted = engine.group(
        "counted",
        common,
        Shuffle(emit=_open, emitted=COUNTED, by=KEY, order=["doc_id", "begin"], work=add, schema=COUNTED),
    )
    shown = engine.group(
        "shown", counted, Shuffle(emit=_choose, emitted=CHOSEN, by=["one"], order=KEY, work=_join, schema=SHOWN)
    )
    totals = engine.collect(shown).select(list(TOTALS)).to_pylist()
    texts = engine.collect(engine.fetch("texts", shown, _show, TEXTS)).to_pylist()
    lines, occurrences, characters = totals[0].values() if totals else (0, 0, 0)
    return {
        "lines": lines,
        "occurrences": occurrences,
        "characters": characters,
        "most": sorted(texts, key=lambda line: (-line["documents"], -line["occurrences"], line["text"])),
    }


def _open(batches: Batches) -> Batches:
    """Count every occurrence as one."""
    for batch in batches:
        characters = pc.subtract(batch["end"], batch["begin"])
        yield conform(batch, COUNTED, documents=batch["first"], occurrences=1, characters=characters)


def _rank(rows: pa.Table) -> pa.Table:
    """Return the lines to show, those of most documents first."""
    keys = [("documents", "descending"), ("occurrences", "descending"), *((name, "ascending") for name in KEY)]
    return rows.sort_by(keys).slice(0, MOST)


def _choose(batches: Batches) -> Batches:
    """Take the lines to show of each batch; its first row has what all lines of the batch come to."""
    for batch in batches:
        if batch.num_rows:
            rows = _rank(pa.Table.from_batches([batch.select(COUNTED.names)]))
            sums = batch.num_rows, *(pc.sum(batch[name]).as_py() for name in ("occurrences", "characters"))
            totals = [pa.array([each] + [0] * (rows.num_rows - 1), pa.int64()) for each in sums]
            one = pa.array(np.zeros(rows.num_rows, dtype=np.int64))
            yield from pa.Table.from_arrays([one, *totals, *rows.columns], schema=CHOSEN).to_batches()


def _join(batches: Batches) -> Batches:
    """Take the lines to show of all, by document."""
    rows = pa.Table.from_batches(batches, CHOSEN)
    totals = [pc.sum(rows[name]).as_py() for name in TOTALS]
    shown = _rank(rows).group_by("doc_id", use_threads=False)
    lists = shown.aggregate([(name, "list") for name in SHOWN.names[4:]])
    if lists.num_rows:
        whole = [pa.repeat(pa.scalar(each, pa.int64()), lists.num_rows) for each in totals]
        yield from pa.Table.from_arrays([lists["doc_id"], *whole, *lists.columns[1:]], schema=SHOWN).to_batches()


def _show(batches: Batches) -> Batches:
    """Read what the lines to show say."""
    for batch in batches:
        rows = [
            {"text": text[begin:end].strip()[:SHOWN_CHARACTERS], "documents": documents, "occurrences": occurrences}
            for text, *lists in zip(
                *(batch[name].to_pylist() for name in ("text", "begin", "end", "documents", "occurrences")), strict=True
            )
            for begin, end, documents, occurrences in zip(*lists, strict=True)
        ]
        yield pa.RecordBatch.from_pylist(rows, TEXTS)

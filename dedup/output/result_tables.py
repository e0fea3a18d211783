"""DECISIONS, EDGES, SPANS -> the rows of a result, and the tables that explain it, in the user's ids."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, ParamSpec, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, once
from dedup.errors import DedupError
from dedup.informing import NEAR_MISSES, SKETCH, SOURCES, TEXTS, Inform
from dedup.layers.near.sketching import merge_cells
from dedup.output.row_decisions import REASON, Findings, count_sources, decide, read_profiles
from dedup.output.spans import write_spans
from dedup.output.weights import weigh
from dedup.settings.options import Config
from dedup.tables import arrow
from dedup.tables.counts import Layered, Written

QUARANTINE = ("file", "reason", "record")
"""Columns of malformed records."""
Given = ParamSpec("Given")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRows:
    """Counts of the rows of the input that were written; None where none were."""

    kept: int
    removed: int | None = None
    text_bytes_kept: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenOutput:
    """Counts of the output, and what else the report shows of it."""

    counts: Written
    texts: Mapping[int, str]
    """Beginnings of the texts that the report shows, by doc_id."""
    sources: Mapping[str, Mapping[str, int]] | None
    """Documents and those kept by source; None where no column names it."""
    by_profile: Mapping[tuple[int, str], int]
    """Rows that go by the number of their profile and layer."""


class ResultWriter(Protocol[Rows]):
    """Writer of a result."""

    reads_beside: ClassVar[bool]
    """Whether texts can be read before the rows are written."""

    @property
    def config(self) -> Config:
        """Settings of the run."""

    def save(self, name: str, rows: Rows, /) -> int:
        """Write rows to the folder of this name, and return how many there are."""

    def list_rejected(self) -> Rows | None:
        """Return the malformed records, QUARANTINE and further columns; None where there are none."""

    def write_rows(
        self, engine: Engine[Rows], found: Findings[Rows], decisions: Rows, *, spans: Rows | None, rejected: Rows | None
    ) -> WrittenRows:
        """Apply what was found in one pass over the input.

        Parameters
        ----------
        spans
            Spans as from `dedup.output.spans.write_spans`.
        rejected
            Malformed records as from `list_rejected`.
        """

    def read_texts(self, engine: Engine[Rows], found: Findings[Rows]) -> Mapping[int, str]:
        """Return how the texts begin that the report shows, by doc_id."""


def write_result(
    engine: Engine[Rows],
    output: ResultWriter[Rows],
    found: Findings[Rows],
    *,
    inform: Inform,
    stage: Callable[[], AbstractContextManager[None]],
) -> WrittenOutput:
    """Write the rows of a result, and the tables that explain it.

    Parameters
    ----------
    inform
        Runs what no row depends on.
    stage
        Makes what a thread does known as work of the output.

    Raises
    ------
    DedupError
        When the rows kept and removed are not those of the input.
    """
    engine = engine.without(None, None, "output")
    if found.changes is not None:
        output.save("changes", found.changes)
    decisions, rejected = decide(engine, found), output.list_rejected()
    spans = found.chain.spans
    spans = None if spans is None else write_spans(engine, spans, _list_ids(engine, "spans", found))
    tally = engine.tally(decisions)
    # All at once: but for the rows they are small, and on Spark each has its share of waiting for the driver.
    with ThreadPoolExecutor() as beside:

        def begin(work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Future[Value]:
            def run() -> Value:
                with stage():
                    return work(*args, **kwargs)

            return beside.submit(run)

        def save(name: str, rows: Rows | None, columns: Sequence[str]) -> int:
            return 0 if rows is None else output.save(name, engine.select(rows, *columns))

        def save_near_misses() -> int:
            # None where they cannot be named; storage that fails ends the run.
            named = inform(NEAR_MISSES, _name_misses, engine, found)
            return output.save(
                "near_misses", name_pairs(engine, "near_misses", None, found) if named is None else named
            )

        def save_cosines() -> int:
            return output.save("cosines", name_pairs(engine, "cosines", found.chain.cosines, found, arrow.COSINES))

        read_texts = partial(inform, TEXTS, output.read_texts, engine, found)
        named = decisions if found.parts is None else found.chain.removals
        duplicates = begin(save, "duplicates", named, ("id", *REASON))
        edges = begin(lambda: output.save("edges", name_pairs(engine, "edges", found.chain.edges, found)))
        near_misses = begin(save_near_misses)
        cosines = None if found.chain.cosines is None else begin(save_cosines)
        sketch = begin(inform, SKETCH, _save_sketch, engine, output, found.chain.sketches)
        spans_written = begin(save, "spans", spans, arrow.spans_written(engine.id_type).names)
        quarantined = begin(save, "quarantine", rejected, QUARANTINE)
        has_sources = bool(output.config.input.source_column)
        sources = begin(inform, SOURCES, count_sources, engine, found.documents, decisions) if has_sources else None
        texts = begin(read_texts) if output.reads_beside else None
        with stage():
            if output.config.output.mode == "weights":
                weights = weigh(engine, found, output.config.keep.copies)
                rows = WrittenRows(kept=output.save("weights", weights) - tally["rows"])
            else:
                rows = output.write_rows(engine, found, decisions, spans=spans, rejected=rejected)
    if cosines is not None:
        cosines.result()
    sketch.result()
    removed = tally["rows"]
    expected = found.rows - removed
    gone = duplicates.result()
    is_named = gone == removed or found.parts is not None
    if rows.kept != expected or rows.removed not in {removed, None} or not is_named:
        written = gone if rows.removed is None else rows.removed
        raise DedupError(
            f"output: kept and removed must be the {expected:,} and {removed:,} documents found (got "
            f"{rows.kept:,} and {written:,}); did the input change while it was read?"
        )
    counts = Written(
        kept=rows.kept,
        removed=removed,
        edges=edges.result(),
        near_misses=near_misses.result(),
        quarantined=quarantined.result(),
        spans=spans_written.result(),
        removed_by=dict(tally.get("removed", {})),
        text_bytes_kept=rows.text_bytes_kept,
    )
    return WrittenOutput(
        counts=counts if found.parts is None else _count_documents(found.chain.steps[0], gone, counts),
        texts=(read_texts() if texts is None else texts.result()) or {},
        sources=None if sources is None else sources.result(),
        by_profile=read_profiles(tally),
    )


def _count_documents(step: Layered, gone: int, rows: Written) -> Written:
    """Return the counts of documents of several rows, with those of their rows besides."""
    parts = {"kept": rows.kept, "removed": rows.removed}
    return replace(rows, kept=step.documents - gone, removed=gone, removed_by={step.layer: gone}, parts=parts)


def _save_sketch(engine: Engine[Rows], output: ResultWriter[Rows], cells: Rows | None) -> None:
    if cells is not None:
        output.save("sketch", merge_cells(engine, cells))


def _name_misses(engine: Engine[Rows], found: Findings[Rows]) -> Rows:
    return name_pairs(engine, "near_misses", found.chain.near_misses, found)


def name_pairs(
    engine: Engine[Rows], name: str, pairs: Rows | None, found: Findings[Rows], columns: pa.Schema = arrow.EDGES
) -> Rows:
    """EDGES, or pairs of other columns -> the same in the user's ids, left_id < right_id; none of None."""
    ends = [(end, engine.id_type) for end in ("left_id", "right_id")]
    schema = pa.schema([*ends, *(each for each in columns if each.name not in dict(ends))])
    if pairs is None:
        return engine.parallelise(f"no_{name}", schema.empty_table())
    named = engine.expect(engine.select(pairs, *columns.names), found.pairs)
    # Integers are their own document ids.
    if not pa.types.is_integer(engine.id_type):
        for end in ("left", "right"):
            ids = _list_ids(engine, f"{name}_{end}", found)
            named = engine.join(named, engine.select(ids, "doc_id", **{end: "id"}), f"{end}_id", key="doc_id")
    return engine.map(named, partial(_order, schema=schema), schema)


def _list_ids(engine: Engine[Rows], name: str, found: Findings[Rows]) -> Rows:
    """Return doc_id and id of all documents, one row each."""
    ids = engine.select(found.documents if found.named is None else found.named, "doc_id", "id")
    if found.repeated is None:
        return ids
    schema = pa.schema([("doc_id", pa.int64()), ("id", engine.id_type)])
    return engine.group(f"{name}_ids", ids, once(schema), once=True)


def _order(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Put the lesser id of each pair on the left."""
    for batch in batches:
        one, other = (batch[end if end in batch.schema.names else f"{end}_id"] for end in ("left", "right"))
        is_less = pc.less(one, other)
        ends = pc.if_else(is_less, one, other), pc.if_else(is_less, other, one)
        yield pa.RecordBatch.from_arrays([*ends, *(batch[name] for name in schema.names[2:])], schema=schema)

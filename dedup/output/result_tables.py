"""DECISIONS, EDGES, SPANS -> the tables that explain a result, in the user's ids."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, ParamSpec, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle
from dedup.errors import DedupError
from dedup.informing import NEAR_MISSES, SOURCES, Inform
from dedup.kernels.runs.groups import drop_repeated
from dedup.output.row_decisions import REASON, Findings, count_sources, read_profiles, read_removed
from dedup.tables import arrow
from dedup.tables.counts import Written

QUARANTINE = ("file", "reason", "record")
"""Columns of malformed records."""
Given = ParamSpec("Given")
Value = TypeVar("Value")
Saved_contra = TypeVar("Saved_contra", contravariant=True)


class Save(Protocol[Saved_contra]):
    """A writer of tables of the result."""

    def __call__(self, name: str, rows: Saved_contra, /) -> int:
        """Write rows to the folder of this name, and return how many there are."""


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultTables(Generic[Rows]):
    """Tables that explain a result, and what writes and counts them."""

    engine: Engine[Rows]
    save: Save[Rows]
    inform: Inform
    stage: Callable[[], AbstractContextManager[None]]
    """Makes what a thread does known as work of the output."""
    found: Findings[Rows]
    decisions: Rows
    spans: Rows | None
    """Spans as from `dedup.output.spans.write_spans`."""
    rejected: Rows | None
    """Malformed records."""
    has_sources: bool

    def write(
        self, write_rows: Callable[[], WrittenRows], read_texts: Callable[[], Mapping[int, str] | None]
    ) -> WrittenOutput:
        """Write them while rows are written, by `write_rows`.

        Raises
        ------
        DedupError
            When the rows kept and removed are not those of the input.
        """
        tally = self.engine.tally(self.decisions)
        # All at once: but for the rows they are small, and on Spark each has its share of waiting for the driver.
        with ThreadPoolExecutor() as beside:

            def begin(work: Callable[Given, Value], *args: Given.args, **kwargs: Given.kwargs) -> Future[Value]:
                def run() -> Value:
                    with self.stage():
                        return work(*args, **kwargs)

                return beside.submit(run)

            duplicates = begin(self._save_duplicates)
            edges = begin(self._save_pairs, "edges", self.found.edges)
            near_misses = begin(self._save_near_misses)
            spans = begin(self._save_chosen, "spans", self.spans, arrow.spans_written(self.engine.id_type).names)
            rejected = begin(self._save_chosen, "quarantine", self.rejected, QUARANTINE)
            sources = begin(self._count_sources)
            with self.stage():
                rows = write_rows()
        removed = tally["rows"]
        expected = self.found.rows - removed
        if rows.kept != expected or rows.removed not in {removed, None} or duplicates.result() != removed:
            raise DedupError(
                f"output: kept and removed must be the {expected:,} and {removed:,} documents found (got "
                f"{rows.kept:,} and {rows.removed:,}); did the input change while it was read?"
            )
        return WrittenOutput(
            counts=Written(
                kept=rows.kept,
                removed=removed,
                edges=edges.result(),
                near_misses=near_misses.result(),
                quarantined=rejected.result(),
                spans=spans.result(),
                removed_by=read_removed(tally),
                text_bytes_kept=rows.text_bytes_kept,
            ),
            texts=read_texts() or {},
            sources=sources.result(),
            by_profile=read_profiles(tally),
        )

    def _save_duplicates(self) -> int:
        return self.save("duplicates", self.engine.select(self.decisions, "id", *REASON))

    def _save_chosen(self, name: str, rows: Rows | None, columns: Sequence[str]) -> int:
        return 0 if rows is None else self.save(name, self.engine.select(rows, *columns))

    def _save_near_misses(self) -> int:
        """Write the near misses, none where they cannot be named; storage that fails ends the run."""
        named = self.inform(NEAR_MISSES, self._name_misses)
        return self._save_pairs("near_misses", None) if named is None else self.save("near_misses", named)

    def _name_misses(self) -> Rows:
        return name_pairs(self.engine, "near_misses", self.found.near_misses, self.found)

    def _save_pairs(self, name: str, pairs: Rows | None) -> int:
        return self.save(name, name_pairs(self.engine, name, pairs, self.found))

    def _count_sources(self) -> Mapping[str, Mapping[str, int]] | None:
        if not self.has_sources:
            return None
        return self.inform(SOURCES, count_sources, self.engine, self.found.documents, self.decisions)


def name_pairs(engine: Engine[Rows], name: str, pairs: Rows | None, found: Findings[Rows]) -> Rows:
    """EDGES -> (left_id, right_id, jaccard) in the user's ids, left_id < right_id; none of None."""
    schema = pa.schema([("left_id", engine.id_type), ("right_id", engine.id_type), arrow.EDGES.field("jaccard")])
    if pairs is None:
        return engine.parallelise(f"no_{name}", schema.empty_table())
    named = engine.expect(engine.select(pairs, *arrow.EDGES.names), found.pairs)
    # Integers are their own document ids.
    if not pa.types.is_integer(engine.id_type):
        for end in ("left", "right"):
            ids = _list_ids(engine, f"{name}_{end}", found) if found.named is None else found.named
            named = engine.join(named, engine.select(ids, "doc_id", **{end: "id"}), f"{end}_id", key="doc_id")
    return engine.map(named, partial(_order, schema=schema), schema)


def _list_ids(engine: Engine[Rows], name: str, found: Findings[Rows]) -> Rows:
    """Return doc_id and id of all documents, one row each."""
    ids = engine.select(found.documents, "doc_id", "id")
    if found.repeated is None:
        return ids
    schema = pa.schema([("doc_id", pa.int64()), ("id", engine.id_type)])
    work = partial(drop_repeated, by=["doc_id"])
    return engine.group(f"{name}_ids", ids, Shuffle(emitted=schema, by=["doc_id"], work=work, schema=schema), once=True)


def _order(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Put the lesser id of each pair on the left."""
    for batch in batches:
        one, other = (batch[end if end in batch.schema.names else f"{end}_id"] for end in ("left", "right"))
        is_less = pc.less(one, other)
        ends = pc.if_else(is_less, one, other), pc.if_else(is_less, other, one)
        yield pa.RecordBatch.from_arrays([*ends, batch["jaccard"]], schema=schema)

"""A batch of documents added to a store by Spark.

On the driver are the files of the store, by name; the keys of buckets over the cap and the edges that these withdraw;
edges up to DRIVER_EDGES, to connect them; near misses and lists of ids up to `placement.BROADCAST_ROWS`.
All else is with the executors: a task holds whole components of CELL_BYTES, about, or one that is larger.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.errors import DataError
from dedup.informing import LOSS, Inform
from dedup.kernels import Integers
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.stages.components import Connecting, find_parted
from dedup.stages.documents import Corpus
from dedup.stages.edges import compare
from dedup.stages.placement import fits_broadcast
from dedup.stages.table import Keep, Table
from dedup.store.arrays import distinct, is_in
from dedup.store.changing import to_links
from dedup.store.folder import File
from dedup.store.growth import Links
from dedup.store.joins.arriving import list_documents, meet, number
from dedup.store.joins.election import Decided, decide
from dedup.store.joins.growth import Joined, settle
from dedup.store.joins.reading import Reader
from dedup.store.joins.step import Step, list_own
from dedup.store.joins.writing import write_rows, write_sets
from dedup.store.state import Label, State
from dedup.store.tables import Tables
from dedup.store.writing import Writing
from dedup.tables.counts import Lost, Signed
from dedup.tables.ids import SHOWN


class Stage(Protocol):
    """What times a part of the work."""

    def __call__(self, name: str, /) -> AbstractContextManager[object]:
        """Return the context in which it is done."""


def _unclocked(_: str) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrival:
    """Documents that have come, signed by Spark."""

    name: str
    content: str
    """As `content.name_content`."""
    corpus: Corpus
    signed: Table[Signed]
    id_column: str
    """Empty where an id is the digest of its row."""
    tokenizer: Tokenizer
    shingle_size: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grown:
    """What a batch brings, before it is committed."""

    state: State
    """After the batch, but for its number, segments and versions."""
    step: Step
    joined: Joined
    decided: Decided
    lost: Lost | None
    """None where the sample could not be counted."""
    before: Integers
    """Keys of the buckets over the cap before the batch, ascending."""
    writing: Writing

    def write(self) -> None:
        """Write what the batch makes of all tables; nothing of it counts before `finish`."""
        step, writing, joined = self.step, self.writing, self.joined
        if joined.withdrawn.num_rows:
            lost = distinct(to_links(joined.withdrawn).encode())
            writing.rewrite("edges", lambda rows: ~is_in(to_links(rows).encode(), lost), Links._fields)
        fresh, verdicts = step.numbered.fresh, self.decided.verdicts
        listed: dict[str, tuple[DataFrame, int]] = {
            "bands": (list_own(step), fresh.counts * step.search.bands),
            "edges": (joined.found.frame, joined.found.counts),
            "members": (
                verdicts.frame.withColumn("since", F.lit(step.state.number + 1).cast("long")),
                verdicts.counts.rows,
            ),
            "documents": (step.documents.frame, step.documents.counts),
        }

        def write(name: str) -> Sequence[File]:
            layout, (rows, count) = step.reader.layouts[name], listed[name]
            rows = rows.select(*layout.schema.names)
            return write_rows(step.reader.tables, name, writing.segment, layout, rows, count=count)

        # All at once: of a small batch each has its share of waiting for the driver.
        with ThreadPoolExecutor() as writers:
            for name, files in zip(listed, writers.map(write, listed), strict=True):
                writing.files.setdefault(name, []).extend(files)
        if not np.array_equal(joined.hot, self.before):
            writing.write("hot", [pa.table({"key": joined.hot})])
            writing.replaced["hot"] = list(step.state.segments["hot"])

    def finish(self, arrival: Arrival, operation: str) -> State:
        """Let the batch, once it is written, be in the store, all of it; see `adding.Grown.finish`."""
        count = self.step.documents.counts
        kept = count - self.decided.removed
        label = Label(operation=operation, batch=arrival.name, content=arrival.content, documents=count, kept=kept)
        return self.writing.finish(self.state, label)

    def drop(self) -> None:
        """Delete what was written for the batch."""
        self.writing.drop()


def grow(
    keep: Keep,
    tables: Tables,
    state: State,
    arrival: Arrival,
    *,
    anew: bool,
    connecting: Connecting,
    cores: int,
    stage: Stage = _unclocked,
    inform: Inform | None = None,
) -> Grown:
    """Find what a batch resembles, in it and in the store, and decide who stays: `adding.grow` by joins.

    Parameters
    ----------
    keep
        Of tables that no later try reads.
    state
        Before the batch, begun.
    anew
        Whether components that the batch touches, or that wait for it, elect anew.
    inform
        Runs what is no part of the search.

    Raises
    ------
    DataError
        When an id is in the store already, though a column names it.
    """
    inform = inform or Inform()
    signed, search, seed = arrival.signed, state.search, state.spec["signature_seed"]
    writing = Writing(tables, state)
    reader = Reader.of(signed.frame.sparkSession, writing.snapshot)
    with stage("meeting"):
        met = meet(keep, reader, signed, search, seed=seed, sets=state.sets, cores=cores)
        if arrival.id_column and met.known.counts:
            raise _refuse_known(arrival, met.known)
        numbered = number(keep, signed, met, sets=state.sets)
    with stage("sets"), ThreadPoolExecutor() as beside:
        listing = beside.submit(list_documents, keep, reader, signed, met, numbered, batch=arrival.name)
        fresh = numbered.fresh
        writing.files["sets"] = write_sets(
            reader.tables,
            writing.segment,
            reader.layouts["sets"],
            arrival.corpus,
            fresh.frame,
            tokenizer=arrival.tokenizer,
            shingle_size=arrival.shingle_size,
            broadcast=fits_broadcast(fresh.counts),
        )
        documents = listing.result()
        if sum(file.rows for file in writing.files["sets"]) != fresh.counts:
            raise DataError("--input: must not change while the job reads it (documents are gone): repeat the command")
    reader = reader.add("sets", writing.files["sets"])
    step = Step(
        keep=keep,
        reader=reader,
        state=state,
        signed=signed,
        met=met,
        numbered=numbered,
        documents=documents,
        search=search,
        seed=seed,
        cores=cores,
    )
    before = np.sort(writing.snapshot.read("hot")["key"].to_numpy())
    with stage("edges"):
        joined = settle(step, before, inform)
    with stage("representatives"):
        decided = decide(step, joined, connecting, anew=anew)
    return Grown(
        state=replace(state, sets=step.count),
        step=step,
        joined=joined,
        decided=decided,
        lost=inform(LOSS, _estimate_loss, step, joined, decided),
        before=before,
        writing=writing,
    )


def _refuse_known(arrival: Arrival, known: Table[int]) -> DataError:
    rows = arrival.signed.frame.join(known.frame.select("doc_id"), on="doc_id", how="left_semi")
    # In the order of reading, as a run in memory tells them.
    named = rows.orderBy("split", "file", "row").limit(SHOWN).select("id").toArrow()["id"].to_pylist()
    shown = ", ".join(map(repr, named))
    return DataError(
        f"input.id_column: column {arrival.id_column!r} must hold ids that the store has not (got {known.counts:,} "
        f"that it has: {shown}); delete these first, or leave them out"
    )


def _estimate_loss(step: Step, joined: Joined, decided: Decided) -> Lost | None:
    """Verify a sample of the pairs that the cap on buckets left uncompared; None where it could not be drawn."""
    if joined.drawn is None:
        return None if joined.paired.pairs_uncompared else Lost()
    similar = compare(
        step.keep,
        "uncompared",
        joined.drawn.sample.frame,
        joined.drawn.sample.counts,
        joined.sets,
        threshold=step.search.threshold,
        cores=step.cores,
    )
    parts = decided.connected.frame.select(F.col("doc_id").alias("set"), "component_id")
    components = joined.heads.join(parts, on="set", how="inner").select("doc_id", "component_id")
    lost = find_parted(similar.frame, components).count()
    return replace(joined.drawn.counts, lost=lost)

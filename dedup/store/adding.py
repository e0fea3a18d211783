"""A batch of documents added to a store.

SIGNATURES -> known documents, numbers of sets -> `sets`, `bands` -> `edges` -> `members`, `hot`, `documents`
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, once, pass_on
from dedup.errors import DataError
from dedup.files.orders import drop_keys
from dedup.informing import LOSS, Inform
from dedup.kernels import Bytes, Hashes, Integers
from dedup.kernels.hashing import GOLDEN, mix
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform
from dedup.kernels.sets import lsh
from dedup.layers.near.uncompared import verify_sample
from dedup.store.arrays import NONE
from dedup.store.election import Decided, decide
from dedup.store.growth import SearchedSets, Settled, settle, size_pairs
from dedup.store.numbering import DIGESTS, OWNED, Numbered, number
from dedup.store.reading import read, select
from dedup.store.schemas import FILES as TEXTS
from dedup.store.snapshot import Chosen, Snapshot
from dedup.store.state import Label, State
from dedup.store.step import COMES, PLACES, Step, place_stored, to_places
from dedup.store.supply import Supply
from dedup.store.tables import Tables
from dedup.store.writing import Writing, save, to_files, write_changes, write_rows
from dedup.tables import arrow
from dedup.tables.counts import Lost
from dedup.tables.ids import SHOWN

RECORDED = ("doc_id", "id", "source", "text_bytes", "order_keys")
"""Columns of REGISTER that `documents` has too."""
COLLIDED = pa.schema([("id", pa.string()), ("other", pa.string())])
"""Ids of one hash: one that has come, and one of the store."""
CONTENT = arrow.integers("high", "low")
"""Halves of the digest of documents, of which any may be added up, modulo 2**64."""


Stage: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Timer of a part of the work, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrival(Generic[Rows]):
    """Documents that have come, signed."""

    name: str
    content: str
    """Digest of their ids and shingle sets: see `digest_content`."""
    register: Rows
    """REGISTER of all documents."""
    documents: Rows
    """SIGNATURES of those that layers before have left."""
    is_held: bool = False
    """Whether these hold shingle sets."""
    owners: Rows | None = None
    """doc_id of those of the store in whose favour layers before have removed some; None of a store of near alone."""
    supply: Supply[Rows]
    id_column: str
    """Empty where an id is the digest of its row."""
    kept: Integers = field(default_factory=lambda: NONE)
    """Documents that were kept when they were admitted, ascending."""
    files: pa.Table | None = None
    """Rows of `files`, numbered as in the documents, where the store holds no shingle sets."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grown(Generic[Rows]):
    """Gains by a batch, before it is committed."""

    arrival: Arrival[Rows]
    state: State
    """After the batch, but for its number, segments and versions."""
    snapshot: Snapshot
    """Store before the batch."""
    arrived: int
    """Rows of `documents` that have come."""
    known: Rows
    """OWNED of documents of the batch that were in the store already."""
    fresh: int
    """Shingle sets that were not."""
    settled: Settled[Rows]
    decided: Decided[Rows]
    lost: Lost | None
    """None where the sample could not be counted."""
    aside: int = 0
    """Documents that were not in the store, and that near has not seen."""
    spared: int = 0
    """Documents of these that stay, less those that layers behind near have removed."""
    writing: Writing

    def finish(self, operation: str) -> State:
        """Let the batch be in the store, all of it.

        Raises
        ------
        Conflict
            When another writer was first; what this one wrote is withdrawn.
        """
        label = Label(
            operation=operation,
            batch=self.arrival.name,
            content=self.arrival.content,
            documents=self.arrived + self.aside,
            kept=self.arrived - self.decided.removed + self.spared,
        )
        return self.writing.finish(self.state, label)


def to_signatures(rows: pa.Table, low: Bytes, keys: Bytes | Hashes) -> pa.Table:
    """Return documents in the order in which they come as SIGNATURES, as far as `grow` looks at these.

    Parameters
    ----------
    rows
        Columns of REGISTER but for the place, `size` and the digest of the shingle set.
    low, keys
        As from `Signer.sign`.
    """
    none = pa.array(np.zeros(rows.num_rows, np.int32))
    places = {"split": none, "file": none, "row": pa.array(np.arange(rows.num_rows))}
    signed = {"band_keys": blocks.rows(keys.view(np.uint8)), "signature": blocks.rows(low)}
    return pa.table({**dict(zip(rows.schema.names, rows.columns, strict=True)), **places, **signed})


def digest_content(engine: Engine[Rows], documents: Rows, names: Sequence[str] = DIGESTS) -> str:
    """Return the digest that tells two batches apart, whatever their order: of ids and two columns of 64 bits.

    By default it is of shingle sets, as in SIGNATURES.
    """
    rows = engine.select(documents, "doc_id", high=names[0], low=names[1])
    told = engine.collect(engine.map(rows, _sum_content, CONTENT))
    high, low = (int(told[name].to_numpy().view(np.uint64).sum(dtype=np.uint64)) for name in CONTENT.names)
    return f"{high:016x}{low:016x}"


def _sum_content(batches: Batches) -> Batches:
    for batch in batches:
        doc_ids, high, low = (batch[name].to_numpy().view(np.uint64) for name in ("doc_id", *CONTENT.names))
        rows = mix(doc_ids + mix(high + mix(low + GOLDEN)))
        sums = (np.array([each.sum(dtype=np.uint64)]).view(np.int64) for each in (rows, mix(rows + GOLDEN)))
        yield pa.RecordBatch.from_arrays([*map(pa.array, sums)], schema=CONTENT)


def _shift_files(batches: Batches, *, schema: pa.Schema, begin: int) -> Batches:
    for batch in batches:
        yield conform(batch, schema, file=batch["file"].to_numpy() + begin)


def grow(
    engine: Engine[Rows],
    tables: Tables,
    state: State,
    arrival: Arrival[Rows],
    *,
    anew: bool,
    chosen: Chosen | None = None,
    all_lead: bool = False,
    for_led: bool = False,
    threads: int = 1,
    has_sources: bool = False,
    stage: Stage = nullcontext,
    inform: Inform | None = None,
) -> Grown[Rows]:
    """Find what a batch resembles, in it and in the store, and decide which documents stay.

    Parameters
    ----------
    state
        Before the batch, begun.
    anew
        Whether components that the batch touches, or that wait for it, elect anew.
    chosen
        Documents of the store that count; None for all.
    all_lead, for_led
        As of `Step`.
    threads
        Threads of a task that looks for keys.
    inform
        Runs what is no part of the search.

    Raises
    ------
    DataError
        When an id is in the store already, though a column names it.
    """
    inform, search = inform or Inform(), state.search
    writing = Writing(tables, state)
    snapshot = replace(writing.snapshot.send(threads), chosen=chosen)
    with stage("identical"):
        stored = read(engine, snapshot, "documents", OWNED.names)
        known = _find_known(engine, snapshot, arrival, stored)
        numbered = number(engine, snapshot, arrival.documents)
        documents = _list_documents(engine, snapshot, arrival, numbered, known)
    # While some cores make sets of texts, one puts keys in order.
    with stage("sets"), ThreadPoolExecutor(1) as beside:
        keyed = beside.submit(write_rows, engine, writing, "bands", numbered.bands, numbered.fresh_count * search.bands)
        if arrival.files is None:
            work = partial(save, snapshot=snapshot, name="sets", segment=writing.segment)
            written = to_files(engine.collect(arrival.supply(engine, numbered.fresh, work)), writing.segment)
            if sum(file.rows for file in written) != numbered.fresh_count:
                raise DataError(
                    "--input: must not change while the job reads it (documents are gone): repeat the command"
                )
            writing.files["sets"] = written
        else:
            begin, places = snapshot.count(TEXTS), snapshot.choose("sets")
            shifted = engine.map(numbered.fresh, partial(_shift_files, schema=places, begin=begin), places)
            write_rows(engine, writing, "sets", shifted, numbered.fresh_count)
            writing.write(TEXTS, [arrival.files.set_column(0, "file", pc.add(arrival.files["file"], begin))])
        keyed.result()
    hot = np.sort(snapshot.read("hot")["key"].to_numpy())
    placed = partial(to_places, state=COMES, gone=NONE, kept=arrival.kept, first=state.sets)
    came = engine.map(engine.select(documents, *OWNED.names), placed, PLACES)
    places, touched = engine.concat(place_stored(engine, stored, NONE), came), engine.select(numbered.owned, "set")
    if arrival.owners is not None:
        touched = engine.concat(
            touched, engine.select(engine.join(places, arrival.owners, "doc_id", how="semi"), "set")
        )
    step = Step(
        snapshot=replace(snapshot, extra={name: writing.files.get(name, []) for name in ("sets", TEXTS)}),
        numbered=numbered,
        signatures=arrival.documents,
        is_held=arrival.is_held,
        documents=documents,
        places=places,
        touched=touched,
        hot=hot,
        resting=hot,
        all_lead=all_lead,
        for_led=for_led,
        inform=inform,
    )
    with stage("edges"):
        settled, searched = settle(engine, step)
    with stage("representatives"):
        decided = decide(engine, step, settled, anew=anew, readmit=False, has_sources=has_sources)
        lost = inform(LOSS, estimate_loss, engine, step, settled, decided, searched)
    arrived = engine.tally(documents)["rows"]
    with stage("store"):
        write_changes(engine, writing, step, settled, decided)
        write_rows(engine, writing, "documents", documents, arrived)
    return Grown(
        arrival=arrival,
        state=replace(state, sets=step.count),
        snapshot=snapshot,
        arrived=arrived,
        known=known,
        fresh=numbered.fresh_count,
        settled=settled,
        decided=decided,
        lost=lost,
        writing=writing,
    )


def _find_known(engine: Engine[Rows], snapshot: Snapshot, arrival: Arrival[Rows], stored: Rows) -> Rows:
    """Return OWNED of the documents of the batch among those of the store.

    Raises
    ------
    DataError
        When there are some, though a column names the ids; when another id in the store has the hash of one.
    """
    held = engine.join(stored, engine.select(arrival.register, "doc_id"), "doc_id", how="semi")
    known = engine.map(held, pass_on, OWNED, name="known")
    count = engine.tally(known)["rows"]
    if count and pa.types.is_string(engine.id_type):
        _tell_apart(engine, snapshot, arrival, known, count)
    if not arrival.id_column or not count:
        return known
    places = engine.select(arrival.register, "doc_id", "id", "split", "file", "row")
    schema = pa.schema([("id", engine.id_type), *arrow.PLACE])
    rows = engine.collect(
        engine.map(engine.join(places, known, "doc_id", how="semi"), partial(_begin, schema=schema), schema)
    )
    # In the order of reading.
    named = rows.sort_by([(name, "ascending") for name, _ in arrow.PLACE])["id"].slice(0, SHOWN).to_pylist()
    shown = ", ".join(map(repr, named))
    raise DataError(
        f"input.id_column: column {arrival.id_column!r} must hold ids that the store has not (got {count:,} that it "
        f"has: {shown}); delete these first, or leave them out"
    )


def _tell_apart(engine: Engine[Rows], snapshot: Snapshot, arrival: Arrival[Rows], known: Rows, count: int) -> None:
    """Refuse documents whose id has the hash of another id in the store.

    Raises
    ------
    DataError
    """
    named = select(engine, snapshot, "documents", ["doc_id", "id"], wanted=known, count=count)
    ids = engine.join(
        engine.select(arrival.register, "doc_id", "id"), engine.select(named, "doc_id", other="id"), "doc_id"
    )
    found = engine.collect(engine.map(ids, _list_collided, COLLIDED)).sort_by("id")
    if found.num_rows:
        [row] = found.slice(0, 1).to_pylist()
        raise DataError(
            f"input.id_column: ids must have other hashes of 64 bits than those of the store (got {row['id']!r}, which "
            f"has that of {row['other']!r}): give it another id"
        )


def _list_collided(batches: Batches) -> Batches:
    for batch in batches:
        yield batch.select(COLLIDED.names).filter(pc.not_equal(batch["id"], batch["other"]))


def _begin(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        order = [(name, "ascending") for name, _ in arrow.PLACE]
        yield batch.select(schema.names).sort_by(order).slice(0, SHOWN)


def _list_documents(
    engine: Engine[Rows], snapshot: Snapshot, arrival: Arrival[Rows], numbered: Numbered[Rows], known: Rows
) -> Rows:
    """Return the rows of `documents` that have come."""
    unseen = engine.join(numbered.owned, known, "doc_id", how="anti")
    rows = engine.join(engine.select(arrival.documents, *RECORDED, shingle_count="size"), unseen, "doc_id")
    schema = snapshot.layout("documents").schema
    listed = partial(to_documents, schema=schema, batch=arrival.name, rules=snapshot.state.search.rules)
    if not numbered.repeated:
        return engine.map(rows, listed, schema, name="arrived")
    return engine.group("arrived", engine.map(rows, listed, schema), once(schema))


def to_documents(
    batches: Batches, *, schema: pa.Schema, batch: str, rules: Sequence[tuple[str, str]], **known: int
) -> Batches:
    """Return rows of `documents` of a batch, with columns whose one value is known."""
    for rows in batches:
        yield conform(drop_keys(rows, rules), schema, batch=batch, **known)


def estimate_loss(
    engine: Engine[Rows], step: Step[Rows], settled: Settled[Rows], decided: Decided[Rows], searched: SearchedSets[Rows]
) -> Lost:
    """Verify a sample of the pairs that the cap on buckets left uncompared."""
    crowd = searched.crowd
    if crowd is None or not crowd.uncompared:
        return Lost(documents=0 if crowd is None else crowd.undecided)
    share = lsh.uncompared_share(crowd.uncompared)
    named = engine.select(settled.heads, "set", head="doc_id")
    components = engine.join(decided.components, named, "doc_id", key="set")
    lost = verify_sample(
        engine,
        crowd.linked,
        searched.payload,
        searched.sets,
        engine.select(components, "component_id", doc_id="head"),
        threshold=step.search.threshold,
        least=step.search.least_estimate,
        cap=step.search.cap,
        share=share,
        size=size_pairs(step, crowd.uncompared * share, searched.sets.documents),
    )
    return replace(lost, documents=crowd.undecided)

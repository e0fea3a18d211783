"""Documents that were admitted one by one, taken from the journal into the tables as a batch of their own."""

import logging
import time
from dataclasses import replace
from functools import partial
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import MemoryEngine, open_without_files
from dedup.engine.workers import count_cores
from dedup.files.systems import redact
from dedup.kernels.runs import blocks
from dedup.kernels.sets.shingles import digest_halves
from dedup.store.adding import Arrival, digest_content, grow, to_signatures
from dedup.store.journal import Position, clean, list_segments, read_journal
from dedup.store.numbering import DIGESTS
from dedup.store.state import State, read_rows, read_state
from dedup.store.supply import supply_held
from dedup.store.tables import Tables
from dedup.store.upkeep import repeat

LOG = logging.getLogger("dedup")
NAME = "admitted-"
"""Beginning of the names of batches of admitted documents."""
PATIENCE_SECONDS = 20
"""Seconds in which a process that admits documents goes by the tables as they are now."""


def take_admitted(tables: Tables, *, idle: bool = False) -> None:
    """Add to a store what was admitted to it since this was last done.

    What was kept when it was admitted stays kept; in whose favour the others go is decided as in any batch.

    Parameters
    ----------
    idle
        Whether no process admits documents, so that nothing of them need be left in the journal.

    Raises
    ------
    StorageError
        When there is no store, or other writers are first again and again.
    """
    if list_segments(tables):
        repeat(tables, partial(_take, tables))
        state = read_state(tables)
        clean(tables, Position(*state.admitted), state.kind, idle=idle)


def take_beside(tables: Tables) -> None:
    """Do so once a process that admits documents writes to a segment behind those that were taken.

    Raises
    ------
    StorageError
        As `take_admitted`.
    """
    segment, deadline = read_state(tables).admitted[0], time.monotonic() + PATIENCE_SECONDS
    while segment in list_segments(tables)[-1:] and time.monotonic() < deadline:
        time.sleep(0.1)
    take_admitted(tables)


def _take(tables: Tables, state: State) -> None:
    frames = [*read_journal(tables, Position(*state.admitted), state.kind)]
    if not frames:
        return
    rows = pa.Table.from_batches([rows for _, rows in frames]).combine_chunks()
    engine = open_without_files(state.kind, count_cores())
    # A store that `migrate` made has batches of another, whose numbers may be above its own.
    taken = {*read_rows(tables, state.log)[0]["batch"].to_pylist()}
    name = next(each for number in count(state.number + 1) if (each := f"{NAME}{number}") not in taken)
    grown = grow(engine, tables, state, _to_arrival(engine, rows, state, name), anew=False, threads=engine.threads)
    if known := grown.known.num_rows:
        LOG.warning("%s: %s documents that were admitted have ids of others, and go", redact(tables.path), f"{known:,}")
    replace(grown, state=replace(grown.state, admitted=frames[-1][0])).finish("admit")


def _to_arrival(engine: MemoryEngine, rows: pa.Table, state: State, name: str) -> Arrival[pa.Table]:
    sets = blocks.unlists(rows["shingles"].chunk(0), "<u8")
    columns = {
        **{name: rows[name] for name in ("doc_id", "id", "text_bytes", "shingles")},
        "source": pa.nulls(rows.num_rows, pa.string()),
        "order_keys": pa.array([[]] * rows.num_rows, pa.list_(pa.float64())),
        "size": np.diff(sets[1]),
        **dict(zip(DIGESTS, digest_halves(*sets), strict=True)),
    }
    documents = to_signatures(pa.table(columns), *state.signer.sign(*sets))
    return Arrival(
        name=name,
        content=digest_content(engine, documents),
        register=documents,
        documents=documents,
        is_held=True,
        supply=partial(supply_held, documents=documents),
        # An id that is there already need not be anybody's mistake: a batch may have had it too at that moment.
        id_column="",
        kept=np.sort(rows.filter(pc.is_null(rows["of"]))["doc_id"].to_numpy()),
    )

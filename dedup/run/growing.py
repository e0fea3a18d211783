"""A batch added to a store: files in, documents signed, the store, files out."""

import logging
import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from dedup.engine.engine import Engine, Rows
from dedup.engine.workers import count_cores
from dedup.errors import ConfigError, DataError, StorageError
from dedup.extras import check_extra
from dedup.files.systems import redact
from dedup.informing import BASELINE
from dedup.layers import NEAR
from dedup.layers.chain import Chain
from dedup.layers.near.layer import NearLayer
from dedup.run.clock import Clock
from dedup.run.execution import Run
from dedup.run.job import Job
from dedup.run.overlap import check_apart, check_store
from dedup.run.search import Searched, set_up
from dedup.settings.files import to_dict
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.rules import require_text
from dedup.store.adding import Arrival, Grown, digest_content, grow, supply_texts
from dedup.store.folder import TRIES, Conflict
from dedup.store.outcome import tell
from dedup.store.state import State, create, find_state, read_rows, read_state
from dedup.store.tables import Tables
from dedup.tables.counts import Near, Signed, Stored

LOG = logging.getLogger("dedup")
REMEMBERED = 10
"""Batches whose mean the removal rate is held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The addition of a batch to a store, what `start` is to do with a job: see `execution.Work`."""

    store: str
    batch: str
    anew: bool = False
    """Whether components that the batch touches elect anew."""

    @property
    def identity(self) -> dict[str, Any]:
        """See `Work.identity`."""
        return {"store": self.store, "batch": self.batch, "reelect": self.anew}

    def prepare(self, job: Job) -> None:
        """See `Work.prepare`."""
        check_extra("--store", "store")
        if job.has_table:
            raise ConfigError("--store: needs files or rows in memory (got rows of Spark); write them to files first")
        check_apart([*job.inputs, self.store], job.output)
        check_store(job.inputs, self.store)
        check_settings(job.config, self)

    def count_known(self) -> int:
        """See `Work.count_known`."""
        tables = Tables(self.store)
        return read_state(tables).sets if tables.exists() else 0

    def check(self, config: Config, spec: HashSpec, id_type: pa.DataType) -> None:
        """See `Work.check`."""
        tables = Tables(self.store)
        if tables.exists():
            read_state(tables).check(config, spec, id_type)

    def __call__(self, run: Run[Rows]) -> dict[str, Any]:
        """See `Work`.

        Raises
        ------
        StorageError
            When others have been first each time, or the output of a batch of before vacuum is to be made again.
        """
        engine, config, clock, tables = run.engine, run.job.config, run.clock, Tables(self.store)
        [part] = run.parts
        layer = NearLayer.make(set_up(NEAR, part, run.context, clock))
        arrival, signed = arrive(engine, layer, self.batch, config.input.id_column)
        create(tables, engine.id_type)
        for _ in range(TRIES):
            state, operation = _find_base(tables, arrival.content, self)
            # Its tables are of this try alone: the store may be another in the next.
            own = engine.without(None, None, "store").choose(None, f"{secrets.token_hex(4)}_")
            try:
                grown = grow(
                    own,
                    tables,
                    state.begin(config, part.spec, engine.id_type),
                    arrival,
                    anew=self.anew,
                    threads=count_cores() if run.given.search == "process" else 1,
                    has_sources=bool(config.input.source_column),
                    stage=clock.time,
                    inform=clock.inform,
                )
            except StorageError as error:
                if operation:
                    raise
                raise StorageError(
                    f"--batch: {self.batch!r} is in the store, which stays as it is; its output cannot be made again "
                    f"since vacuum has deleted what was there before it ({error})"
                ) from error
            # What Arrow holds for later tables is of use to the processes that write the output.
            pa.default_memory_pool().release_unused()
            with clock.time("representatives"):
                told = tell(own, grown, signed, config.threshold)
            note(clock, grown, told.counts)
            earlier = clock.inform(BASELINE, remember, tables, grown.writing.snapshot.state, self, config)
            finish = partial(grown.finish, operation) if operation else grown.writing.drop
            found = Searched(
                chain=Chain(engine=own).add(NEAR, told.found),
                documents=told.found.documents,
                near={part.name: told.counts},
                by_profile={},
                named=told.named,
                changes=told.changes,
                earlier=earlier,
                finish=finish,
            )
            try:
                return run.publish(found)
            except Conflict:
                LOG.info("%s: another writer was first; starting over with what it has added", redact(self.store))
                run.start_over()
        raise StorageError(f"{redact(self.store)}: {TRIES} other writers were first; repeat the command")


def check_settings(config: Config, growth: Growth) -> None:
    """Refuse settings that a store does not know.

    Raises
    ------
    ConfigError
    """
    if not growth.batch:
        raise ConfigError("--batch: must name the batch where --store is given, such as 2026-11")
    require_text("--batch", growth.batch)
    if config.mode != "lsh":
        raise ConfigError(f'--store: needs mode = "lsh" (got {config.mode!r})')
    if config.layers != (NEAR,):
        raise ConfigError(f'--store: needs layers = ["near"] (got {list(config.layers)})')
    refuse_profiles(config.profile, "in a store, whose features are of one specification")
    unset = {
        "limits.per_source": config.limits.per_source,
        "keep.merge": config.keep.merge,
        "output.table": config.output.table,
        "evaluation.labeled_pairs": config.evaluation.labeled_pairs,
    }
    for name, value in unset.items():
        if value:
            raise ConfigError(f"--store: {name} works in single runs only and must not be set (got {value!r})")


def arrive(engine: Engine[Rows], layer: NearLayer, name: str, id_column: str) -> tuple[Arrival[Rows], Signed]:
    """Sign all documents, as a batch of this name; return their counts too.

    Raises
    ------
    DataError
        When there is no document, or ids are null or repeated.
    """
    documents, signed = layer.sign(engine)
    arrival = Arrival(
        name=name,
        content=digest_content(engine, documents),
        documents=documents,
        supply=partial(supply_texts, documents=documents, signing=layer.signing),
        id_column=id_column,
    )
    return arrival, signed


def note(clock: Clock, grown: Grown[Rows], counts: Near) -> None:
    """Take note of what the stages have counted."""
    clock.note("identical", counts.collapsed)
    clock.note("sets", Stored(rows=grown.fresh))
    clock.note("edges", counts.verified)
    clock.note("representatives", counts.elected)
    clock.note("store", Stored(rows=grown.arrived))


def _find_base(tables: Tables, content: str, growth: Growth) -> tuple[State, str]:
    """Return the state that a batch is added to, and as which operation; none where it is in the store already.

    Parameters
    ----------
    content
        Digest of its documents, see `adding.digest_content`.

    Raises
    ------
    DataError
        When other documents are in the store under the batch's name.
    """
    operation = "reelect" if growth.anew else "add"
    rows, log = read_rows(tables)
    for place, row in enumerate(rows.select(["operation", "batch", "content"]).to_pylist()):
        if row["batch"] == growth.batch:
            if (row["content"], row["operation"]) != (content, operation):
                raise DataError(
                    f"--batch: {growth.batch!r} is in the store with other documents, or was added with another "
                    "--reelect; give these a batch of their own"
                )
            LOG.info("batch %s is in the store already, which stays as it is", growth.batch)
            return find_state(tables, rows.slice(0, place), log), ""
    return find_state(tables, rows, log), operation


def remember(tables: Tables, state: State, growth: Growth, config: Config) -> dict[str, Any] | None:
    """Return what the last batches before a state had in common, as an earlier run's report; None without any."""
    rows, _ = read_rows(tables)
    listed = rows.drop_columns(["state"]).to_pylist()
    earlier = [row for row in listed if row["batch"] and row["number"] <= state.number]
    documents = sum(row["documents"] for row in earlier[-REMEMBERED:])
    if not documents:
        return None
    removed = documents - sum(row["kept"] for row in earlier[-REMEMBERED:])
    named = f"{growth.store}, its last {len(earlier[-REMEMBERED:])} batches"
    return {"removal_rate": removed / documents, "settings": to_dict(config), "output": named}

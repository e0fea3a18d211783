"""A batch added to a store: files in, documents signed, the store, files out."""

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from dedup.display import size
from dedup.engine.engine import Engine, Rows
from dedup.engine.workers import count_cores
from dedup.errors import ConfigError, DataError, StorageError
from dedup.extras import check_extra
from dedup.files.systems import redact
from dedup.informing import BASELINE
from dedup.layers import NEAR
from dedup.layers.near.layer import NearLayer
from dedup.run.clock import Clock
from dedup.run.grown import tell
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.opening import estimate_need, fits_driver, list_input
from dedup.run.overlap import check_apart, check_store
from dedup.run.reach import check_schemes, find_obstacle_beside
from dedup.run.search import Run, set_up
from dedup.run.start import choose_engine, run_on_spark
from dedup.settings.files import to_dict
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.rules import require_text
from dedup.store.adding import Arrival, Grown, digest_content, grow, supply_texts
from dedup.store.folder import TRIES, Conflict
from dedup.store.state import State, create, find_state, read_rows, read_state
from dedup.store.tables import Tables
from dedup.tables.counts import Near, Signed, Stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger("dedup")
Value = TypeVar("Value")
REMEMBERED = 10
"""Batches whose mean the removal rate is held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Destination of a batch."""

    store: str
    batch: str
    anew: bool = False
    """Whether components that the batch touches elect anew."""

    @property
    def identity(self) -> dict[str, Any]:
        """Values that an unfinished run must share with this one to be resumed, besides those of its job."""
        return {"store": self.store, "batch": self.batch, "reelect": self.anew}


def add_batch(job: Job, growth: Growth, *, spark: "SparkSession | None" = None) -> dict[str, Any]:
    """Add documents to a store on the engine of the settings, and publish what becomes of them.

    Parameters
    ----------
    spark
        The caller's session, which "auto" takes.

    Returns
    -------
    dict
        Content of report.json.

    Raises
    ------
    DedupError
        When the input, the settings, the output, the store or the memory do not allow it; nothing is published, and
        the store is what it was.
    """
    check_extra("--store", "store")
    check_schemes(job, growth.store)
    check_apart([*job.inputs, growth.store], job.output)
    check_store(job.inputs, growth.store)
    check_settings(job.config, growth)
    if (spark is not None and job.config.engine != "memory") or choose_engine(job, count_known(growth)) == "spark":
        return run_on_spark(
            job, "dedup.run.pipeline", lambda module, session: add_by_tasks(module, session, job, growth), spark=spark
        )
    return add_alone(job, growth)


def count_known(growth: Growth) -> int:
    """Return about how many documents the store has."""
    tables = Tables(growth.store)
    return read_state(tables).sets if tables.exists() else 0


def add_alone(job: Job, growth: Growth) -> dict[str, Any]:
    """Add documents to a store in the memory of this process; see `add_batch`."""
    return run_in_memory(job, Addition(growth=growth, has_baseline=bool(job.baseline)))


def add_by_tasks(pipeline: Any, spark: "SparkSession", job: Job, growth: Growth) -> dict[str, Any]:  # noqa: ANN401 - a module
    """Add documents to a store by tasks of Spark, where the driver has not the memory; see `add_batch`."""
    if obstacle := find_obstacle_beside(spark, replace(job, inputs=[*job.inputs, growth.store])):
        raise ConfigError(f"--store: the workers themselves must read and write the files ({obstacle})")
    need = estimate_need(list_input(job), job.config, count_known(growth))
    if fits_driver(spark, job.config, need):
        LOG.info("the batch needs about %s of memory: the driver adds it without a job of Spark", size(need))
        return add_alone(job, growth)
    report: dict[str, Any] = pipeline.run(
        spark, job, Addition(growth=growth, has_baseline=bool(job.baseline), threads=1)
    )
    return report


def check_settings(config: Config, growth: Growth) -> None:
    """Refuse settings that a store does not know.

    Raises
    ------
    ConfigError
    """
    if not growth.batch:
        raise ConfigError("--batch: must name the batch where --store is given, such as 2026-11")
    require_text("--batch", growth.batch)
    if config.input.table:
        raise ConfigError("--store: needs files (got a table); write it to files first")
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
            raise ConfigError(f"--store: {name} is of single runs and must not be set (got {value!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """The addition of a batch to a store: see `search.Work`."""

    growth: Growth
    has_baseline: bool
    """Whether another run is the one that the report is held against."""
    threads: int | None = None
    """Threads that look for keys in each process; None for as many as there are cores."""
    asks_all: bool = True
    by_tasks: bool = True

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Work.identity`."""
        return self.growth.identity

    def check(self, config: Config, spec: HashSpec, id_type: pa.DataType) -> None:
        """See `Work.check`."""
        tables = Tables(self.growth.store)
        if tables.exists():
            read_state(tables).check(config, spec, id_type)

    def __call__(self, run: Run[Rows]) -> dict[str, Any]:
        """See `Work`."""
        growth, engine, config, clock = self.growth, run.engine, run.config, run.clock
        [part] = run.parts
        tables = Tables(growth.store)
        layer = NearLayer.make(set_up(NEAR, part, run.context, clock))
        arrival, signed = arrive(engine, layer, growth.batch, config.input.id_column)
        create(tables, engine.id_type)

        def bring(state: State) -> Brought[Rows]:
            # Its tables are of this try alone: the store may be another in the next.
            own = engine.without(None, None, "store").choose(None, f"{secrets.token_hex(4)}_")
            grown = grow(
                own,
                tables,
                state.begin(config, part.spec, engine.id_type),
                arrival,
                anew=growth.anew,
                threads=self.threads or count_cores(),
                has_sources=bool(config.input.source_column),
                stage=clock.time,
                inform=clock.inform,
            )
            # What Arrow holds for later tables is of use to the processes that write the output.
            pa.default_memory_pool().release_unused()
            return Brought(own, grown)

        def publish(brought: Brought[Rows], operation: str) -> dict[str, Any]:
            own, grown = brought
            with clock.time("representatives"):
                found = tell(own, grown, signed, part.name, config.threshold)
            note(clock, grown, found.near[part.name])
            state = grown.writing.snapshot.state
            earlier = None if self.has_baseline else clock.inform(BASELINE, remember, tables, state, growth, config)
            finish = partial(grown.finish, operation) if operation else grown.writing.drop
            return run.publish(replace(found, earlier=earlier, finish=finish))

        return try_until_first(growth, tables, arrival.content, bring=bring, publish=publish, start_over=run.start_over)


class Brought(NamedTuple, Generic[Rows]):
    """Gains of a store's state by a batch, and the engine of its tables."""

    engine: Engine[Rows]
    grown: Grown[Rows]


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


def try_until_first(
    growth: Growth,
    tables: Tables,
    content: str,
    *,
    bring: Callable[[State], Value],
    publish: Callable[[Value, str], dict[str, Any]],
    start_over: Callable[[], None],
) -> dict[str, Any]:
    """Return the report of a batch that no other writer came before, once it is published.

    Parameters
    ----------
    content
        Digest of its documents, see `adding.digest_content`.
    bring
        Given a state of the store, finds what the batch brings.
    publish
        Given that and as which operation, none where the store has it already, lets it be in the store.
    start_over
        Deletes what `publish` has left.

    Raises
    ------
    StorageError
        When others have been first each time, or the output of a batch of before vacuum is to be made again.
    """
    for _ in range(TRIES):
        state, operation = _find_base(tables, content, growth)
        try:
            brought = bring(state)
        except StorageError as error:
            if operation:
                raise
            raise StorageError(
                f"--batch: {growth.batch!r} is in the store, which stays as it is; its output cannot be made again "
                f"since vacuum has deleted what was there before it ({error})"
            ) from error
        try:
            return publish(brought, operation)
        except Conflict:
            LOG.info("%s: another writer was first; starting over with what it has added", redact(growth.store))
            start_over()
    raise StorageError(f"{redact(growth.store)}: {TRIES} other writers were first; repeat the command")


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

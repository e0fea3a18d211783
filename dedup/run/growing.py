"""A batch added to a store, whoever else adds to it: files in, documents signed, a commit, files out."""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Rows, describe
from dedup.errors import ConfigError, DataError, StorageError
from dedup.extras import check_extra
from dedup.files.systems import absolute, redact
from dedup.kernels.digests import digest_each
from dedup.layers import NEAR, load_layer
from dedup.layers.contamination import Contamination
from dedup.layers.copies import KEYS, to_keys
from dedup.layers.near.layer import NearLayer
from dedup.run.apart import check_apart, check_store
from dedup.run.arriving import Arriving
from dedup.run.execution import Run
from dedup.run.job import Job
from dedup.run.search import set_up
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.settings.profiles import refuse_profiles
from dedup.settings.rules import require_text
from dedup.store.adding import Grown, digest_content
from dedup.store.admitted import NAME, take_admitted
from dedup.store.folder import TRIES, Conflict
from dedup.store.numbering import DIGESTS
from dedup.store.snapshot import Snapshot
from dedup.store.state import State, create, find_state, read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import is_whole, note_outputs

LOG = logging.getLogger("dedup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The addition of a batch to a store, what `start` is to do with a job: see `execution.Work`."""

    store: str
    batch: str
    anew: bool = False
    """Whether components that the batch touches elect anew."""
    past: bool = False
    """Whether the batch is another store's, with the name that it has there."""
    outputs: tuple[str, ...] | None = None
    """Folders that the store notes as those of the batch; by default the output of the job."""
    keeps: bool = True
    """Whether the store gets the batch; else the batch only loses what the store has."""
    batches: tuple[str, ...] = ()
    """Batches whose documents count for a store that gets nothing; empty for all."""

    @property
    def identity(self) -> dict[str, Any]:
        """See `Work.identity`."""
        added = {} if self.keeps else {"keeps": False, "batches": [*self.batches]}
        return {"store": self.store, "batch": self.batch, "reelect": self.anew} | added

    def prepare(self, job: Job) -> None:
        """See `Work.prepare`."""
        option = "--store" if self.keeps else "--without"
        check_extra(option, "store")
        if job.has_table:
            raise ConfigError(f"{option}: needs files or rows in memory (got rows of Spark); write them to files first")
        check_apart([*job.inputs, self.store], job.output)
        if self.keeps:
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
        engine, config, clock = run.engine, run.job.config, run.clock
        tables = Tables(self.store, scratch="" if self.keeps else absolute(run.workspace.scratch))
        [part] = run.parts
        near = NearLayer.make(set_up(NEAR, part, run.context, clock))
        outputs = self.outputs if self.outputs is not None else (redact(absolute(run.job.output)),)
        if config.layers[0] == NEAR:
            register, signed = near.sign(engine)
        else:
            with clock.time("content"):
                register, signed = describe(engine, "content", _digest_texts, KEYS), None
        content = digest_content(engine, register, DIGESTS if signed else KEYS.names)
        if self.keeps:
            create(tables, engine.id_type, config.layers, has_sets=config.shingles.stored)
            take_admitted(tables)
        for _ in range(TRIES):
            state, operation = _find_base(tables, content, self)
            # Its tables are of this try alone: the store may be another in the next.
            own = engine.without(None, None, "store").choose(None, f"{secrets.token_hex(4)}_")
            arriving = Arriving(
                run=run,
                tables=tables,
                batch=self.batch,
                anew=self.anew,
                keeps=self.keeps,
                batches=self.batches,
                near=near,
                content=content,
                register=register,
                signed=signed,
            )
            try:
                begun = state.begin(config, part.spec, engine.id_type)
                found, grown = arriving.grow(own, begun.note_outputs(self.batch, outputs))
            except StorageError as error:
                if operation or is_whole(tables, state):
                    raise
                raise StorageError(
                    f"--batch: {self.batch!r} is in the store, which stays as it is; its output cannot be made again "
                    f"since vacuum has deleted what was there before it ({error})"
                ) from error
            # What Arrow holds for later tables is of use to the processes that write the output.
            pa.default_memory_pool().release_unused()
            finish = partial(grown.finish, operation) if operation else partial(self._repeat, tables, grown, outputs)
            try:
                if self.past:
                    # Its output was written when the other store got it.
                    run.given.check_unchanged()
                    finish()
                    return {}
                return run.publish(replace(found, finish=finish))
            except Conflict:
                LOG.info("%s: another writer was first; starting over with what it has added", redact(self.store))
                # What was written of the output is of the store as it was.
                run.workspace.storage.delete(run.workspace.result)
        raise StorageError(f"{redact(self.store)}: {TRIES} other writers were first; repeat the command")

    def _repeat(self, tables: Tables, grown: Grown[Rows], outputs: Sequence[str]) -> None:
        """Leave a store as it is that has the batch already, but for its note of another output."""
        grown.writing.drop()
        if self.keeps and outputs:
            note_outputs(tables, self.batch, outputs)


def _digest_texts(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return to_keys(digest_each(batch["text"]), np.zeros(batch.num_rows, dtype=bool))


def check_settings(config: Config, growth: Growth) -> None:
    """Refuse settings that a store does not know.

    Raises
    ------
    ConfigError
    """
    if growth.keeps and not growth.batch:
        raise ConfigError("--batch: must name the batch where --store is given, such as 2026-11")
    if growth.batch:
        require_text("--batch", growth.batch)
        if growth.batch.startswith(NAME) and not growth.past:
            raise ConfigError(
                f"--batch: must not begin with {NAME!r}, as admitted documents have it (got {growth.batch!r})"
            )
    if config.mode != "lsh":
        raise ConfigError(f'--store: needs mode = "lsh" (got {config.mode!r})')
    for name in config.layers:
        load_layer(name).check_store(config)
    if growth.anew and config.layers != (NEAR,):
        raise ConfigError(f'--reelect: needs layers = ["near"] (got {list(config.layers)}), as others decide for good')
    if config.layers != (NEAR,) and not config.shingles.stored:
        raise ConfigError(
            f'shingles.stored: false needs layers = ["near"] (got {list(config.layers)}), as others may cut texts'
        )
    refuse_profiles(config.profile, "in a store, whose features are of one specification")
    allowed = {"others"} if growth.keeps else {"others", "without"}
    unset = {
        "contamination.common": config.of(Contamination).common if "contamination" in config.layers else 0,
        "limits.per_source": config.limits.per_source,
        "keep.merge": config.keep.merge,
        "keep.copies": config.keep.copies if config.keep.copies != 1 else 0,
        "output.mode": config.output.mode if config.output.mode == "weights" else 0,
        "output.table": config.output.table,
        "input.without": config.input.without,
        "input.part_of": config.input.part_of,
        "keep.drop": "" if config.keep.drop in allowed else config.keep.drop,
        "evaluation.labeled_pairs": config.evaluation.labeled_pairs,
    }
    for name, value in unset.items():
        if value:
            raise ConfigError(
                f"--store: {name} works in single runs only: leave it out, or run over the kept rows of all batches "
                f"without a store (got {value!r})"
            )


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
    if not growth.keeps:
        return Snapshot.open(tables).state, ""
    operation = "reelect" if growth.anew else "add"
    rows, log = read_rows(tables)
    for place, row in enumerate(rows.select(["operation", "batch", "content"]).to_pylist()):
        if row["batch"] == growth.batch:
            if (row["content"], row["operation"]) != (content, operation):
                raise DataError(
                    f"--batch: {growth.batch!r} is in the store with other documents, or was added with another "
                    "--reelect or before the store cut over to other hashes; give these a batch of their own"
                )
            LOG.info("batch %s is in the store already, which stays as it is", growth.batch)
            return find_state(tables, rows.slice(0, place), log), ""
    return find_state(tables, rows, log), operation

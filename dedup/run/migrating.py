"""A store made anew with other settings: from its own tables where they hold what these need, else from the texts."""

import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from dedup.errors import ConfigError, DataError, suggest
from dedup.files.systems import redact
from dedup.layers import NEAR
from dedup.run.apart import check_store
from dedup.run.growing import Growth, check_settings
from dedup.run.job import Job
from dedup.run.start import start
from dedup.settings.alerts import Alerts
from dedup.settings.contract import load_tokenizer
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config, Output
from dedup.store.deleting import delete_ids
from dedup.store.folder import Conflict
from dedup.store.migrating import (
    cut_over,
    find_changes,
    find_disagreements,
    find_needs,
    find_strays,
    list_batches,
    take_over,
)
from dedup.store.schemas import KEYED
from dedup.store.snapshot import Snapshot
from dedup.store.state import State, create, read_state
from dedup.store.tables import Tables


class Migrated(NamedTuple):
    """Differences between a store and another of its batches."""

    changes: pa.Table
    """Documents whose decision is another: id, batch, was_kept, is_kept."""
    edges: pa.Table
    """Edges that one of both has alone: left_id, right_id, jaccard, is_new; of identical documents that of least id."""


def migrate(store: str, target: str, inputs: Mapping[str, str], config: Config, *, cuts_over: bool = False) -> Migrated:
    """Add the batches of a store, as they are now, to another of other settings, those that it lacks.

    The store stays as it is, and may be written to: what has come or gone in it meanwhile is taken over as well, now or
    by the same call once more. A crash leaves the target with whole batches, and the same call goes on.

    Parameters
    ----------
    inputs
        Files of batches, by name; only looked at where texts must be read again.
    config
        The settings that the target is to have.
    cuts_over
        Whether the store then gets the target's tables and settings, in one commit.

    Returns
    -------
    Migrated
        Differences of the target.

    Raises
    ------
    DedupError
        When the settings, an input or a store do not allow it.
    """
    check_settings(config, Growth(store=target, batch="all"))
    check_store([store, *inputs.values()], target, option="--to")
    old, new = Tables(store), Tables(target)
    config = Job(inputs=[], output=target, config=config).settle().config
    spec = HashSpec.of(config, load_tokenizer(config))
    while True:
        state = read_state(old)
        before = Snapshot(tables=old, state=state)
        needs = _check(state, config, spec, redact(store))
        _check_inputs(before, needs, inputs)
        create(new, state.kind, has_sets=config.shingles.stored)
        begun = read_state(new)
        begun.check(config, spec, state.kind)
        done = {past.name for past in list_batches(Snapshot(tables=new, state=begun))}
        _match(before, new, inputs)
        for past in list_batches(before):
            if past.name in done:
                continue
            if needs:
                outputs = tuple(state.outputs.get(past.name, ()))
                is_anew = past.operation == "reelect"
                growth = Growth(store=target, batch=past.name, anew=is_anew, past=True, outputs=outputs)
                _add(inputs[past.name], config, growth)
                # What the store has lost may come again with a later batch.
                _match(before, new, inputs)
            else:
                take_over(before, new, past, config, spec)
        after = Snapshot(tables=new, state=read_state(new))
        found = Migrated(find_changes(before, after), find_disagreements(before, after))
        with contextlib.suppress(Conflict):
            if cuts_over:
                cut_over(old, new, state)
                return found
            if read_state(old).number == state.number:
                return found


def _check(state: State, config: Config, spec: HashSpec, where: str) -> list[str]:
    """Return the settings for which texts must be read again.

    Raises
    ------
    ConfigError
        When no store can be made with these settings of this one.
    """
    if not state.number:
        raise ConfigError(f"{where}: must hold a batch (it has none yet)")
    if config.layers != (NEAR,) or KEYED in state.segments:
        raise ConfigError(
            f'{where}: migrate needs a store of layers = ["near"], as other layers need the texts of all batches in '
            "turn: add these to a new store"
        )
    held = state.settings.get("input.id_column", config.input.id_column)
    if config.input.id_column != held:
        raise ConfigError(f"input.id_column must be {held!r}, as in the store (got {config.input.id_column!r})")
    return find_needs(state, config, spec)


def _check_inputs(old: Snapshot, needs: list[str], inputs: Mapping[str, str]) -> None:
    known = [past.name for past in list_batches(old)]
    missing = [name for name in known if name not in inputs]
    for name in inputs:
        if name not in known:
            raise ConfigError(f"--input: must name a batch of the store (got {name!r}{suggest(name, known)})")
    if needs and missing:
        raise ConfigError(
            f"--input: must give the files of every batch as BATCH=PATH, since another {', '.join(needs)} needs their "
            f"texts (missing: {', '.join(missing)})"
        )


def _add(path: str, config: Config, growth: Growth) -> None:
    """Add a batch of files; what becomes of them is told by the store alone."""
    config = replace(config, alerts=Alerts(), output=Output(mode="ids"))
    with tempfile.TemporaryDirectory(prefix="dedup-") as folder:
        start(Job(inputs=[path], output=f"{folder}/output", config=config), work=growth)


def _match(before: Snapshot, new: Tables, inputs: Mapping[str, str]) -> None:
    """Take out of the target what was taken out of the store, of the batches that both have.

    Raises
    ------
    DataError
        When the target lacks documents of these; nothing has changed then.
    """
    strays, missing = find_strays(before, Snapshot(tables=new, state=read_state(new)))
    if missing:
        raise DataError(
            f"--input: must hold all documents of the store (got {missing:,} fewer in {', '.join(inputs.values())})"
        )
    if strays:
        delete_ids(new, strays, readmit=True)

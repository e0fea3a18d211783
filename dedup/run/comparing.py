"""Snapshots of a corpus compared: files or stores in, a matrix and a page out; nothing that is compared changes."""

import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from dedup.errors import ConfigError, StorageError
from dedup.files.storage import Storage
from dedup.layers import NEAR
from dedup.layers.layer import Context, NothingToSearchError
from dedup.layers.near.layer import NearLayer
from dedup.report.answers import show_matrix
from dedup.run.apart import check_apart, check_outside
from dedup.run.clock import Clock
from dedup.run.growing import Growth, check_settings
from dedup.run.job import Job
from dedup.run.local import choose_held_bytes, list_splits, open_engine
from dedup.run.opening import check_unchanged, choose_cores, list_input, open_input
from dedup.run.profiles import list_parts
from dedup.run.search import set_up
from dedup.settings.alerts import Alerts
from dedup.settings.hashspec import HashSpec
from dedup.settings.inputs import Input
from dedup.settings.options import Config, Evaluation, Keep, Limits, Output
from dedup.settings.rules import require_text
from dedup.store.adding import Arrival, grow
from dedup.store.comparing import SnapshotComparison, compare
from dedup.store.schemas import KEYED
from dedup.store.snapshot import Snapshot
from dedup.store.state import State
from dedup.store.supply import supply_texts
from dedup.store.tables import Tables

LOG = logging.getLogger("dedup")


def name_snapshots(given: Sequence[str], option: str = "--against") -> dict[str, str]:
    """Return paths by the names of their snapshots.

    >>> name_snapshots(["crawls/2026-10", "held-out=eval/*.jsonl"])
    {'2026-10': 'crawls/2026-10', 'held-out': 'eval/*.jsonl'}

    Parameters
    ----------
    given
        PATH, named by its last part, or NAME=PATH.

    Raises
    ------
    ConfigError
        When two have one name, or one has none.
    """
    found: dict[str, str] = {}
    for each in given:
        name, _, path = each.partition("=")
        # A folder may be called date=2026-11.
        if not path or "/" in name or Path(each).exists():
            name, path = Path(each).name or each, each
        if not name:
            raise ConfigError(f"{option}: must be PATH or NAME=PATH (got {each!r})")
        if name in found:
            raise ConfigError(f"{option}: snapshots must have names of their own (got {name!r} twice): give NAME=PATH")
        found[require_text(option, name)] = path
    return found


def compare_snapshots(snapshots: Mapping[str, str], config: Config, output: str | None = None) -> SnapshotComparison:
    """Say how much of each snapshot is in each other.

    Files are made the tables of a store first, in the folder for temporary files, of about 2 kB a document.

    Parameters
    ----------
    snapshots
        Paths of stores and of files, folders or globs, by name.
    config
        Settings by which files are read and duplicates found.
    output
        Folder that must not exist yet, for `matrix.json`, `matrix.html` and `duplicates`.

    Raises
    ------
    DedupError
        When an input, the settings, a store or the output do not allow it.
    """
    if config.input.table:
        raise ConfigError(
            f"input.table: must be empty, as --against names what is compared (got {config.input.table!r})"
        )
    storage = Storage()
    if output is not None:
        check_apart([*snapshots.values()], output)
        check_outside(storage, output)
        if storage.exists(output):
            raise StorageError(f"--output {output}: must not exist yet")
    with tempfile.TemporaryDirectory(prefix="dedup-") as folder:
        opened = {name: Snapshot.open(Tables(path)) for name, path in snapshots.items() if Tables(path).exists()}
        for name, snapshot in opened.items():
            if KEYED in snapshot.state.segments:
                raise ConfigError(
                    f'--against {name}: needs a store of layers = ["near"], as others leave no shingle sets of what '
                    "they have removed: give the files"
                )
        files = {name: path for name, path in snapshots.items() if name not in opened}
        if not files:
            _check_settings(opened, config)
        for name, path in files.items():
            _check_files(path, name, config)
        for number, (name, path) in enumerate(files.items()):
            opened[name] = _read(path, name, _pick(config), Path(folder, f"{number}"))
        found = compare({name: opened[name] for name in snapshots})
        if output is not None:
            _write(found, next(iter(opened.values())).state.search.threshold, storage, output)
    return found


def _check_settings(stores: Mapping[str, Snapshot], config: Config) -> None:
    """Refuse a threshold and hashing that are not those of the stores, where no file is read with them.

    The defaults stand for those of the stores.
    """
    idle = [f"input.{each.name}" for each in fields(Input) if getattr(config.input, each.name) != each.default]
    if idle:
        LOG.warning("%s: changes nothing where stores alone are compared, whose documents are read", ", ".join(idle))
    usual, given = (
        {"threshold": each.threshold, **list_parts(_pick(each))[0].spec.to_dict()}
        for each in (Config(), replace(config, profile=()))
    )
    chosen = [name for name in given if getattr(config.lsh, name, None) != "auto"]
    changed = [name for name in chosen if given[name] != usual[name]]
    for store, snapshot in stores.items():
        own = {**HashSpec(**snapshot.state.spec).to_dict(), "threshold": snapshot.state.search.threshold}
        for name in changed:
            if given[name] != own[name]:
                raise ConfigError(
                    f"--against {store}: {name} must be {own[name]!r}, as in the store (got {given[name]!r})"
                )


def _check_files(path: str, name: str, config: Config) -> None:
    """Make sure that there are files, before any is read."""
    try:
        list_input(Job(inputs=[path], output="", config=config))
    except StorageError as error:
        raise StorageError(f"--against {name}: {error}") from None


def _pick(config: Config) -> Config:
    """Return the settings of a search in which nothing is removed."""
    # What else a run does with duplicates, and what a store would refuse, is of no account here.
    return replace(
        config,
        engine="memory",
        mode="lsh",
        layers=("near",),
        keep=Keep(),
        limits=Limits(),
        evaluation=Evaluation(),
        alerts=Alerts(),
        output=Output(mode="ids"),
        tables=(),
    )


def _read(path: str, name: str, config: Config, folder: Path) -> Snapshot:
    """Return the documents of files as what is in a store, whose tables lie in a new folder and have no log."""
    check_settings(config, Growth(store="", batch=name))
    job = Job(inputs=[path], output="", config=config).settle()
    [part] = list_parts(job.config)
    listing = list_input(job)
    source = open_input(job.config, listing)
    state = State(number=0, log=0, id_type="").begin(job.config, part.spec, source.id_type)
    folder.mkdir()
    cores = choose_cores(listing, job.inputs)
    splits = list_splits(listing, cores, asks_all=True)
    context = Context(size=listing.size, labels=None, held_bytes=choose_held_bytes(splits), asks_all=True)
    with open_engine(source, splits, cores) as engine:
        layer = NearLayer.make(set_up(NEAR, part, context, Clock()))
        documents, signed = layer.sign(engine)
        if not signed.rows:
            raise NothingToSearchError
        arrival = Arrival(
            name=name,
            content="",
            register=documents,
            documents=documents,
            is_held=layer.signing.holds != "none",
            supply=partial(supply_texts, documents=documents, signing=layer.signing),
            id_column=job.config.input.id_column,
        )
        grown = grow(engine, Tables(str(folder)), state, arrival, anew=False, threads=engine.threads)
    check_unchanged(job, listing)
    return Snapshot(tables=grown.writing.tables, state=grown.state, extra=grown.writing.files)


def _write(found: SnapshotComparison, threshold: float, storage: Storage, output: str) -> None:
    """Write what was found, the last file last."""
    with storage.create(f"{output}/duplicates/part-00000.parquet") as stream:
        pq.write_table(found.duplicates, stream)
    told = (
        "that have a duplicate in the column's snapshot, another document of an exact Jaccard similarity of at least "
        f"{threshold}"
    )
    storage.write_text(f"{output}/matrix.html", show_matrix(found.matrix, of="documents", told=told))
    storage.write_text(f"{output}/matrix.json", json.dumps(found.matrix, indent=1, ensure_ascii=False) + "\n")

"""State of a store: the newest row of `batches`, and how another takes its place."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa

from dedup.errors import ConfigError, StorageError
from dedup.files.systems import redact
from dedup.layers import NEAR
from dedup.layers.near.search import Search
from dedup.settings.files import flatten, to_dict
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.store.folder import list_named
from dedup.store.resigning import Signer
from dedup.store.schemas import BATCHES, KEYED, STATES, TABLES, list_layouts, list_tables
from dedup.store.tables import Tables
from dedup.version import __version__

KEY_FILE, TOKENIZER_FILE = "hash.key_file", "shingles.tokenizer_file"
FORMAT = 3
"""Version of the tables; 2 where shingle sets are held and layers have no tables of their own, and 1 where no document
was admitted and no output is noted either, which earlier releases know."""
STORED = "shingles.stored"
UNSAID = {"layers": [NEAR], STORED: True}
"""Settings of stores that do not name them, which earlier releases made."""
DECIDING = (
    "threshold",
    "mode",
    "layers",
    "lsh.",
    "buckets.",
    "cluster.",
    "keep.",
    "limits.",
    "input.id_column",
    STORED,
)
"""Settings, or beginnings of their names, that all batches share besides those of the hash specification."""

ONE_KEPT: Mapping[str, int] = MappingProxyType({"keep.copies": 1, "keep.copies_per_source": 0})
"""Settings of earlier releases, with the values that keep one document of a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Content of a store after a commit."""

    number: int
    """0: nothing yet."""
    log: int
    """Version of `batches` that this was read from."""
    id_type: str
    """Type of the user's ids, int64 or string; empty before the first batch."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings that all batches share."""
    searched: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of their search."""
    segments: Mapping[str, Sequence[str]] = field(default_factory=lambda: dict.fromkeys(TABLES, ()))
    """Segments of every table that the store has."""
    versions: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    """Version of every table that has its segments."""
    sets: int = 0
    """Number that the next shingle set gets."""
    admitted: Sequence[int] = (0, 0)
    """`journal.Position` up to which documents that were admitted are in the tables."""
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Folders that what became of a batch was written to, by its name; earlier releases have noted none."""

    def note_outputs(self, batch: str, outputs: Sequence[str]) -> Self:
        """Return the state that knows these of a batch too."""
        known = self.outputs.get(batch, ())
        return replace(self, outputs={**self.outputs, batch: [*dict.fromkeys([*known, *outputs])]})

    @property
    def kind(self) -> pa.DataType:
        """Type of the user's ids."""
        return pa.string() if self.id_type == "string" else pa.int64()

    @property
    def has_sets(self) -> bool:
        """Whether shingle sets are held; else they are made of the texts again."""
        return bool(self.settings.get(STORED, True))

    @property
    def search(self) -> Search:
        """Parameters of the search of all batches."""
        rules = tuple((name, of) for name, of in self.searched["rules"])
        # Earlier releases noted settings besides that are gone.
        known = {each.name: self.searched[each.name] for each in fields(Search) if each.name in self.searched}
        return Search(**{**known, "rules": rules})

    @property
    def signer(self) -> Signer:
        """Parameters by which its sets are signed again."""
        return Signer(self.searched["bands"], self.searched["rows"], self.spec["signature_seed"])

    def to_json(self) -> str:
        """Return what the row of `batches` holds besides its own columns."""
        held = asdict(self)
        del held["number"], held["log"]
        if not any(self.admitted):
            del held["admitted"]
        if not any(self.outputs.values()):
            del held["outputs"]
        is_known = self.has_sets and {*self.segments} <= {*TABLES, KEYED}
        version = 2 if held.keys() & {"admitted", "outputs"} else 1
        return json.dumps(held | {"format": version if is_known else FORMAT, "version": __version__})

    @classmethod
    def parse(cls, number: int, log: int, text: str, where: str) -> Self:
        """Return the state that a row of `batches` tells.

        Raises
        ------
        StorageError
            When a later release has written it.
        """
        held = json.loads(text)
        if held.pop("format") > FORMAT:
            raise StorageError(f"{where}: must be a store of this release (dedup {held['version']} has changed it)")
        del held["version"]
        return cls(number=number, log=log, **held)

    def begin(self, config: Config, spec: HashSpec, id_type: pa.DataType) -> Self:
        """Return the state to which a batch is added, of whose settings the first decides for all.

        Raises
        ------
        ConfigError
            As `check`.
        """
        self.check(config, spec, id_type)
        if self.number:
            return self
        files = {KEY_FILE: config.hash.key_file, TOKENIZER_FILE: config.shingles.tokenizer_file}
        settings = choose_deciding(config) | files
        searched = asdict(Search.of(config))
        begun = replace(self, id_type=str(id_type), spec=spec.to_dict(), settings=settings, searched=searched)
        names = list_tables(config.layers, has_sets=begun.has_sets)
        return replace(begun, segments=dict.fromkeys(names, ()), versions=dict.fromkeys(names, 0))

    def check(self, config: Config, spec: HashSpec, id_type: pa.DataType) -> None:
        """Refuse settings other than those of the first batch.

        Raises
        ------
        ConfigError
            Names what differs.
        """
        if not self.number:
            return
        self.check_kept()
        # The threshold first, from which bands and rows follow.
        for name, mine in choose_deciding(config).items():
            theirs = {**UNSAID, **self.settings}.get(name, mine)
            if theirs != mine:
                raise ConfigError(f"--store: {name} must be {theirs!r}, as in the store (got {mine!r})")
        own = HashSpec(**self.spec)
        for name, (theirs, mine) in own.difference(spec).items():
            raise ConfigError(f"--store: hash specification: {name} must be {theirs!r}, as in the store (got {mine!r})")
        if str(id_type) != self.id_type:
            raise ConfigError(f"--store: ids must be of type {self.id_type}, as in the store (got {id_type})")

    def check_kept(self) -> None:
        """Refuse a store in which an earlier release has kept several documents of a group.

        Raises
        ------
        ConfigError
            When this release would take them away.
        """
        for name, one in ONE_KEPT.items():
            if (theirs := self.settings.get(name, one)) != one:
                raise ConfigError(
                    f"--store: {name} must be {one}, as one document of a group is kept now (the store was begun with "
                    f"{theirs!r}): look up in it, and begin another for what comes"
                )


def choose_deciding(config: Config) -> dict[str, Any]:
    """Return the settings that all batches of a store share, as JSON gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(flatten(to_dict(config.settle()))))
    own = tuple(f"{layer}." for layer in config.layers)
    # What goes of those alike is always others: check_settings.
    return {name: value for name, value in found.items() if name.startswith((*DECIDING, *own)) and name != "keep.drop"}


def create(tables: Tables, id_type: pa.DataType, layers: Sequence[str] = (NEAR,), *, has_sets: bool = True) -> None:
    """Make the tables of some layers that are missing."""
    layouts, names = list_layouts(id_type, has_sets=has_sets), list_tables(layers, has_sets=has_sets)
    # The one that is made last is there: what failed before may have been of other layers.
    for name in names[len(TABLES) :] if tables.exists() and read_state(tables).number else names:
        tables.create(name, layouts[name].schema)
    if tables.exists():
        return
    tables.create(BATCHES, STATES)


def read_rows(tables: Tables, version: int | None = None, *, newest: bool = False) -> tuple[pa.Table, int]:
    """Return the rows of `batches`, ascending, or those of the newest file, and the version of the table."""
    table = tables.log.open(BATCHES, version)
    files, parts = list_named(table), [STATES.empty_table()]
    for file in files[-1:] if newest else files:
        with tables.read(BATCHES, file, verifies=True) as found:
            parts.append(found.read())
    return pa.concat_tables(parts).sort_by("number"), int(table.version())


def read_state(tables: Tables) -> State:
    """Return what is in a store now.

    Raises
    ------
    StorageError
        When there is no store.
    """
    return find_state(tables, *read_rows(tables, newest=True))


def find_state(tables: Tables, rows: pa.Table, log: int) -> State:
    """Return what the last of some rows of `batches` says is in a store; nothing where there is none.

    Parameters
    ----------
    log
        Version of the table.
    """
    if not rows.num_rows:
        return State(number=0, log=log, id_type="")
    [row] = rows.slice(rows.num_rows - 1).to_pylist()
    return State.parse(row["number"], log, row["state"], redact(tables.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Entry of the history for a commit."""

    operation: str
    batch: str = ""
    content: str = ""
    documents: int = 0
    kept: int = 0

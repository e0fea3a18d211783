"""Layer: what a new one must have, and may; one code of each searches in memory and on Spark."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Work
from dedup.errors import NO_DOCUMENT, ConfigError, DataError
from dedup.informing import Inform
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.references import Reference
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.settings.rules import Table
from dedup.tables import arrow
from dedup.tables.counts import Near

DOC_ID = arrow.integers("doc_id")
CHANGED = pa.schema(
    [*arrow.integers("doc_id", "begin", "end"), ("was_kept", pa.bool_()), ("would_be_kept", pa.bool_())]
)
"""Parts of texts, in characters, null of whole ones: left in when they were published, and by one search now."""
CHOOSING = ("keep.order", "limits.per_source")
"""Settings that say which documents stay."""
SHARED = (
    *("threshold", "mode", "lsh.bands", "lsh.rows", "lsh.recall", "shingles.shingle_size"),
    *("buckets.max_bucket", "cluster.linkage", "cluster.max_component", *CHOOSING),
)
"""Settings that some layers read, and others do not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found(Generic[Rows]):
    """Result of a layer, which the output applies in one pass over the input."""

    documents: Rows
    """Table that `scan` has returned."""
    removals: Rows | None = None
    """REMOVALS: documents to remove, at most one row for each."""
    kept: Rows | None = None
    """Documents that stay for others: rows in the form of REMOVALS, of kind "kept"."""
    edges: Rows | None = None
    """EDGES: pairs of known similarity, which `explain` goes along."""
    near_misses: Rows | None = None
    """EDGES a little below the threshold."""
    cosines: Rows | None = None
    """COSINES: pairs that are edges by their vectors."""
    sample: Rows | None = None
    """doc_id and tokens of a sample of documents, by which tokens are counted."""
    sketches: Rows | None = None
    """Column sketch: parts of the sketch of the documents, see `dedup.layers.near.sketching`."""
    spans: Rows | None = None
    """SPANS: parts of texts, none of a document overlapping, in characters of the text that the layer was given."""
    effect: Literal["cut", "ignore", "mark"] = "cut"
    """Treatment of spans: "cut" out of the text, "ignore" by the layers that follow, or "mark" in OUT/spans alone."""
    counts: Near | None = None
    """Counts of the layer near; None of others."""
    keys: Rows | None = None
    """Documents with the keys by which those of later batches of a store meet them; None of a layer without any."""
    earlier: Rows | None = None
    """Documents of earlier batches in whose favour layers before have removed some, in the form of REMOVALS."""
    stored: Mapping[str, Rows] = field(default_factory=dict)
    """Rows of documents, distinct, that later batches of a store meet, by the table that keeps them."""
    changes: Rows | None = None
    """CHANGED: parts of texts of earlier batches with which one search of all would do otherwise."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further part of report.json on the layer, as JSON has it."""


class NothingToSearchError(DataError):
    """No document is there, or left, for a layer that needs one."""

    def __init__(self) -> None:
        super().__init__(NO_DOCUMENT)


class Fetch(Protocol[Rows]):
    """A way to read some documents again: see `Engine.fetch`."""

    def __call__(self, name: str, wanted: Rows, work: Work, schema: pa.Schema, /, *, once: bool = False) -> Rows:
        """Return what the work makes of them."""


class EarlierKeys(Protocol):
    """Documents of the earlier batches of a store."""

    def find(self, engine: Engine[Rows], rows: Rows, kind: str) -> Rows:
        """Return those of the keys of some documents, as rows of the same columns: see `dedup.layers.copies.keyed`.

        `kind` is that of the layer's own removals: documents that others have removed still have copies.
        """

    def find_known(self, engine: Engine[Rows], documents: Rows) -> Rows | None:
        """Return the rows of documents that are there already, being equal; None where a column names them."""

    def look_up(self, engine: Engine[Rows], table: str, rows: Rows, columns: Sequence[str] | None = None) -> Rows:
        """Return the rows of a table whose keys are those of some rows, which have a name; all columns or some."""

    def read(self, engine: Engine[Rows], table: str, columns: Sequence[str]) -> Rows:
        """Return all rows of some columns of a table."""

    def open(self, engine: Engine[Rows], table: str) -> Fetch[Rows]:
        """Return how to read documents again, those of earlier batches with their texts in a table.

        The first of their `order_keys` is less the earlier they came, as the rule FIRST_COME asks for.
        """

    def date(self, engine: Engine[Rows], table: str, own: Rows, earlier: Rows) -> Rows:
        """Return the columns of `ordering.sourced` of documents of a batch, and of earlier ones, `order_keys` as above.

        The table has the states that brought the latter, rows of doc_id with a name.
        """


class Stages(Protocol):
    """A clock that a layer of several stages tells of each."""

    inform: Inform
    """Runs what is no part of the search, which goes on without what fails of it."""

    def time(self, name: str) -> AbstractContextManager[object]:
        """Return the context in which a stage is done."""

    def note(self, name: str, counts: Any) -> None:  # noqa: ANN401 - any of `tables.counts`
        """Take note of what a stage has counted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """Facts of a run that layers need besides its settings."""

    size: int
    """Bytes of the input."""
    labels: pa.Table | None
    """left_id, right_id and duplicate of labelled pairs; None without any."""
    held_bytes: int = 0
    """Bytes of shingle sets that the first pass may give back for each split; 0 where that does not lie in memory."""
    asks_all: bool = False
    """Whether the shingle sets of all documents will be asked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setup:
    """Materials that a layer is made of, for the documents of a run or of one of its profiles."""

    config: Config
    """Settings of these documents."""
    tokenizer: Tokenizer
    spec: HashSpec
    places: Sequence[int]
    """Places, among the values of `merged`, of the columns that the layer has listed."""
    context: Context
    stages: Stages


class Layer(ABC):
    """Kind of duplication; its class is all that a run, its report and its explanation know of it.

    A class is one line of `dedup.layers.LAYERS`. An instance is the layer with its settings.
    """

    __slots__ = ()
    name: ClassVar[str]
    """Name in settings, report and `duplicates`."""
    table: ClassVar[type[Table] | None] = None
    """Settings, the table of this name in TOML; None of a layer without any of its own."""
    reads: ClassVar[Sequence[str]] = SHARED
    """Settings of SHARED that it reads: a run warns of those that none of its layers does."""
    copies_kind: ClassVar[str] = ""
    """Kind of the removals of wholly equal rows; empty of a layer that leaves them to others."""
    is_incremental: ClassVar[bool] = False
    """Whether it is searched batch by batch, in a store, with the result of one search."""
    reads_texts: ClassVar[bool] = True
    """Whether it asks more of documents than their sets of shingles, which the elements of lists can be."""
    has_stages: ClassVar[bool] = False
    """Whether it tells the clock of stages of its own, and is none itself."""

    @classmethod
    def check(cls, config: Config) -> None:
        """Refuse settings that lack others.

        Raises
        ------
        ConfigError
        """
        del config

    @classmethod
    def check_store(cls, config: Config) -> None:
        """Refuse settings with which the layer is not searched batch by batch.

        Raises
        ------
        ConfigError
        """
        if not cls.is_incremental:
            raise ConfigError(
                f'--store: does not take the layer "{cls.name}" (got {list(config.layers)}), which looks at the whole '
                "corpus: run it over the kept rows of all batches"
            )

    @classmethod
    def list_columns(cls, config: Config) -> Sequence[tuple[str, str]]:
        """Return the columns whose values the layer needs, each after the setting that names it."""
        del config
        return ()

    @classmethod
    def name_vector(cls, config: Config) -> str:
        """Return the column of the vectors that the layer needs; empty for none."""
        del config
        return ""

    @classmethod
    def list_references(cls, config: Config) -> Sequence[Reference]:
        """Return the files that the layer reads besides the input."""
        del config
        return ()

    @classmethod
    def warm(cls, setup: Setup) -> None:
        """Load or compile what the layer calls of all texts, so that processes forked from this one need not do it."""
        del setup

    @classmethod
    @abstractmethod
    def make(cls, setup: Setup) -> Self:
        """Return the layer with the settings of some documents."""

    @abstractmethod
    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: those that are left in; what is removed or cut out of them out."""

    def review(self, engine: Engine[Rows], removals: Rows) -> Found[Rows] | None:
        """Look at what earlier layers remove, in an engine for all documents; None of a layer that searches instead."""
        del engine, removals
        return None

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch, and those of earlier ones for copies of them; see `find`."""
        del past
        return self.find(engine)


def check_places(config: Config, setting: str, length: int, least: int, action: str) -> None:
    """Refuse markup, in which tokens have no places, and lengths in words, and cuts, where tokens are characters.

    Parameters
    ----------
    setting
        Name of the setting that the length is of, in the layer's table.

    Raises
    ------
    ConfigError
    """
    table = setting.partition(".")[0]
    for own in config.by_profile.values():
        if own.text.markup != "keep":
            raise ConfigError(
                f'text.markup: must be "keep" with the layer "{table}", whose spans are places in the text itself '
                f'(got "{own.text.markup}")'
            )
        if own.shingles.unit != "char":
            continue
        if length < least:
            raise ConfigError(
                f'{setting}: must be at least {least} with shingles.unit = "char", in characters (got {length})'
            )
        if action == "cut":
            raise ConfigError(f'{table}.action: must not be "cut" with shingles.unit = "char", as it would part words')


def to_edges(engine: Engine[Rows], removals: Rows, *, name: str = "") -> Rows:
    """Return EDGES of each document removed and its representative."""
    return engine.map(removals, _to_edges, arrow.EDGES, name=name)


def _to_edges(batches: Batches) -> Batches:
    for batch in batches:
        others = pa.array(to_doc_ids(batch["representative_id"]))
        # A document that an earlier batch has too is a copy of itself.
        is_pair = pc.not_equal(batch["doc_id"], others)
        ends = [pc.min_element_wise(batch["doc_id"], others), pc.max_element_wise(batch["doc_id"], others)]
        yield pa.RecordBatch.from_arrays([*ends, batch["jaccard"]], schema=arrow.EDGES).filter(is_pair)

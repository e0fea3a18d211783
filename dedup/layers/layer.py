"""What a layer asks of an engine and what it gives back; one code of each layer searches in memory and on Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

from dedup.errors import DataError

Rows = TypeVar("Rows")
"""A table of an engine: of Arrow in memory, a DataFrame on Spark."""
Batches: TypeAlias = Iterable[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Batches]
"""Work on batches, which goes to other processes: a function of a module, or a `functools.partial` of one."""
Describe: TypeAlias = Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
"""Columns of documents, one value for each; it goes to other processes too."""


class Engine(Protocol[Rows]):
    """The documents that earlier layers have left, and tables made of them by work on Arrow batches.

    Batches of documents have the columns of DOCUMENTS (see `dedup.tables.arrow`): doc_id, the user's id, text, source,
    place, size, the keys of `keep.order` and the values of `keep.merge`. Integers are int64, hashes too.
    """

    @property
    def id_type(self) -> pa.DataType:
        """Type of the user's own ids: int64 or string."""

    def scan(self, name: str, describe: Describe, schema: pa.Schema) -> Rows:
        """Read all documents once: a row for each, with the columns of REGISTER, and then those of the schema.

        `name` names the table, unique in a layer.
        """

    def meet(
        self,
        name: str,
        rows: Rows,
        emit: Work | None,
        work: Work,
        *,
        emitted: pa.Schema,
        by: Sequence[str],
        order: Sequence[str],
        schema: pa.Schema,
        once: bool = False,
        repeated: bool = False,
    ) -> Rows:
        """Bring rows of equal keys together.

        `emit` makes rows of the schema `emitted` out of batches of `rows`; None where they have it. `work` receives
        them in ascending order of the columns `by`, then `order`, all int64; rows of equal `by` come to one call,
        though perhaps in several batches: see `dedup.kernels.runs.groups.join_groups`. What it yields has the schema
        `schema`. With `once` they are read by one table alone, and made for it without being kept. With `repeated` the
        first of `by` is a hash, and the work makes nothing of a row whose hash no other has: it need not come.
        """

    def fetch(self, name: str, wanted: Rows, work: Work, schema: pa.Schema, *, once: bool = False) -> Rows:
        """Read some documents again: `work` receives batches of documents with the columns of `wanted` besides.

        `wanted` has a row for each of them, known by doc_id; `once` as for `meet`.
        """

    def name_documents(self, name: str, rows: Rows, *, of: str, to: str, schema: pa.Schema) -> Rows:
        """Return rows with the user's ids, in the column `to`, of the documents whose doc_id the column `of` holds.

        Where that is null, the id is too. Of the columns they have then the rows keep those of the schema.
        """

    def connect(self, name: str, rows: Rows, ends: tuple[str, str]) -> Rows:
        """Return rows that are edges, with a further column `component`: the least doc_id of the component of each.

        `ends` are the columns of the doc_ids that a row joins, int64 without nulls.
        """

    def turn(self, rows: Rows, work: Work, schema: pa.Schema) -> Rows:
        """Return what the work makes of rows, wherever each stands."""

    def select(self, rows: Rows, *columns: str) -> Rows:
        """Return rows with these columns alone, so that no others are brought to what is done with them."""

    def unite(self, *tables: Rows) -> Rows:
        """Return the rows of tables of one schema."""

    def spread(self, name: str, table: pa.Table) -> Rows:
        """Return the rows of a table that the memory of this machine holds."""

    def measure(self, rows: Rows, *columns: str) -> Mapping[str, int]:
        """Return the number of `rows`, and the sums of some columns by their names."""

    def collect(self, rows: Rows) -> pa.Table:
        """Return a table that is small."""

    def leave(self, removals: Rows | None, spans: Rows | None, layer: str) -> Self:
        """Return the engine for a layer, without the documents of the first, and the spans of the second, by doc_id.

        It begins with all documents; what other layers left is not remembered.
        """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found(Generic[Rows]):
    """Result of a layer, which the output applies in one pass over the input."""

    documents: Rows
    """What `scan` has returned."""
    removals: Rows | None = None
    """REMOVALS: documents to remove, at most one row for each."""
    edges: bool = False
    """Whether removals are of pairs of known similarity, which `explain` goes along."""
    spans: Rows | None = None
    """SPANS: parts of texts, none of a document overlapping, in characters of the text that the layer was given."""
    effect: Literal["cut", "ignore", "mark"] = "cut"
    """Of spans: "cut" out of the text, "ignore" by the layers that follow, or "mark" in OUT/spans alone."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What report.json says of the layer besides, as JSON has it."""


class NothingToSearchError(DataError):
    """No document is there, or left, for a layer that needs one."""

    def __init__(self) -> None:
        super().__init__("--input: must hold at least one document (it has none)")


class Layer(Protocol):
    """One kind of duplication: the documents that are left in; what it removes or cuts out of them out."""

    @property
    def name(self) -> str:
        """Name in settings, report and `duplicates`."""

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents."""

"""The protocol of engines: what a layer asks of whoever holds the documents, as Arrow, Spark and SQL name it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, TypeVar

import pyarrow as pa

Rows = TypeVar("Rows")
"""A table of an engine: of Arrow in memory, a DataFrame on Spark."""
Batches: TypeAlias = Iterable[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Batches]
"""Work on batches, which goes to other processes: a function of a module, or a `functools.partial` of one."""
Describe: TypeAlias = Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
"""Columns of documents, one value for each; it goes to other processes too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Rows brought together by key, and the work on those of equal keys.

    `emit` turns rows into others, of the schema `emitted`, which travel; `work` receives these in ascending order of
    the columns `by`, then `order`, all int64. Rows of equal `by` come to one call, though perhaps in several batches:
    see `dedup.kernels.runs.groups.join_groups`.
    """

    emit: Work | None = None
    """None where rows have the columns of `emitted` already."""
    emitted: pa.Schema
    by: Sequence[str]
    order: Sequence[str] = ()
    work: Work
    schema: pa.Schema
    """Rows that `work` yields."""
    repeated: bool = False
    """Whether the first of `by` is a hash and `work` ignores rows whose hash is unique, so that an engine may drop
    these."""


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

    def group(self, name: str, rows: Rows, shuffle: Shuffle, *, once: bool = False) -> Rows:
        """Bring rows of equal keys together: see `Shuffle`.

        With `once` the table is read by one other alone, and made for that without being kept.
        """

    def fetch(self, name: str, wanted: Rows, work: Work, schema: pa.Schema, *, once: bool = False) -> Rows:
        """Read some documents again: `work` receives batches of documents with the columns of `wanted` besides.

        `wanted` has a row for each of them, known by doc_id; `once` as for `group`.
        """

    def name_documents(self, name: str, rows: Rows, *, of: str, to: str, schema: pa.Schema) -> Rows:
        """Return rows with the user's ids, in the column `to`, of the documents whose doc_id the column `of` holds.

        Where that is null, the id is too. Of the columns they have then the rows keep those of the schema.
        """

    def connect(self, name: str, rows: Rows, ends: tuple[str, str]) -> Rows:
        """Return rows that are edges, with a further column `component`: the least doc_id of the component of each.

        `ends` are the columns of the doc_ids that a row joins, int64 without nulls.
        """

    def map(self, rows: Rows, work: Work, schema: pa.Schema) -> Rows:
        """Return what the work makes of rows, wherever each stands."""

    def select(self, rows: Rows, *columns: str) -> Rows:
        """Return rows with these columns alone, so that no others are brought to what is done with them."""

    def concat(self, *tables: Rows) -> Rows:
        """Return the rows of tables of one schema."""

    def parallelise(self, name: str, table: pa.Table) -> Rows:
        """Return the rows of a table that the memory of this machine holds."""

    def measure(self, rows: Rows, *columns: str) -> Mapping[str, int]:
        """Return the number of `rows`, and the sums of some columns by their names."""

    def collect(self, rows: Rows) -> pa.Table:
        """Return a table that is small."""

    def without(self, removals: Rows | None, spans: Rows | None, layer: str) -> Self:
        """Return the engine for a layer, without the documents of the first, and the spans of the second, by doc_id.

        It begins with all documents; what other layers left is not remembered.
        """

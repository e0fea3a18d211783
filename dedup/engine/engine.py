"""The protocol of engines: what a layer asks of whoever holds the documents, as Arrow, Spark and SQL name it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from dedup.kernels import Integers
from dedup.kernels.runs.batches import conform_each
from dedup.kernels.runs.groups import drop_repeated
from dedup.tables import arrow

Rows = TypeVar("Rows")
"""A table of an engine: of Arrow in memory, a DataFrame on Spark."""
Batches: TypeAlias = Iterable[pa.RecordBatch]
Payload = TypeVar("Payload")


class Tally(Counter[Any]):
    """Counts that work yields beside its batches: sums by name, histograms by (name, value)."""

    def add_each(self, name: str, values: Integers) -> Self:
        """Count each value of an array in a histogram."""
        found, counts = np.unique(values, return_counts=True)
        self.update({(name, value): count for value, count in zip(found.tolist(), counts.tolist(), strict=True)})
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the sums, and histograms as dictionaries with text for keys, as JSON has them."""
        told: dict[str, Any] = {}
        for key, count in sorted(self.items(), key=repr):
            if isinstance(key, tuple):
                told.setdefault(key[0], {})[str(key[1])] = count
            else:
                told[key] = count
        return told


def read_histogram(tally: Mapping[str, Any], name: str) -> dict[int, int]:
    """Return a histogram of numbers, ascending."""
    return dict(sorted((int(number), count) for number, count in tally.get(name, {}).items()))


Work: TypeAlias = Callable[[Batches], Iterable[pa.RecordBatch | Tally]]
"""Work on batches, which goes to other processes: a function of a module, or a `functools.partial` of one."""
Emit: TypeAlias = Callable[[Batches], Batches]
"""Work that counts nothing."""
Describe: TypeAlias = Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
"""Columns of documents, one value for each; it goes to other processes too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffle:
    """Rows brought together by key, and the work on those of equal keys.

    `emit` turns rows into others, of the schema `emitted`, which travel; `work` receives these in ascending order of
    the columns `by`, then `order`, all int64. Rows of equal `by` come to one call, though perhaps in several batches:
    see `dedup.kernels.runs.groups.join_groups`.
    """

    emit: Emit | None = None
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
    in_order: bool = True
    """False where `work` takes rows in any order, all of its call at once."""


class Compared(NamedTuple):
    """Result of comparing some pairs."""

    chosen: Integers
    """Pairs that are kept, ascending."""
    columns: Mapping[str, pa.Array]
    """Further columns of these."""
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Generic[Payload]):
    """Pairs of documents compared where both are.

    `prepare` makes what the comparison needs of documents, rows of `columns` ascending by doc_id, one each; `work` is
    given that, and the rows of both documents of distinct pairs, the lesser doc_id on the left.
    """

    columns: Sequence[str]
    """Columns of documents, of which doc_id is the first."""
    prepare: Callable[[pa.Table], Payload]
    work: Callable[[Payload, Integers, Integers], Compared]
    schema: pa.Schema
    """Columns left_id, right_id, and those that `work` gives."""
    cap: int | None = None
    """Members of a bucket up to which all of its pairs are meant: see `dedup.kernels.sets.lsh.pairs`."""
    share: float | None = None
    """Share of the pairs that the cap leaves out, to be compared instead."""


class Size(NamedTuple):
    """Estimate by which an engine plans a comparison."""

    pairs: float
    """Pairs, each as often as it is named."""
    ends: float
    """Documents named."""
    documents: float
    bytes: float
    """Bytes of what is compared of all documents."""


How: TypeAlias = Literal["inner", "left", "semi", "anti"]


class Engine(Protocol[Rows]):
    """The documents that earlier layers have left, and tables made of them by work on Arrow batches.

    Batches of documents have the columns of DOCUMENTS (see `dedup.tables.arrow`): doc_id, the user's id, text, source,
    place, size, the keys of `keep.order` and the values of `keep.merge`. Integers are int64, hashes too.
    """

    @property
    def id_type(self) -> pa.DataType:
        """Type of the user's own ids: int64 or string."""

    def scan(self, name: str, work: Work, schema: pa.Schema) -> Rows:
        """Read all documents once: `work` receives them, and yields a row for each, of the schema.

        That begins with REGISTER. `name` names the table, unique in a layer. Layers that add columns call `describe`.
        """

    def group(
        self, name: str, rows: Rows, shuffle: Shuffle, *, expected: float | None = None, once: bool = False
    ) -> Rows:
        """Bring rows of equal keys together: see `Shuffle`.

        About `expected` rows travel, None where nobody knows. With `once` the table is read by one other alone, and
        made for that without being kept.
        """

    def compare(self, name: str, pairs: Rows, documents: Rows, comparison: Comparison[Any], size: Size) -> Rows:
        """Bring both documents of each pair to one place and compare them: see `Comparison`.

        `pairs` has columns left_id and right_id, left_id < right_id, or those of BUCKETS; each distinct pair is
        compared once. `documents` has a row at least for each document named.
        """

    def join(self, rows: Rows, others: Rows, on: str, *, key: str = "doc_id", how: How = "inner") -> Rows:
        """Join rows with those of `others` whose `key` equals their column `on`, which have at most one each.

        "left" leaves null what is missing; "semi" and "anti" keep the columns of rows alone, and there `others` may
        have several.
        """

    def lookup(self, rows: Rows, doc_ids: pa.Array) -> pa.Table:
        """Return the rows of some documents, both few."""

    def tally(self, rows: Rows) -> Mapping[str, Any]:
        """Return what work has counted as it made a table, with its `rows`: see `Tally.to_dict`.

        Of what `group` makes it has also `emitted`, the rows that were brought together.
        """

    @property
    def collectable_bytes(self) -> int:
        """Bytes of the largest table that `collect` is to return."""

    def fetch(self, name: str, wanted: Rows, work: Work, schema: pa.Schema, *, once: bool = False) -> Rows:
        """Read some documents again: `work` receives batches of documents with the columns of `wanted` besides.

        `wanted` has a row for each of them, known by doc_id; `once` as for `group`.
        """

    def connect(self, name: str, links: Rows, count: int) -> Rows:
        """Return COMPONENTS of links, left_id and right_id: doc_id, and the least of its component as component_id.

        `count` links there are at most. The tally says which `engine` connected them.
        """

    def map(self, rows: Rows, work: Work, schema: pa.Schema, *, name: str = "") -> Rows:
        """Return what the work makes of rows, wherever each stands; with a name it is kept, and has a tally.

        Parts of the rows go to calls of the work that may run in several threads at once.
        """

    def select(self, rows: Rows, *columns: str, **renamed: str) -> Rows:
        """Return rows with these columns alone, so that no others are brought to what is done with them.

        Those of `renamed` come last, each under the name before its own.
        """

    def drop_null(self, rows: Rows, column: str) -> Rows:
        """Return the rows whose value in a column is not null, few of many."""

    def expect(self, rows: Rows, count: int) -> Rows:
        """Return rows of which there are about so many, by which an engine plans joins."""

    def concat(self, *tables: Rows) -> Rows:
        """Return the rows of tables of one schema."""

    def range(self, count: int, work: Work, schema: pa.Schema) -> Rows:
        """Return what the work makes of the numbers below a count, in the column `number`, each worth a task."""

    def sort(self, rows: Rows, by: str, work: Work, schema: pa.Schema, *, pieces: int = 1) -> Rows:
        """Put rows in the order of an integer column, in so many ranges, about; work receives each by itself."""

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

    def choose(self, chosen: Any, part: str) -> Self:  # noqa: ANN401 - `dedup.files.profile_filter.ProfileFilter`
        """Return the engine for the documents of a profile, None for all, with tables whose names begin with `part`."""


def pass_on(batches: Batches) -> Batches:
    """Return rows as they are: work of a table that is only to be kept."""
    return batches


def describe(engine: Engine[Rows], name: str, columns: Describe, schema: pa.Schema) -> Rows:
    """Read all documents once: REGISTER with further columns."""
    whole = pa.schema([*arrow.register(engine.id_type), *schema])
    return engine.scan(name, partial(_add_columns, columns=columns, schema=whole), whole)


def _add_columns(batches: Batches, *, columns: Describe, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        known = {name: batch[name] for name in batch.schema.names} | dict(columns(batch))
        yield pa.RecordBatch.from_arrays([known[name] for name in schema.names], schema=schema)


def look_up(engine: Engine[Rows], rows: Rows, column: str, doc_ids: Integers) -> dict[int, Any]:
    """Return the values of a column by the doc_id of some documents, few, as far as rows have them."""
    found = engine.lookup(engine.select(rows, "doc_id", column), pa.array(np.unique(doc_ids)))
    return dict(zip(found["doc_id"].to_pylist(), found[column].to_pylist(), strict=True))


def once(schema: pa.Schema, by: Sequence[str] = ("doc_id",)) -> Shuffle:
    """Return the shuffle rows -> the first of those that are equal in some columns."""
    return Shuffle(emitted=schema, by=by, work=partial(drop_repeated, by=by), schema=schema)


def conform_rows(engine: Engine[Rows], rows: Rows, schema: pa.Schema, /, *, name: str = "", **columns: Any) -> Rows:  # noqa: ANN401 - see `conform`
    """Return rows with the columns of a schema: those given, one value each, else their own, else nulls."""
    return engine.map(rows, partial(conform_each, schema=schema, **columns), schema, name=name)

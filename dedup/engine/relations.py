"""Relations that Spark's workers evaluate by themselves, from the files that workers have written.

A row that Spark reads for a worker costs microseconds, which a worker that reads the file does not pay. Between two
shuffles a relation is a chain of projections, selections and joins with few rows, in the words of relational algebra.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.engine.engine import Batches, How, Tally, Work
from dedup.engine.placement import SENT_BYTES
from dedup.files.storage import Storage
from dedup.kernels import Integers
from dedup.kernels.runs.bounds import rank


class Fragment(NamedTuple):
    """Row group of a file of parquet."""

    path: str
    number: int
    size: int
    """Bytes of its rows, nearly, as Arrow holds them."""


class Relation(Protocol):
    """Rows that are made of each fragment by itself; it goes to workers."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Fragments of which it is made."""

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """Yield these columns, in this order, of what is made of a fragment, known by its number; none is empty."""


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that workers have written."""

    fragments: Sequence[Fragment]
    schema: pa.Schema

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        path, group, _ = self.fragments[number]
        with Storage().open(path) as stream, pq.ParquetFile(stream, page_checksum_verification=True) as file:
            found = file.read_row_group(group, columns=[*columns], use_threads=False)
        rows = max(1, found.num_rows * SENT_BYTES // max(found.nbytes, 1))
        yield from found.select([*columns]).replace_schema_metadata().to_batches(rows)


@dataclass(frozen=True)
class _Derived:
    """Rows made of each fragment of others."""

    of: Relation

    @property
    def fragments(self) -> Sequence[Fragment]:
        """See `Relation.fragments`."""
        return self.of.fragments


@dataclass(frozen=True)
class Projection(_Derived):
    """Columns under other names."""

    names: Mapping[str, str]
    """Names of before by those of now."""

    @property
    def schema(self) -> pa.Schema:
        """See `Relation.schema`."""
        return pa.schema([self.of.schema.field(old).with_name(new) for new, old in self.names.items()])

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        for batch in self.of.read(number, [self.names[name] for name in columns]):
            yield batch.rename_columns([*columns])


@dataclass(frozen=True)
class NotNull(_Derived):
    """Rows whose value in a column is not null."""

    column: str

    @property
    def schema(self) -> pa.Schema:
        """See `Relation.schema`."""
        return self.of.schema

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        for batch in self.of.read(number, list(dict.fromkeys([*columns, self.column]))):
            found = batch.filter(batch[self.column].is_valid())
            if found.num_rows:
                yield found.select([*columns])


@dataclass(frozen=True)
class Map(_Derived):
    """Result of work on the rows of each fragment, without its tallies."""

    columns: Sequence[str]
    """Columns that the work is given."""
    work: Work
    schema: pa.Schema
    """Columns that it makes."""

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        for found in self.work(self.of.read(number, self.columns)):
            if not isinstance(found, Tally) and found.num_rows:
                yield found.select([*columns])


@dataclass(frozen=True, slots=True)
class Union:
    """Rows of several relations of the same columns."""

    parts: Sequence[Relation]

    @property
    def schema(self) -> pa.Schema:
        """See `Relation.schema`."""
        return self.parts[0].schema

    @property
    def fragments(self) -> Sequence[Fragment]:
        """See `Relation.fragments`."""
        return [fragment for part in self.parts for fragment in part.fragments]

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        for part in self.parts:
            if number < len(part.fragments):
                return part.read(number, columns)
            number -= len(part.fragments)
        raise IndexError


@dataclass(frozen=True)
class Join(_Derived):
    """Join with others that a worker reads whole, and keeps for its further tasks."""

    others: Relation
    on: str
    """Column of rows, integers."""
    key: str
    """Column of others that must equal it."""
    added: pa.Schema
    """Columns that rows gain; none in a semi or anti join."""
    how: How

    @property
    def schema(self) -> pa.Schema:
        """See `Relation.schema`."""
        return pa.schema([*self.of.schema, *self.added])

    @cached_property
    def _sorted(self) -> tuple[Integers, pa.Table]:
        """Keys of others in ascending order, and what rows gain of each."""
        batches = [batch.filter(batch[self.key].is_valid()) for batch in self._read_others()]
        if not batches:
            return np.empty(0, np.int64), self.added.empty_table()
        found = pa.Table.from_batches(batches)
        keys = found[self.key].to_numpy()
        order = np.argsort(keys, kind="stable")
        return keys[order], found.select(self.added.names).take(pa.array(order))

    def _read_others(self) -> Iterator[pa.RecordBatch]:
        for number in range(len(self.others.fragments)):
            yield from self.others.read(number, [self.key, *self.added.names])

    def read(self, number: int, columns: Sequence[str]) -> Batches:
        """See `Relation.read`."""
        own = [name for name in columns if name not in self.added.names]
        for batch in self.of.read(number, list(dict.fromkeys([*own, self.on]))):
            found = self._join(batch)
            if found.num_rows:
                yield found.select([*columns])

    def _join(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        keys, others = self._sorted
        wanted, present = (
            batch[self.on].fill_null(0).to_numpy(),
            batch[self.on].is_valid().to_numpy(zero_copy_only=False),
        )
        # A search for keys in order is twice as fast.
        order = np.argsort(wanted)
        begins, ends = (np.searchsorted(keys, wanted[order], side=side) for side in ("left", "right"))
        counts = (ends - begins) * present[order]
        if self.how in {"semi", "anti"}:
            chosen = np.empty(batch.num_rows, dtype=bool)
            chosen[order] = (counts > 0) == (self.how == "semi")
            return batch.filter(pa.array(chosen))
        times = counts if self.how == "inner" else np.maximum(counts, 1)
        rows = np.repeat(np.arange(order.size), times)
        places = pa.array(begins[rows] + rank(rows), mask=counts[rows] == 0)
        taken = others.take(places).combine_chunks()
        joined = pa.Table.from_batches([batch]).take(pa.array(order[rows]))
        for name in self.added.names:
            joined = joined.append_column(name, taken[name])
        [found] = joined.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], joined.schema)]
        return found

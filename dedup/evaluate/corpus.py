"""Corpus that a sample is drawn from, in files that processes of this machine read, or tasks of Spark."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from dedup.engine.workers import Open, Processes
from dedup.files.source import FileSource
from dedup.files.splits import Split, split_files
from dedup.kernels import Integers, neighbours
from dedup.kernels.ids import SEED, to_doc_ids
from dedup.kernels.neighbours import Seeds
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.run.job import Job
from dedup.run.opening import SPLIT_BYTES, choose_cores, list_input, open_input
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config

NAMES = ("doc_id", "id", "text")


class Neighbours(NamedTuple):
    """Documents that resemble the drawn ones."""

    seeds: Integers
    doc_ids: Integers
    counts: Mapping[str, int]
    """Counters, as from `dedup.kernels.neighbours.find_neighbours`."""


class SampledCorpus(Protocol):
    """Corpus to draw a sample from; each call reads it once."""

    @property
    def id_type(self) -> pa.DataType:
        """Type of the users' ids."""

    def draw(self, count: int) -> pa.Table:
        """Return doc_id, id and text of the `count` documents with the least hashes: the same on every run."""

    def fetch(self, doc_ids: Integers) -> pa.Table:
        """Return the documents with these ids that exist."""

    def find_neighbours(self, seeds: Seeds, *, most: int, config: Config) -> Neighbours:
        """Return documents that resemble the drawn ones; for each at least the `most` with the least hashes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileCorpus:
    """Corpus in files, read as by the memory engine."""

    source: FileSource
    splits: Sequence[Split]
    begin: Open

    @classmethod
    def open(cls, job: Job, begin: Open | None = None) -> Self:
        """Open the files of an input.

        Parameters
        ----------
        begin
            Maker of those who share the passes; None for processes of this machine.

        Raises
        ------
        DedupError
            As for a run; malformed records are left out where they are to be set aside.
        """
        listing = list_input(job)
        splits = split_files(listing, SPLIT_BYTES)
        processes = partial(Processes, min(choose_cores(listing, job.inputs), len(splits)))
        return cls(source=open_input(job.config, listing), splits=splits, begin=begin or processes)

    @property
    def id_type(self) -> pa.DataType:
        """See `SampledCorpus.id_type`."""
        return self.source.id_type

    def draw(self, count: int) -> pa.Table:
        """See `SampledCorpus.draw`."""
        found = self._map(partial(_draw, count=count))
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        splits = np.repeat(np.arange(len(found)), [each[0].size for each in found])
        chosen = _order(columns[0], columns[1])[:count]
        files, rows = columns[2][chosen], columns[3][chosen]
        wanted: list[tuple[Split, dict[int, Integers]]] = []
        for number in np.unique(splits[chosen]).tolist():
            here = splits[chosen] == number
            of = {int(file): np.sort(rows[here & (files == file)]) for file in np.unique(files[here])}
            wanted.append((self.splits[number], of))
        return self._join(self._map(_read_places, wanted))

    def fetch(self, doc_ids: Integers) -> pa.Table:
        """See `SampledCorpus.fetch`."""
        return self._join(self._map(partial(_fetch, wanted=np.unique(doc_ids))))

    def find_neighbours(self, seeds: Seeds, *, most: int, config: Config) -> Neighbours:
        """See `SampledCorpus.find_neighbours`."""
        task = partial(
            _find_neighbours,
            most=most,
            tokenizer=load_tokenizer(config),
            shingle_size=config.shingles.shingle_size,
        )
        # The seeds are what workers begin with: they are too large to go along with every split.
        found = self._map(task, held=(self.source, seeds))
        counts = Counter[str]()
        for each in found:
            counts.update(each.counts)
        return Neighbours(
            np.concatenate([each.seeds for each in found]), np.concatenate([each.doc_ids for each in found]), counts
        )

    def _map(
        self, work: Callable[[Any, Any], Any], items: Sequence[Any] | None = None, held: object = None
    ) -> list[Any]:
        """Return what work makes of the source, or what is held instead, with each split, or with each of the items."""
        with self.begin(held or self.source, watch=lambda *_: None) as workers:
            return list(workers.map(work, self.splits if items is None else items))

    def _join(self, tables: Sequence[pa.Table]) -> pa.Table:
        kinds = (pa.int64(), self.id_type, pa.large_string())
        empty = pa.schema([*zip(NAMES, kinds, strict=True)]).empty_table()
        return pa.concat_tables([empty, *(table for table in tables if table.num_rows)])


def _read(
    source: FileSource, split: Split, rows: Mapping[int, Integers] | None = None
) -> "list[tuple[int, Integers, pa.RecordBatch]]":
    """Read documents that have an id, each batch with the number of its file and the doc_ids."""
    found = []
    for piece in source.read(split, rows):
        named = piece.batch.filter(pc.is_valid(piece.batch["id"]))
        if named.num_rows:
            found.append((piece.file, to_doc_ids(named["id"]), named))
    return found


def _order(hashes: Integers, doc_ids: Integers) -> Integers:
    return np.lexsort((doc_ids, hashes))


def _draw(source: FileSource, split: Split, *, count: int) -> tuple[Integers, ...]:
    """Return hash, doc_id, file and row of the documents of a split with the least hashes."""
    found = [(np.empty(0, np.int64),) * 4]
    for file, doc_ids, batch in _read(source, split):
        listed = [xxhash.xxh64_intdigest(each, SEED) for each in doc_ids.astype("<i8").view("V8").tolist()]
        signed = np.array(listed, np.uint64).view(np.int64)
        found.append((signed, doc_ids, np.full(doc_ids.size, file), batch["row"].to_numpy()))
    hashes, doc_ids, files, rows = (np.concatenate(column) for column in zip(*found, strict=True))
    least = _order(hashes, doc_ids)[:count]
    return hashes[least], doc_ids[least], files[least], rows[least]


def _to_table(doc_ids: Integers, batch: pa.RecordBatch) -> pa.Table:
    return pa.table(
        dict(zip(NAMES, (pa.array(doc_ids), batch["id"], batch["text"].cast(pa.large_string())), strict=True))
    )


def _read_places(source: FileSource, item: tuple[Split, Mapping[int, Integers]]) -> pa.Table:
    tables = [_to_table(doc_ids, batch) for _, doc_ids, batch in _read(source, *item)]
    return pa.concat_tables(tables)


def _fetch(source: FileSource, split: Split, *, wanted: Integers) -> pa.Table:
    tables = []
    for _, doc_ids, batch in _read(source, split):
        held = np.isin(doc_ids, wanted)
        tables.append(_to_table(doc_ids[held], batch.filter(pa.array(held))))
    return pa.concat_tables(tables) if tables else pa.table({})


def _find_neighbours(
    held: tuple[FileSource, Seeds], split: Split, *, most: int, tokenizer: Tokenizer, shingle_size: int
) -> Neighbours:
    source, seeds = held
    counts = Counter[str]()
    pieces = ((doc_ids, batch["text"]) for _, doc_ids, batch in _read(source, split))
    found = neighbours.find_neighbours(
        pieces, seeds, most=most, tokenizer=tokenizer, shingle_size=shingle_size, counts=counts
    )
    return Neighbours(*found, counts)

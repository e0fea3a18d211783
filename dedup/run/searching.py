"""A corpus of files searched in memory: the passes over the text, and the search between them."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines import memory, passes
from dedup.engines.held import Held
from dedup.engines.machine import free_bytes
from dedup.engines.tables import MemoryEngine
from dedup.engines.values import Features, Found, Search
from dedup.errors import DataError
from dedup.files.left import Left
from dedup.files.listing import Listing
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Hashes, Integers
from dedup.kernels.exact import place
from dedup.kernels.ids import apply_renamed
from dedup.kernels.runs import find_bounds
from dedup.kernels.text import Contract
from dedup.layers import layer
from dedup.run.clock import Clock
from dedup.settings.keeping import parse_order
from dedup.settings.layers import NEAR
from dedup.settings.options import Config
from dedup.stages.placement import sample_share
from dedup.tables import arrow
from dedup.tables.counts import Labeled, Layered, Near, Signed
from dedup.tables.ids import SHOWN

KEPT = "kept"
HELD_BYTES = 256 << 20
"""Input up to which shingle sets that will be asked for are held from the first pass on: they take two to three times
as much memory as plain text compressed on disk, more where it is compressed better."""
HELD_SHARE = 4
"""Part of the free memory that they may take, as a divisor: well compressed text can be a hundred times as much."""
Item: TypeAlias = tuple[Split, Left, Mapping[int, Integers]]
"""Rows of a split to be read again, by the number of their file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Signatures:
    """Result of the first pass over the text."""

    part: passes.Part
    splits: Integers
    """The split of every document, int64, ascending."""
    begins: Sequence[str]
    """Beginnings of the texts of some documents without an id."""
    held: dict[int, Held]
    """Shingle sets of splits; those of others are read again."""
    counts: Signed

    def to_register(self) -> pa.Table:
        """Return REGISTER."""
        part = self.part
        return pa.table(
            {
                "doc_id": part.doc_ids,
                "id": part.ids,
                "source": part.sources,
                "split": pa.array(self.splits, pa.int32()),
                "file": pa.array(part.files, pa.int32()),
                "row": part.rows,
                "text_bytes": part.text_bytes,
                "order_keys": part.order_keys,
                "merged": part.merged,
            },
            schema=arrow.register(part.ids.type),
        )

    @property
    def nbytes(self) -> int:
        """Bytes of signatures and keys."""
        return self.part.signature.nbytes + self.part.band_keys.nbytes

    def list_sample(self) -> list[tuple[int, bytes]]:
        """Return the tokens of the documents of the sample by doc_id."""
        drawn = np.flatnonzero(self.part.tokens.is_valid().to_numpy(zero_copy_only=False))
        tokens = self.part.tokens.take(pa.array(drawn)).to_pylist()
        return list(zip(self.part.doc_ids[drawn].tolist(), tokens, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """Result of the layer."""

    signed: Signatures
    found: Found

    def to_found(self) -> layer.Found[pa.Table]:
        """Return it as a chain takes it."""
        gone = self._list_members().filter(pc.not_equal(self.found.members["kind"], KEPT))
        return layer.Found(documents=self.signed.to_register(), removals=gone)

    def to_step(self) -> Layered:
        """Return its counts as a chain takes them."""
        counts = self.signed.counts
        return Layered(
            layer=NEAR,
            documents=counts.rows,
            text_bytes=counts.text_bytes,
            tokens=counts.tokens,
            removed=self.found.members.num_rows,
        )

    def list_kept(self) -> pa.Table:
        """Return the documents that stay for others: REMOVALS that are none."""
        return self._list_members().filter(pc.equal(self.found.members["kind"], KEPT))

    def _list_members(self) -> pa.Table:
        members = self.found.members
        schema = arrow.removals(members.schema.field("id").type)
        more = {"layer": pa.repeat(NEAR, members.num_rows), "component_id": members["component"]}
        columns = {name: more[name] if name in more else members[name] for name in schema.names}
        return pa.table(columns).cast(schema)

    def list_edges(self) -> pa.Table:
        """Return EDGES, and documents of one shingle set as edges of Jaccard 1."""
        same = self.found.identical
        pairs = [same["doc_id"], same["set_id"], pa.chunked_array([pa.repeat(1.0, same.num_rows)])]
        return pa.concat_tables([self.found.edges.cast(arrow.EDGES), pa.Table.from_arrays(pairs, schema=arrow.EDGES)])

    def count(self, labels: pa.Table | None) -> Near:
        """Return the counts of all stages."""
        found = self.found
        return Near(
            signed=self.signed.counts,
            collapsed=found.collapsed,
            bucketed=found.bucketed,
            paired=found.paired,
            verified=found.verified,
            connected=found.connected,
            lost=found.lost,
            elected=found.elected,
            labeled=None if labels is None else Labeled(given=labels.num_rows, points=found.recall),
        )


def choose_signing(config: Config, contract: Contract, listing: Listing, *, asks_all: bool = False) -> passes.Signing:
    """Return the parameters of signing.

    Parameters
    ----------
    asks_all
        Whether all shingle sets will be asked for, as in exact mode.
    """
    holds: Literal["all", "crowds"] = "all" if asks_all or config.mode == "exact" else "crowds"
    return passes.Signing(
        contract=contract,
        shingle_size=config.shingles.shingle_size,
        bands=config.banding.bands if config.mode == "lsh" else 0,
        rows=config.banding.rows,
        signature_seed=config.lsh.seed,
        sample_share=sample_share(listing.size),
        holds="none" if listing.size > HELD_BYTES else holds,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The passes over the text, and the search between them."""

    engine: MemoryEngine
    config: Config
    signing: passes.Signing
    labels: pa.Table | None
    """LABELS of the duplicates among labelled pairs."""

    def search(self, clock: Clock, threads: int) -> Searched:
        """Sign and search all documents that are left."""
        signed = clock("signatures", self.sign)
        return Searched(signed=signed, found=self.find(signed, clock, threads))

    def sign(self) -> Signatures:
        """Sign all documents.

        Raises
        ------
        NothingToSearchError
            When there is none.
        """
        splits = [(split, self.engine.narrow(split)) for split in self.engine.splits]
        found, held, room = [], dict[int, Held](), free_bytes() // HELD_SHARE
        for number, each in enumerate(self.engine.workers.map(partial(_sign_split, signing=self.signing), splits)):
            if each.held is not None and (room := room - each.held.nbytes) >= 0:
                held[number] = each.held
            found.append(each._replace(held=None))
        parts = [part for each in found for part in each.parts]
        if not parts:
            raise layer.NothingToSearchError
        sizes = [sum(part.doc_ids.size for part in each.parts) for each in found]
        part = passes.join(parts)
        is_first = self.engine.known.register is None
        if is_first:
            self.engine.known.renamed = memory.find_renamed(part.doc_ids, part.ids)
        part = part._replace(doc_ids=apply_renamed(part.doc_ids, part.ids, self.engine.known.renamed))
        is_short = (part.token_counts > 0) & (part.token_counts < self.signing.shingle_size)
        counts = Signed(
            rows=part.doc_ids.size,
            text_bytes=int(part.text_bytes.sum()),
            tokens=int(part.token_counts.sum()),
            shingles=int(part.shingle_counts.sum()),
            documents_empty=int(np.count_nonzero(part.token_counts == 0)),
            documents_short=int(np.count_nonzero(is_short)),
            ids_null=part.ids.null_count,
            sample_bytes=int(pc.sum(pc.binary_length(part.tokens)).as_py() or 0),
        )
        signed = Signatures(
            part=part,
            splits=np.repeat(np.arange(len(found)), sizes),
            begins=[begin for each in found for begin in each.begins],
            held=held,
            counts=counts,
        )
        if is_first:
            self.engine.known.rejected = [rejected for each in found for rejected in each.rejected]
            self.engine.known.register = signed.to_register()
        return signed

    def describe(self, signed: Signatures) -> Features:
        """Return the features of the documents that were signed.

        Raises
        ------
        DataError
            When ids are null or repeated.
        """
        config, part = self.config, signed.part
        is_lsh = config.mode == "lsh"
        features = Features(
            doc_ids=part.doc_ids,
            ids=part.ids,
            shingle_counts=part.shingle_counts.astype(np.int32),
            digest_high=part.digest_high,
            digest_low=part.digest_low,
            band_keys=part.band_keys if is_lsh else None,
            signature=part.signature if is_lsh else None,
            sources=part.sources if config.input.source_column else None,
            text_bytes=part.text_bytes,
            order_keys=part.order_keys.flatten().to_numpy(zero_copy_only=False).reshape(part.doc_ids.size, -1),
        )
        memory.check_ids(features, id_column=config.input.id_column, null_texts=signed.begins[:SHOWN])
        return features

    def find(self, signed: Signatures, clock: Clock, threads: int) -> Found:
        """Search the documents that were signed."""
        features = self.describe(signed)
        found = memory.find(
            features,
            partial(self._collect_sets, signed, threads=threads),
            to_search(self.config),
            self.labels,
            threads=threads,
            free_bytes=free_bytes(),
            stage=clock.time,
        )
        for name, counts in _list_counts(found).items():
            clock.note(name, counts)
        return found

    def plan(self, signed: Signatures, rows: Integers) -> Iterator[Item]:
        """Yield the work that reads documents again, split by split.

        Parameters
        ----------
        rows
            Their rows among those signed, ascending.
        """
        part = signed.part
        for begin, end in pairwise(find_bounds(signed.splits[rows]).tolist()):
            files, places = part.files[rows[begin:end]], part.rows[rows[begin:end]]
            wanted = {int(files[a]): places[a:b] for a, b in pairwise(find_bounds(files).tolist())}
            split = self.engine.splits[int(signed.splits[rows[begin]])]
            yield split, self.engine.narrow(split), wanted

    def collect(self, signed: Signatures, rows: Integers, *, threads: int = 1) -> tuple[Hashes, Integers]:
        """Return the shingle sets of some of the documents that were signed, which are held or read again.

        Parameters
        ----------
        rows
            Their rows among those signed, distinct.
        threads
            Number of threads that copy them.

        Returns
        -------
        As from `shingles.shingle`, in the order of the rows.

        Raises
        ------
        DataError
            When documents are gone, or have become others.
        """
        order = np.argsort(rows)
        wanted, sizes = rows[order], signed.part.shingle_counts[rows]
        bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        shingles = np.empty(bounds[-1], dtype=np.uint64)
        task = partial(_shingle_split, contract=self.signing.contract, shingle_size=self.signing.shingle_size)
        splits = signed.splits[wanted]
        items = list(self.plan(signed, wanted[~np.isin(splits, [*signed.held])]))
        read = iter(self.engine.workers.map(task, items) if items else ())
        copies = []
        with ThreadPoolExecutor(threads) as pool:
            for begin, end in pairwise(find_bounds(splits).tolist()):
                number, places = int(splits[begin]), order[begin:end]
                if number in signed.held:
                    sets = signed.held[number]
                    numbers = wanted[begin:end] - int(np.searchsorted(signed.splits, number))
                else:
                    values, counts = next(read)
                    if not np.array_equal(counts, sizes[places]):
                        raise DataError(
                            "--input: must not change while the job reads it (documents are gone or others): repeat "
                            "the command"
                        )
                    sets = Held(values, np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))))
                    numbers = np.arange(counts.size)
                copies.append(pool.submit(place, *sets, numbers, bounds[:-1][places], shingles))
        for each in copies:
            each.result()
        return shingles, bounds

    def _collect_sets(self, signed: Signatures, doc_ids: Integers, *, threads: int) -> tuple[Hashes, Integers]:
        """Return the shingle sets of some documents, in their order."""
        order = np.argsort(signed.part.doc_ids, kind="stable")
        found = self.collect(
            signed, order[np.searchsorted(signed.part.doc_ids, doc_ids, sorter=order)], threads=threads
        )
        # Nobody asks a second time.
        signed.held.clear()
        return found


def to_search(config: Config) -> Search:
    """Return the parameters of a search, of settings without "auto"."""
    return Search(
        threshold=config.threshold,
        mode=config.mode,
        bands=config.banding.bands,
        rows=config.banding.rows,
        max_bucket=config.buckets.max_bucket,
        estimate_sigmas=config.candidates.estimate_sigmas,
        per_source=config.limits.per_source,
        rules=parse_order(config.keep.order, "keep"),
        by_representative=config.cluster.linkage == "representative",
        max_component=config.cluster.max_component,
        copies=config.keep.copies,
        copies_per_source=config.keep.copies_per_source,
    )


def _sign_split(source: FileSource, item: tuple[Split, Left], *, signing: passes.Signing) -> passes.SignedSplit:
    return passes.sign_split(source, *item, signing)


def _shingle_split(source: FileSource, item: Item, *, contract: Contract, shingle_size: int) -> tuple[Hashes, Integers]:
    return passes.shingle_split(source, *item, contract=contract, shingle_size=shingle_size)


def _list_counts(found: Found) -> dict[str, Any]:
    """Return the counts of the stages by their names."""
    return {
        "identical": found.collapsed,
        "buckets": found.bucketed,
        "candidates": found.paired,
        "edges": found.verified,
        "components": found.connected,
        "representatives": found.elected,
    }

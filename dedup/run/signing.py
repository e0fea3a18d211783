"""The passes over the text of a corpus of files that is searched in memory: the first signs, a second reads again."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.memory import MemoryEngine
from dedup.engines import passes
from dedup.engines.documents import check_ids, find_renamed
from dedup.engines.held import Held
from dedup.engines.machine import free_bytes
from dedup.engines.values import Features
from dedup.errors import DataError
from dedup.files.listing import Listing
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource
from dedup.files.splits import Split
from dedup.kernels import Hashes, Integers
from dedup.kernels.ids import apply_renamed
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.exact import place
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import layer
from dedup.settings.options import Config
from dedup.stages.placement import sample_share
from dedup.tables import arrow
from dedup.tables.counts import Signed
from dedup.tables.ids import SHOWN

HELD_BYTES = 256 << 20
"""Input up to which shingle sets that will be asked for are held from the first pass on: they take two to three times
as much memory as plain text compressed on disk, more where it is compressed better."""
HELD_SHARE = 4
"""Part of the free memory that they may take, as a divisor: well compressed text can be a hundred times as much."""
Item: TypeAlias = tuple[Split, Remaining, Mapping[int, Integers]]
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


def choose_signing(config: Config, tokenizer: Tokenizer, listing: Listing, *, asks_all: bool = False) -> passes.Signing:
    """Return the parameters of signing.

    Parameters
    ----------
    asks_all
        Whether all shingle sets will be asked for, as in exact mode.
    """
    holds: Literal["all", "crowds"] = "all" if asks_all or config.mode == "exact" else "crowds"
    return passes.Signing(
        tokenizer=tokenizer,
        shingle_size=config.shingles.shingle_size,
        bands=config.banding.bands if config.mode == "lsh" else 0,
        rows=config.banding.rows,
        signature_seed=config.seed,
        sample_share=sample_share(listing.size),
        holds="none" if listing.size > HELD_BYTES else holds,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The documents that are left, to be signed and read again."""

    engine: MemoryEngine
    config: Config
    signing: passes.Signing

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
            self.engine.known.renamed = find_renamed(part.doc_ids, part.ids)
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
        check_ids(features, id_column=config.input.id_column, null_texts=signed.begins[:SHOWN])
        return features

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
        task = partial(_shingle_split, tokenizer=self.signing.tokenizer, shingle_size=self.signing.shingle_size)
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


def _sign_split(source: FileSource, item: tuple[Split, Remaining], *, signing: passes.Signing) -> passes.SignedSplit:
    return passes.sign_split(source, *item, signing)


def _shingle_split(
    source: FileSource, item: Item, *, tokenizer: Tokenizer, shingle_size: int
) -> tuple[Hashes, Integers]:
    return passes.shingle_split(source, *item, tokenizer=tokenizer, shingle_size=shingle_size)

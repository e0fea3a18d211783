"""DOCUMENTS -> NEIGHBOURS, and what a few documents drawn would be compared with in the whole corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from dedup.kernels import Hashes, Integers, exact, minhash, shingles, text, trial
from dedup.kernels.hashing import mix
from dedup.kernels.runs import rank
from dedup.stages.exchange import Batches, Counters, by_piece
from dedup.tables.schemas import NEIGHBOURS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seeds:
    """The documents drawn, with what every task needs to compare its documents with them."""

    doc_ids: Integers
    index: exact.Index
    signatures: Hashes
    """uint64 [n, K]."""
    signature_seed: int
    settings: Sequence[trial.Setting]


def find_neighbours(
    documents: DataFrame, seeds: Seeds, *, most: int, contract: text.Contract, shingle_size: int, counters: Counters
) -> DataFrame:
    """DOCUMENTS -> NEIGHBOURS: documents that resemble a document drawn; one pass over the text, no shuffle.

    The search is exact, so it finds also what the bands of no setting would.

    Parameters
    ----------
    most
        Neighbours that each task gives of one seed, those with the least hash of their doc_id, so that seeds of one
        large family have the same ones.
    counters
        Takes `documents`, and `paired N` and `compared N` for setting number N: pairs of a document drawn and another
        of the corpus that share a bucket, and those of them that sizes and estimate let pass; identical copies are
        counted one by one, and no cap is applied.
    """
    size = seeds.signatures.shape[1]
    sought = [_sort_keys(trial.band_keys(seeds.signatures, setting)) for setting in seeds.settings]
    seed_low = minhash.low_bytes(seeds.signatures)
    seed_sizes = np.diff(seeds.index.offsets)

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        named = batch.filter(pc.is_valid(batch["doc_id"]))
        tokens, bounds = text.tokenise(named["text"], contract)
        values, offsets = shingles.shingle(tokens, bounds, shingle_size, contract)
        doc_ids = named["doc_id"].to_numpy()
        counters.add("documents", doc_ids.size)
        full = np.flatnonzero(np.diff(offsets))
        signatures = minhash.sign(*exact.take(values, offsets, full), size, seeds.signature_seed)
        low, sizes = minhash.low_bytes(signatures), np.diff(offsets)[full]
        for number, (setting, (keys, owners)) in enumerate(zip(seeds.settings, sought, strict=True)):
            held = trial.band_keys(signatures, setting).reshape(-1)
            for left, right in exact.meet(keys, owners, held, np.repeat(np.arange(full.size), setting.bands)):
                other = seeds.doc_ids[left] != doc_ids[full][right]
                left, right = left[other], right[other] + seed_sizes.size  # noqa: PLW2901 - what is left of them
                both = np.concatenate((seed_low, low))[:, : setting.size]
                likely = trial.select_likely(np.concatenate((seed_sizes, sizes)), both, left, right, setting)
                counters.add(f"paired {number}", left.size)
                counters.add(f"compared {number}", likely.size)
        found = list(exact.search(seeds.index, values, offsets))
        seed = np.concatenate([left for left, _, _ in found] or [np.empty(0, np.int64)])
        other = doc_ids[np.concatenate([right for _, right, _ in found] or [np.empty(0, np.int64)])]
        return pa.record_batch({"seed": seed.astype(np.int32), "doc_id": other})

    def search(batches: Batches) -> Batches:
        taken: tuple[Integers, Integers] = np.empty(0, np.int64), np.empty(0, np.int64)
        for batch in by_piece(look)(batches):
            taken = select_least(
                np.concatenate((taken[0], batch["seed"].to_numpy())),
                np.concatenate((taken[1], batch["doc_id"].to_numpy())),
                most,
            )
        yield pa.record_batch({"seed": taken[0].astype(np.int32), "doc_id": taken[1]})

    return documents.select("doc_id", "text").mapInArrow(search, NEIGHBOURS)


def select_least(seeds: Integers, doc_ids: Integers, most: int) -> tuple[Integers, Integers]:
    """Return for every seed the documents with the `most` least hashes."""
    order = np.lexsort((mix(doc_ids.view(np.uint64)), seeds))
    chosen = order[rank(seeds[order]) < most]
    return seeds[chosen], doc_ids[chosen]


def _sort_keys(keys: Hashes) -> tuple[Hashes, Integers]:
    """Return all keys, ascending, and the document of each; documents without shingles have none to sort."""
    owners = np.repeat(np.arange(keys.shape[0]), keys.shape[1])
    order = np.argsort(keys, axis=None)
    return keys.reshape(-1)[order], owners[order]

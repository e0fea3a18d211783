"""DOCUMENTS -> NEIGHBOURS, and what a few documents drawn would be compared with in the whole corpus."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from dedup.engine.exchange import Batches, Counters, by_piece
from dedup.kernels import Integers, neighbours
from dedup.kernels.neighbours import Seeds, select_least
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.tables.schemas import NEIGHBOURS


def find_neighbours(
    documents: DataFrame,
    seeds: Seeds,
    *,
    most: int,
    tokenizer: Tokenizer,
    shingle_size: int,
    counters: Counters,
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

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        named = batch.filter(pc.is_valid(batch["doc_id"]))
        counts = Counter[str]()
        seed, other = neighbours.compare_with_seeds(
            seeds,
            named["doc_id"].to_numpy(),
            named["text"],
            tokenizer=tokenizer,
            shingle_size=shingle_size,
            counts=counts,
        )
        for name, count in counts.items():
            counters.add(name, count)
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

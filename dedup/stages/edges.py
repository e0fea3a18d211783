"""CANDIDATES, DOCUMENTS -> EDGES."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.exchange import Pairs, by_piece, meet
from dedup.kernels import shingles, text
from dedup.kernels.blocks import lists, unlists
from dedup.kernels.jaccard import jaccard
from dedup.schemas import EDGES, SETS


def collect_sets(
    documents: DataFrame, wanted: DataFrame | None, *, contract: text.Contract, shingle_size: int, broadcast: bool
) -> DataFrame:
    """DOCUMENTS -> SETS of the documents whose doc_id is in `wanted` (None: of all); no shuffle if broadcast.

    Sets are as large as the text, so only those of candidate documents are ever made to stay.
    """

    def collect(batch: pa.RecordBatch) -> pa.RecordBatch:
        tokens, bounds = text.tokenise(batch["text"], contract)
        values, offsets = shingles.shingle(tokens, bounds, shingle_size)
        return pa.record_batch({"doc_id": batch["doc_id"], "shingles": lists(values, offsets)})

    chosen = documents.select("doc_id", "text")
    if wanted is not None:
        chosen = chosen.join(F.broadcast(wanted) if broadcast else wanted, on="doc_id", how="left_semi")
    return chosen.mapInArrow(by_piece(collect), SETS)


def verify(
    candidates: DataFrame, sets: DataFrame, *, threshold: float, groups: int, broadcast: bool, whole: bool
) -> DataFrame:
    """CANDIDATES, SETS -> EDGES: the pairs whose exact Jaccard is at least the threshold (0: every pair).

    A shingle set travels once to each of at most `groups` cells, not once per pair. `groups`, `broadcast` and `whole`
    are as for `dedup.exchange.meet`.
    """

    def pairs_of(batch: pa.RecordBatch) -> Iterator[Pairs]:
        yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()

    def compare(documents: pa.Table, pairs: Pairs, rows: Pairs) -> pa.RecordBatch:
        parts = [unlists(chunk, "<u8") for chunk in documents["shingles"].chunks]
        values = np.concatenate([part for part, _ in parts])
        offsets = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(bounds) for _, bounds in parts]))))
        exact = jaccard(values, offsets, *rows)
        similar = exact >= threshold
        return pa.record_batch({"left_id": pairs[0][similar], "right_id": pairs[1][similar], "jaccard": exact[similar]})

    source = candidates.select("left_id", "right_id")
    return meet(source, pairs_of, sets, compare, EDGES, groups=groups, broadcast=broadcast, whole=whole)

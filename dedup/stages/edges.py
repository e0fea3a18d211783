"""CANDIDATES, DOCUMENTS -> EDGES, NEAR_MISSES."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedup.exchange import Counters, Pairs, by_piece, meet
from dedup.kernels import shingles, text
from dedup.kernels.blocks import lists, unlists
from dedup.kernels.jaccard import CLOSEST, find_near_misses, jaccard
from dedup.schemas import EDGES, SETS

BINS = 20
"""Of equal width in the histogram of similarities, from 0 to 1, the last with its upper bound."""


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
    candidates: DataFrame,
    sets: DataFrame,
    *,
    threshold: float,
    groups: int,
    broadcast: bool,
    whole: bool,
    near_misses: bool = False,
    counters: Counters | None = None,
) -> DataFrame:
    """CANDIDATES, SETS -> EDGES: the pairs whose exact Jaccard is at least the threshold (0: every pair).

    A shingle set travels once to each of at most `groups` cells, not once per pair. `groups`, `broadcast` and `whole`
    are as for `dedup.exchange.meet`.

    Parameters
    ----------
    near_misses
        Whether pairs come along that may be NEAR_MISSES, at most CLOSEST for each document of a cell; `select_edges`
        and `select_near_misses` tell the two apart.
    counters
        Takes `similarities`, how many pairs there are in each of BINS.
    """

    def pairs_of(batch: pa.RecordBatch) -> Iterator[Pairs]:
        yield batch["left_id"].to_numpy(), batch["right_id"].to_numpy()

    def compare(documents: pa.Table, pairs: Pairs, rows: Pairs) -> pa.RecordBatch:
        parts = [unlists(chunk, "<u8") for chunk in documents["shingles"].chunks]
        values = np.concatenate([part for part, _ in parts])
        offsets = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(bounds) for _, bounds in parts]))))
        exact = jaccard(values, offsets, *rows)
        if counters is not None:
            # A bound is the double nearest to it, and so is a similarity that equals it.
            counters.add_each("similarities", np.searchsorted(np.arange(1, BINS) / BINS, exact, side="right"))
        chosen = exact >= threshold
        if near_misses:
            chosen |= find_near_misses(*pairs, exact, threshold)
        return pa.record_batch({"left_id": pairs[0][chosen], "right_id": pairs[1][chosen], "jaccard": exact[chosen]})

    source = candidates.select("left_id", "right_id")
    return meet(source, pairs_of, sets, compare, EDGES, groups=groups, broadcast=broadcast, whole=whole)


def select_edges(compared: DataFrame, *, threshold: float) -> DataFrame:
    """EDGES with near misses -> EDGES."""
    return compared.filter(F.col("jaccard") >= threshold)


def select_near_misses(compared: DataFrame, *, threshold: float, on_driver: bool) -> DataFrame:
    """EDGES with near misses -> NEAR_MISSES: pairs below the threshold that are among the closest of either document.

    What is closest in a cell depends on how many cells there are; of those, the closest of all are taken here: on the
    driver, in 100 bytes of memory a pair, or in two shuffles of the pairs.
    """
    below = compared.filter(F.col("jaccard") < threshold)
    if on_driver:
        table = below.toArrow().sort_by([(name, "ascending") for name in ("left_id", "right_id")])
        left, right, exact = (table[name].to_numpy() for name in EDGES.names)
        chosen = find_near_misses(left, right, exact, threshold)
        return compared.sparkSession.createDataFrame(table.filter(pa.array(chosen)))
    order = Window.partitionBy("doc_id").orderBy(F.desc("jaccard"), "left_id", "right_id")
    ranked = below.withColumn("doc_id", F.explode(F.array("left_id", "right_id"))).select(
        "*", F.row_number().over(order).alias("rank")
    )
    return ranked.filter(F.col("rank") <= CLOSEST).select("left_id", "right_id", "jaccard").distinct()

"""CANDIDATES, DOCUMENTS -> EDGES, NEAR_MISSES."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from dedup.kernels.runs.blocks import lists, unlists
from dedup.kernels.sets import shingles
from dedup.kernels.sets.jaccard import BINS, CLOSEST, bin_similarities, find_near_misses, jaccard
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.stages.documents import Corpus
from dedup.stages.exchange import Counters, Pairs, by_piece, meet
from dedup.stages.placement import Meeting, fits_broadcast, place_comparison
from dedup.stages.table import Keep, Seen, Table, count_rows, read_histogram
from dedup.tables.counts import Paired, Verified
from dedup.tables.schemas import EDGES, ENDS, SETS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sets:
    """Counts of SETS."""

    rows: int
    bytes: int = 0


def collect(
    keep: Keep,
    name: str,
    corpus: Corpus,
    signatures: DataFrame,
    wanted: DataFrame,
    *,
    most: int,
    tokenizer: Tokenizer,
    shingle_size: int,
) -> Table[Sets]:
    """Keep, under a name, SETS of the wanted documents, of which there are at most so many."""
    return keep(
        name,
        SETS,
        lambda _: collect_sets(
            corpus, signatures, wanted, tokenizer=tokenizer, shingle_size=shingle_size, broadcast=fits_broadcast(most)
        ),
        lambda seen: Sets(rows=seen["rows"], bytes=seen["bytes"]),
        summed={"bytes": "octet_length(shingles)"},
    )


def leave_out(wanted: DataFrame, known: Table[Sets]) -> DataFrame:
    """Return the ids of documents whose sets are not known; shuffles ids."""
    return wanted.join(known.frame.select("doc_id"), on="doc_id", how="left_anti")


def add(one: Table[Sets], other: Table[Sets]) -> Table[Sets]:
    """Return the sets of both."""
    counts = Sets(rows=one.counts.rows + other.counts.rows, bytes=one.counts.bytes + other.counts.bytes)
    return Table(frame=one.frame.unionByName(other.frame), counts=counts)


def find_ends(keep: Keep, pairs: DataFrame, count: int) -> tuple[DataFrame, int]:
    """Return the documents of so many pairs, perhaps with repetitions, and how many there are at most."""
    ends, most = pairs.select(F.explode(F.array("left_id", "right_id")).alias("doc_id")), 2 * count
    # To a broadcast the same id twice does no harm. Of many pairs there are fewer documents, so they are counted.
    if fits_broadcast(most):
        return ends, most
    kept = keep("ends", ENDS, lambda _: ends.distinct(), count_rows)
    return kept.frame, kept.counts


def collect_sets(
    corpus: Corpus,
    signatures: DataFrame,
    wanted: DataFrame,
    *,
    tokenizer: Tokenizer,
    shingle_size: int,
    broadcast: bool,
) -> DataFrame:
    """DOCUMENTS -> SETS of the documents whose doc_id is in `wanted`; no shuffle if broadcast.

    Sets are as large as the text, so only those of candidate documents are ever made to stay.
    """

    def collect_piece(batch: pa.RecordBatch) -> pa.RecordBatch:
        tokens, bounds = tokenizer.hash(batch["text"])
        values, offsets = shingles.shingle(tokens, bounds, shingle_size, tokenizer)
        return pa.record_batch({"doc_id": batch["doc_id"], "shingles": lists(values, offsets)})

    return corpus.fetch(signatures, wanted, by_piece(collect_piece), SETS, broadcast=broadcast)


def compare(
    keep: Keep, name: str, pairs: DataFrame, count: int, sets: Table[Sets], *, threshold: float, cores: int
) -> Table[int]:
    """Keep, under a name, those of so many pairs whose exact Jaccard is at least the threshold: EDGES."""
    meeting = place_comparison(count, sets.counts.rows, sets.counts.bytes, cores)
    return keep(name, EDGES, lambda _: verify(pairs, sets.frame, threshold=threshold, meeting=meeting), count_rows)


def verify_candidates(
    keep: Keep, paired: Table[Paired], sets: Table[Sets], *, threshold: float, cores: int
) -> Table[Verified]:
    """Keep EDGES with near misses, which `select_edges` and `select_near_misses` tell apart."""
    meeting = place_comparison(paired.counts.rows, sets.counts.rows, sets.counts.bytes, cores)

    def build(counters: Counters) -> DataFrame:
        return verify(
            paired.frame, sets.frame, threshold=threshold, meeting=meeting, near_misses=True, counters=counters
        )

    def measure(seen: Seen) -> Verified:
        found = read_histogram(seen, "similarities")
        similarities = [found.get(number, 0) for number in range(BINS)]
        return Verified(rows=seen["edges"], compared=seen["rows"], similarities=similarities)

    return keep("edges", EDGES, build, measure, summed={"edges": f"int(jaccard >= {threshold!r}D)"})


def verify(
    candidates: DataFrame,
    sets: DataFrame,
    *,
    threshold: float,
    meeting: Meeting,
    near_misses: bool = False,
    counters: Counters | None = None,
) -> DataFrame:
    """CANDIDATES, SETS -> EDGES: the pairs whose exact Jaccard is at least the threshold (0: every pair).

    A shingle set travels once to each of a few cells, not once per pair; see `exchange.meet`.

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

    def measure(documents: pa.Table, pairs: Pairs, rows: Pairs) -> pa.RecordBatch:
        parts = [unlists(chunk, "<u8") for chunk in documents["shingles"].chunks]
        values = np.concatenate([part for part, _ in parts])
        offsets = np.concatenate(([0], np.cumsum(np.concatenate([np.diff(bounds) for _, bounds in parts]))))
        exact = jaccard(values, offsets, *rows)
        if counters is not None:
            counters.add_each("similarities", bin_similarities(exact))
        chosen = exact >= threshold
        if near_misses:
            chosen |= find_near_misses(*pairs, exact, threshold)
        return pa.record_batch({"left_id": pairs[0][chosen], "right_id": pairs[1][chosen], "jaccard": exact[chosen]})

    source = candidates.select("left_id", "right_id")
    return meet(source, pairs_of, sets, measure, EDGES, meeting=meeting)


def select_edges(compared: DataFrame, *, threshold: float) -> DataFrame:
    """EDGES with near misses -> EDGES."""
    return compared.filter(F.col("jaccard") >= threshold)


def collect_near_misses(compared: DataFrame, *, threshold: float) -> pa.Table:
    """Return what `select_near_misses` selects, ascending, to the driver: 100 bytes of memory for each pair below."""
    below = compared.filter(F.col("jaccard") < threshold)
    table = below.toArrow().sort_by([(name, "ascending") for name in ("left_id", "right_id")])
    left, right, exact = (table[name].to_numpy() for name in EDGES.names)
    return table.filter(pa.array(find_near_misses(left, right, exact, threshold)))


def select_near_misses(compared: DataFrame, *, threshold: float) -> DataFrame:
    """EDGES with near misses -> NEAR_MISSES: pairs below the threshold that are among the closest of either document.

    What is closest in a cell depends on how many cells there are; of those, the closest of all are taken here, in two
    shuffles of the pairs.
    """
    below = compared.filter(F.col("jaccard") < threshold)
    order = Window.partitionBy("doc_id").orderBy(F.desc("jaccard"), "left_id", "right_id")
    ranked = below.withColumn("doc_id", F.explode(F.array("left_id", "right_id"))).select(
        "*", F.row_number().over(order).alias("rank")
    )
    return ranked.filter(F.col("rank") <= CLOSEST).select("left_id", "right_id", "jaccard").distinct()

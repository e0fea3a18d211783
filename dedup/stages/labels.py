"""LABELS, IDENTICAL, COMPONENTS -> how many labelled pairs were joined."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.kernels.confidence import SIMILARITY_BINS, measure_share
from dedup.stages.components import find_parted
from dedup.stages.edges import Sets, compare
from dedup.stages.table import Keep, Table, count_rows
from dedup.tables.counts import Labeled, LabelsRead
from dedup.tables.ids import refuse_labels
from dedup.tables.schemas import LABELS, PAIRS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabeledPairs:
    """Labelled pairs of the corpus."""

    given: int
    """Labelled pairs of duplicates, those of other documents included."""
    heads: Table[int]
    """LABELS of `find_heads`."""
    apart: Table[int]
    """PAIRS of `select_apart`."""

    @property
    def counts(self) -> LabelsRead:
        """Number of these pairs."""
        return LabelsRead(rows=self.heads.counts, given=self.given)


def select_pairs(
    keep: Keep, labels: DataFrame, *, signed: DataFrame, identical: DataFrame, heads: DataFrame
) -> LabeledPairs:
    """Keep the labelled pairs whose documents the corpus has, and those of them that are to be compared.

    Raises
    ------
    DataError
        When there are none.
    """
    given = labels.count()
    known = keep("labels", LABELS, lambda _: find_heads(select_known(labels, signed), identical), count_rows)
    if not known.counts:
        raise refuse_labels(given)
    apart = keep("labeled_pairs", PAIRS, lambda _: select_apart(known.frame, heads), count_rows)
    return LabeledPairs(given=given, heads=known, apart=apart)


def measure(keep: Keep, pairs: LabeledPairs, sets: Table[Sets], components: DataFrame, *, cores: int) -> Labeled:
    """Compare the labelled pairs exactly, and count those that are in one component."""
    apart = pairs.apart
    compared = compare(keep, "labeled", apart.frame, apart.counts, sets, threshold=0.0, cores=cores)
    return Labeled(given=pairs.given, points=measure_recall(pairs.heads.frame, compared.frame, components))


def select_known(labels: DataFrame, signatures: DataFrame) -> DataFrame:
    """LABELS, SIGNATURES or DOCUMENTS -> LABELS of which both documents are in the corpus; labels are few."""
    ends = labels.select(F.explode(F.array("left_id", "right_id")).alias("doc_id")).distinct()
    known = signatures.select("doc_id").join(F.broadcast(ends), on="doc_id", how="left_semi").distinct()
    for side in ("left_id", "right_id"):
        labels = labels.join(known.withColumnRenamed("doc_id", side), on=side, how="left_semi")
    return labels.select(*LABELS.names)


def find_heads(labels: DataFrame, identical: DataFrame) -> DataFrame:
    """LABELS, IDENTICAL -> LABELS of the least document of each shingle set.

    As many as before, so that a pair can repeat, and can be one of a document with itself.
    """
    for side in ("left_id", "right_id"):
        heads = identical.select(F.col("doc_id").alias(side), F.col("set_id").alias("head"))
        labels = labels.join(heads, on=side, how="left").withColumn(side, F.coalesce("head", side)).drop("head")
    least, greatest = F.least("left_id", "right_id"), F.greatest("left_id", "right_id")
    return labels.withColumns({"left_id": least, "right_id": greatest}).select(*LABELS.names)


def select_apart(labels: DataFrame, heads: DataFrame) -> DataFrame:
    """LABELS of `find_heads`, SIGNATURES of `identical.select_heads` -> PAIRS of two shingle sets, neither empty."""
    pairs = labels.filter("left_id < right_id").select("left_id", "right_id").distinct()
    for side in pairs.columns:
        pairs = pairs.join(heads.select(F.col("doc_id").alias(side)), on=side, how="left_semi")
    return pairs.select("left_id", "right_id")


def measure_recall(labels: DataFrame, compared: DataFrame, components: DataFrame) -> list[dict[str, Any]]:
    """Count the labelled pairs that are in one component, by similarity.

    Parameters
    ----------
    labels
        LABELS of `find_heads`.
    compared
        EDGES of `select_apart`, whatever their Jaccard.
    components
        COMPONENTS.

    Returns
    -------
    list of dict
        For each bin of similarity, SIMILARITY_BINS of equal width and one of identical sets, that holds any: `jaccard`,
        its mean; `pairs` and those `joined`; `recall`, the share of these, between `low` and `high` in 95 of 100
        samples.
    """
    apart = F.col("left_id") < F.col("right_id")
    measured = labels.join(compared, on=["left_id", "right_id"], how="left")
    # A document without a token resembles nothing, not even another such.
    measured = measured.withColumn("jaccard", F.when(apart, F.coalesce("jaccard", F.lit(0.0))).otherwise(1.0))
    number = F.floor(F.col("jaccard") * SIMILARITY_BINS).alias("bin")
    every = measured.groupBy(number).agg(F.avg("jaccard"), F.count(F.lit(1))).collect()
    parted: dict[int, int] = dict(find_parted(measured, components).groupBy(number).agg(F.count(F.lit(1))).collect())
    points = []
    for place, jaccard, pairs in sorted(every):
        joined = pairs - parted.get(place, 0)
        share = measure_share(np.array([joined]), np.array([pairs]))
        points.append(
            {"jaccard": jaccard, "pairs": pairs, "joined": joined}
            | {"recall": share.share, "low": share.low, "high": share.high}
        )
    return points

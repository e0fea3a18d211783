"""LABELS -> those of the corpus."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dedup.tables.schemas import LABELS


def select_known(labels: DataFrame, signatures: DataFrame) -> DataFrame:
    """LABELS, SIGNATURES or DOCUMENTS -> LABELS of which both documents are in the corpus; labels are few."""
    ends = labels.select(F.explode(F.array("left_id", "right_id")).alias("doc_id")).distinct()
    known = signatures.select("doc_id").join(F.broadcast(ends), on="doc_id", how="left_semi").distinct()
    for side in ("left_id", "right_id"):
        labels = labels.join(known.withColumnRenamed("doc_id", side), on=side, how="left_semi")
    return labels.select(*LABELS.names)

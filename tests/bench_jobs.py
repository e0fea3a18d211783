"""What the job is measured against, each a whole process: python -m tests.bench_jobs NAME INPUT OUTPUT."""

import shutil
import sys

import pyarrow as pa
from pyspark.ml.feature import HashingTF, MinHashLSH
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dedup.engine.exchange import Batches
from dedup.files.columns import PIECE_BYTES
from dedup.kernels.runs.batches import slice_by_bytes
from dedup.kernels.sets import shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.session import open_session
from tests.bench_peers import BANDS, ROWS, THRESHOLD

WORDS = UnicodeWords()
HASH_TABLES = 4
"""P(candidate) = 1 - (1 - J)^4 = .9984 at .8: the recall of 21 bands of 6 rows."""


def copy(spark: SparkSession, source: str, target: str) -> None:
    """Do the least that any job could: read the rows and write them again."""
    spark.read.parquet(source).write.parquet(target)


def mllib(spark: SparkSession, source: str, target: str) -> None:
    """Write the pairs of documents with Jaccard above .8 that Spark's own MinHashLSH finds among the same sets."""
    sets = _collect_sets(spark.read.parquet(source)).filter(F.size("shingles") > 0)
    vectors = HashingTF(numFeatures=1 << 30, binary=True, inputCol="shingles", outputCol="vector").transform(sets)
    vectors = vectors.select("doc_id", "vector").persist()
    model = MinHashLSH(numHashTables=HASH_TABLES, inputCol="vector", outputCol="hashes", seed=1).fit(vectors)
    pairs = model.approxSimilarityJoin(vectors, vectors, 0.2, "distance")
    named = pairs.select(F.col("datasetA.doc_id").alias("left"), F.col("datasetB.doc_id").alias("right"), "distance")
    named.filter("left < right").write.parquet(target)


def lshbloom(spark: SparkSession, source: str, target: str) -> None:
    """Write what spark-lshbloom keeps by its bands; its shingles are of five characters."""
    from spark_lshbloom import SparkLSHBloom  # noqa: PLC0415 - installed for the benchmark alone

    settings = {"threshold": THRESHOLD, "num_perm": BANDS * ROWS, "num_bands": BANDS, "mode": "minhash_lsh"}
    found = SparkLSHBloom(**settings).deduplicate(spark.read.parquet(source), text_col="text", id_col="doc_id")
    found.write.parquet(target)


def _collect_sets(corpus: DataFrame) -> DataFrame:
    def collect(batches: Batches) -> Batches:
        for batch in batches:
            for piece in slice_by_bytes(batch, PIECE_BYTES):
                values, offsets = shingles.shingle(*WORDS.hash(piece["text"]), 5, WORDS)
                listed = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values).cast(pa.string()))
                yield pa.record_batch({"doc_id": piece["doc_id"], "shingles": listed})

    kind = corpus.schema["doc_id"].dataType.simpleString()
    return corpus.select("doc_id", "text").mapInArrow(collect, f"doc_id {kind}, shingles array<string>")


if __name__ == "__main__":
    _, job, source, target = sys.argv
    shutil.rmtree(target, ignore_errors=True)
    session = open_session()
    {"copy": copy, "mllib": mllib, "spark-lshbloom": lshbloom}[job](session, source, target)
    session.stop()

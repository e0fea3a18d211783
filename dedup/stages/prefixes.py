"""SETS -> the prefixes of exact mode, which stand in for band keys."""

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.kernels.runs.blocks import unlists
from dedup.stages.exchange import Batches

EXPLODED = T.StructType().add("doc_id", T.LongType()).add("size", T.IntegerType()).add("shingle", T.LongType())


def select_prefixes(sets: DataFrame, *, threshold: float) -> DataFrame:
    """Turn SETS into (doc_id, shingle); shuffles every shingle of the corpus twice.

    Two sets with Jaccard at least t share one of the first `n - ceil(t n) + 1` shingles of each, in any one order of
    all shingles: rarest first makes the fewest pairs [1]_. A shingle of one document only shares nothing, so it takes
    its place in the prefix and no row.

    References
    ----------
    .. [1] S. Chaudhuri, V. Ganti, R. Kaushik: A primitive operator for similarity joins in data cleaning. ICDE 2006;
       R. J. Bayardo, Y. Ma, R. Srikant: Scaling up all pairs similarity search. WWW 2007.
    """

    def explode(batches: Batches) -> Batches:
        for batch in batches:
            values, offsets = unlists(batch["shingles"], "<i8")
            sizes = np.diff(offsets)
            yield pa.record_batch(
                {
                    "doc_id": np.repeat(batch["doc_id"].to_numpy(), sizes),
                    "size": np.repeat(sizes, sizes).astype(np.int32),
                    "shingle": values,
                }
            )

    exploded = sets.mapInArrow(explode, EXPLODED)
    frequencies = exploded.groupBy("shingle").agg(F.count(F.lit(1)).alias("frequency"))
    shared = exploded.join(frequencies.filter(F.col("frequency") > 1), on="shingle", how="inner")
    # The margin keeps a product such as 0.8 x 5 = 4.000000000000001 from shortening the prefix.
    length = F.col("size") - F.ceil(F.lit(threshold) * F.col("size") - 1e-9) + 1
    ordered = shared.groupBy("doc_id", "size").agg(
        F.sort_array(F.collect_list(F.struct("frequency", "shingle"))).alias("ordered")
    )
    unshared = F.col("size") - F.size("ordered")
    taken = F.greatest(length - unshared, F.lit(0)).cast("int")
    return ordered.select("doc_id", F.explode(F.slice("ordered", F.lit(1), taken)).alias("entry")).select(
        "doc_id", F.col("entry.shingle").alias("shingle")
    )

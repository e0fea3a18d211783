"""The tables between the stages. Every field is nullable, as Spark makes computed columns; none holds a null."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import types as T


def signatures(id_type: T.DataType, hashed: Mapping[str, Any] | None = None) -> T.StructType:
    """Return the schema of SIGNATURES, one row per document, for the type of the user's ids.

    `hashed` says under which version and key, and goes to every file with the column `signature`.
    """
    return (
        T.StructType()
        .add("doc_id", T.LongType())
        .add("id", id_type)  # the user's own
        .add("shingle_count", T.IntegerType())  # distinct shingles; 0: no token
        .add("digest_high", T.LongType())  # XXH3-128 of the shingle set
        .add("digest_low", T.LongType())
        .add("band_keys", T.BinaryType())  # uint64, one a band
        .add("signature", T.BinaryType(), metadata=dict(hashed or {}))  # the low byte of every row
        .add("source", T.StringType())  # null where no column of it is set
        .add("split", T.IntegerType())  # of files, where the document stands; null in rows that Spark reads
        .add("file", T.IntegerType())
        .add("row", T.LongType())
        .add("text_bytes", T.LongType())
        .add("order_keys", T.ArrayType(T.DoubleType()))  # of the rules of `keep.order` that ask for columns
        .add("merged", T.ArrayType(T.StringType()))  # of the columns of `keep.merge`
        .add("tokens", T.BinaryType())  # uint32, the first of a document of the sample; null in others
    )


QUARANTINE = T.StructType().add("file", T.StringType()).add("reason", T.StringType()).add("record", T.StringType())
"""Malformed records, as they stand in the input files."""

REPEATED = T.StructType().add("doc_id", T.LongType()).add("copies", T.LongType())
"""Document ids of more than one row."""

PAIRS = T.StructType().add("left_id", T.LongType()).add("right_id", T.LongType())
"""Pairs left_id < right_id."""

SETS = T.StructType().add("doc_id", T.LongType()).add("shingles", T.BinaryType())
"""Shingle sets: uint64, ascending."""

EDGES = T.StructType().add("left_id", T.LongType()).add("right_id", T.LongType()).add("jaccard", T.DoubleType())
"""Candidates with exact Jaccard at or above the threshold; the stage's own table also has near misses, NEAR_MISSES."""

COMPONENTS = T.StructType().add("doc_id", T.LongType()).add("component_id", T.LongType())
"""Documents that resemble another, with the least document id of their component."""


def members(id_type: T.DataType) -> T.StructType:
    """Return the schema of MEMBERS: documents that resemble another, with the document kept of their component."""
    return (
        T.StructType()
        .add("doc_id", T.LongType())
        .add("id", id_type)
        .add("representative_doc_id", T.LongType())
        .add("representative_id", id_type)  # the user's id of the document kept
        .add("component_id", T.LongType())
        .add("component", id_type)  # the user's id of that document
        .add("kind", T.StringType())  # kept; identical: the same shingle set as the one kept; near
        .add("jaccard", T.DoubleType())  # exact, to the representative; null where no edge joins the two
        .add("left_id", T.LongType())  # the shingle sets of both, by the least doc_id of each, in ascending order
        .add("right_id", T.LongType())
        .add("source", T.StringType())
        .add("representative_source", T.StringType())
        .add("charged", T.ArrayType(T.StringType()))  # sources that answer for its removal; null without a limit
    )


def removals(id_type: T.DataType) -> T.StructType:
    """Return the schema of REMOVALS: documents removed by a layer."""
    return (
        T.StructType()
        .add("doc_id", T.LongType())
        .add("id", id_type)
        .add("layer", T.StringType())
        .add("kind", T.StringType())  # of the layer near: identical, the same shingle set; near
        .add("representative_id", id_type)  # the user's id of the document kept
        .add("component_id", id_type)  # the user's id of one of its component, the same for all
        .add("jaccard", T.DoubleType())  # exact, to the representative
    )


PLACE = ("split", "file", "row")
"""Columns of the place of a document in files."""

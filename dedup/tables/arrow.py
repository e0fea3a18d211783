"""Schemas of the tables between the passes, in Arrow, from which those of Spark are derived."""

import pyarrow as pa

PLACE = [("split", pa.int32()), ("file", pa.int32()), ("row", pa.int64())]
"""Place of a document in the input; null in rows that Spark reads."""


def register(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of REGISTER: every document, without its text."""
    return pa.schema(
        [
            ("doc_id", pa.int64()),
            ("id", id_type),
            ("source", pa.string()),
            *PLACE,
            ("text_bytes", pa.int64()),  # of the text that the layer was given
            ("order_keys", pa.list_(pa.float64())),  # of the rules of `keep.order`: see `dedup.files.orders`
            ("merged", pa.list_(pa.string())),  # of the columns of `keep.merge`, and those that layers read
        ]
    )


def documents(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of DOCUMENTS: REGISTER with the text, a string or large_string, and the vector."""
    vector = pa.field("vector", pa.binary())  # float32, little-endian; null where no column is read
    return register(id_type).append(vector).append(pa.field("text", pa.string()))


def removals(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of REMOVALS: documents that a layer removes."""
    return pa.schema(
        [
            ("doc_id", pa.int64()),
            ("id", id_type),
            ("layer", pa.string()),
            ("kind", pa.string()),  # the reason, in the layer's own words
            ("representative_id", id_type),  # the user's id of the document kept for it; null where none is
            ("component_id", id_type),  # the user's id of the least doc_id of those that would be one
            ("jaccard", pa.float64()),  # exact, to the representative; null where it is not known
        ]
    )


SPANS = pa.schema(
    [
        ("doc_id", pa.int64()),
        ("begin", pa.int64()),  # characters of the text
        ("end", pa.int64()),
        ("layer", pa.string()),
        ("kind", pa.string()),  # the reason, in the layer's own words
        ("tokens", pa.int64()),  # null where they are not counted
        ("kept_doc_id", pa.int64()),  # the document with the occurrence that is kept; null where none is
        ("kept_begin", pa.int64()),  # and where it stands in its text
        ("kept_end", pa.int64()),
    ]
)
"""Spans of texts."""

EFFECT = pa.field("effect", pa.string())
"""Action on a span: cut, ignore or mark; see `dedup.layers.layer.Found`."""

EDGES = pa.schema([("left_id", pa.int64()), ("right_id", pa.int64()), ("jaccard", pa.float64())])
"""Pairs of doc_ids, left_id < right_id, with their exact Jaccard."""

COSINES = pa.schema([*EDGES.remove(2), ("kind", pa.string()), ("cosine", pa.float64())])
"""Pairs of doc_ids, left_id < right_id, whose vectors make them an edge."""

COMPONENTS = pa.schema([("doc_id", pa.int64()), ("component_id", pa.int64())])
"""Documents that resemble another, each with the least doc_id of its component."""

BUCKETS = pa.schema([("key", pa.int64()), ("size", pa.int64()), ("doc_ids", pa.binary())])
"""Buckets of two and more documents that share a key; doc_ids are int64, ascending."""


def spans_written(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of OUT/spans: SPANS with the user's ids and the text of each."""
    return pa.schema(
        [
            ("id", id_type),
            ("begin", pa.int64()),
            ("end", pa.int64()),
            ("layer", pa.string()),
            ("kind", pa.string()),
            EFFECT,
            ("tokens", pa.int64()),
            ("kept_id", id_type),
            ("kept_begin", pa.int64()),
            ("kept_end", pa.int64()),
            ("text", pa.large_string()),
        ]
    )


def integers(*names: str) -> pa.Schema:
    """Return a schema of int64 columns."""
    return pa.schema([(name, pa.int64()) for name in names])


def integer_lists(*names: str) -> pa.Schema:
    """Return a schema of columns of lists of int64."""
    return pa.schema([(name, pa.list_(pa.int64())) for name in names])

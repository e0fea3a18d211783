"""The tables of a store, as docs/growing.md tells them."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from dedup.store.extents import PAGE_BYTES
from dedup.tables import arrow

SEGMENT = "segment"
"""Column by which all tables but `batches` are partitioned: what one commit adds, and is never changed."""
BATCHES = "batches"
KEYED = "keys"
"""Table of keys of the layers url and exact, that a store of near alone has not."""
FILES = "files"
"""Table of the files that texts are read from again, of a store that holds no shingle sets."""
LATER = "later"
"""Table of what layers behind near have removed, as `members` has it."""
NO_SET = -1
"""Number of the set of a document without a token, which resembles nothing."""


REPEATED = ("batch", "source", "shingle_count", "text_bytes", "order_keys.list.element")
"""Columns of `documents` with few values each."""
WORDS = ("batch", "source", "kind")
"""Columns of words of which there are few."""
ZSTD: Mapping[str, Any] = MappingProxyType({"compression": "zstd"})


def _encode(*packed: str, compression: str = "zstd", repeated: Sequence[str] = (), **more: Any) -> Mapping[str, Any]:  # noqa: ANN401 - pyarrow's
    """Return an encoding in parquet: numbers of columns as their differences, dictionaries of those with few values."""
    columns = {"column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED")} if packed else {}
    return MappingProxyType({"compression": compression, "use_dictionary": [*repeated] or False, **columns, **more})


class Layout(NamedTuple):
    """Layout of the rows of a table in a file."""

    schema: pa.Schema
    key: str
    """Column by which rows are sorted, so that a file's groups can be told apart by their first values."""
    group: int
    """Rows of a group, the least that is read but for values read apart."""
    together: int
    """Rows read at a time, about: bounds memory. With the column that is read apart, as many as a group has."""
    file_rows: int
    """Rows of a file, about; those of `sets` are as many as share their writing."""
    encoding: Mapping[str, Any]
    """Encoding in parquet, as pyarrow is told."""
    apart: str = ""
    """Column whose values are read apart from their groups, as `dedup.store.extents` has it; empty: none."""


@cache
def list_layouts(id_type: pa.DataType, *, has_sets: bool = True) -> Mapping[str, Layout]:
    """Return the tables whose segments a row of `batches` names, for the type of the user's ids.

    Parameters
    ----------
    has_sets
        Whether shingle sets are held; else each has the place of its text, and these are read again.
    """
    documents = pa.schema(
        {
            "doc_id": pa.int64(),
            "id": id_type,
            "set": pa.int64(),  # number of the shingle set; NO_SET without a token
            "batch": pa.string(),
            "source": pa.string(),
            "shingle_count": pa.int32(),
            "text_bytes": pa.int64(),
            "order_keys": pa.list_(pa.float64()),  # of the rules of `keep.order` that ask for columns
        }
    )
    sets = pa.schema(
        {
            "set": pa.int64(),
            "digest_high": pa.int64(),
            "digest_low": pa.int64(),
            **({"shingles": pa.binary()} if has_sets else {"file": pa.int64(), "row": pa.int64()}),  # uint64, ascending
        }
    )
    told = ("path", "format", "text_column", "id_column")
    files = pa.schema([("file", pa.int64()), *((name, pa.string()) for name in told)])
    bands = arrow.integers("key", "set")
    edges = pa.schema({"left": pa.int64(), "right": pa.int64(), "jaccard": pa.float64()})  # of sets, left < right
    members = pa.schema(
        {
            "doc_id": pa.int64(),
            "kept": pa.bool_(),
            "representative": pa.int64(),  # doc_id of the one kept; null where that was deleted
            "kind": pa.string(),  # kept, identical, near
            "jaccard": pa.float64(),
            "settled": pa.bool_(),  # whether a fresh election of the component would say the same
            "since": pa.int64(),  # number of the state; the newest row of a document counts
        }
    )
    hot = arrow.integers("key")  # keys of buckets over the cap
    # Digests of a layer before near, the first half mixed with a number of the layer's.
    keys = arrow.integers("key", "low", "doc_id")
    # Lines of documents, in characters of the whole texts: `dedup.layers.lines.STORED`.
    lines = arrow.integers("high", "low", "doc_id", "begin", "end", "first", "common")
    # Grams selected of documents and their first tokens: `dedup.layers.repeats.GRAMS`.
    grams = arrow.integers("gram", "doc_id", "place")
    # Shingles of documents that the layer containment has left, and these: `dedup.layers.holders.HELD`.
    holders = arrow.integers("shingle", "doc_id", "size")
    own, since = [("doc_id", pa.int64()), ("text", pa.large_string())], ("since", pa.int64())
    wholes = pa.schema([*own, since])
    # Documents as the layer passages has seen them, and what it has taken out.
    texts = pa.schema([*own, ("cuts", pa.list_(pa.int64())), since])
    # Documents as the layer semantic has seen them, with their vectors: `dedup.layers.semantic.stored.STORED`.
    vectors = pa.schema([*own, ("values", pa.binary()), ("length", pa.int64()), ("kept", pa.bool_()), since])
    # Numbers of which each batch reads all: without a dictionary in half the bytes, and a third of the time.
    numbers = ("doc_id", "set", *(["id"] if pa.types.is_integer(id_type) else []))
    # Ascending keys lie closer together than 64 bits, numbers of sets need fewer.
    keyed = _encode("key", "set", compression="none")
    # Hashes: nothing makes them smaller, and statistics of their many groups would outweigh the footer.
    hashes = _encode("set", compression="none", write_statistics=False, data_page_size=PAGE_BYTES)
    placed = _encode("set", "file", "row", compression="none", write_statistics=False)
    return MappingProxyType(
        {
            "documents": Layout(documents, "doc_id", 1 << 16, 1 << 19, 1 << 20, _encode(*numbers, repeated=REPEATED)),
            "sets": Layout(sets, "set", 1 << 10, 1 << 16, 1 << 20, hashes, apart="shingles")
            if has_sets
            else Layout(sets, "set", 1 << 11, 1 << 15, 1 << 22, placed),
            "bands": Layout(bands, "key", 1 << 14, 1 << 18, 1 << 23, keyed),
            "edges": Layout(edges, "left", 1 << 16, 1 << 20, 1 << 22, ZSTD),
            "members": Layout(members, "doc_id", 1 << 16, 1 << 19, 1 << 21, ZSTD),
            "hot": Layout(hot, "key", 1 << 16, 1 << 20, 1 << 22, ZSTD),
            KEYED: Layout(keys, "key", 1 << 12, 1 << 16, 1 << 22, _encode("key", compression="none")),
            FILES: Layout(files, "file", 1 << 16, 1 << 20, 1 << 22, ZSTD),
            LATER: Layout(members, "doc_id", 1 << 16, 1 << 19, 1 << 21, ZSTD),
            "lines": Layout(lines, "high", 1 << 12, 1 << 16, 1 << 22, _encode("high", repeated=("first", "common"))),
            "holders": Layout(holders, "shingle", 1 << 14, 1 << 18, 1 << 23, _encode("shingle", repeated=["size"])),
            "wholes": Layout(wholes, "doc_id", 1 << 9, 1 << 12, 1 << 19, ZSTD),
            "grams": Layout(grams, "gram", 1 << 12, 1 << 16, 1 << 22, _encode("gram")),
            "texts": Layout(texts, "doc_id", 1 << 9, 1 << 12, 1 << 19, ZSTD),
            "vectors": Layout(vectors, "doc_id", 1 << 9, 1 << 12, 1 << 19, _encode(repeated=["length"])),
        }
    )


OWN: Mapping[str, Sequence[str]] = MappingProxyType(
    {"lines": ["lines"], "containment": ["holders", "wholes"], "passages": ["grams", "texts"], "semantic": ["vectors"]}
)
"""Tables by the layer that has them, which earlier releases do not know."""
OF_LAYERS = (KEYED, LATER, *(name for names in OWN.values() for name in names))
"""Tables of rows of documents, by `doc_id`, that only stores of other layers than near have."""
TABLES = tuple(name for name in list_layouts(pa.int64()) if name not in {*OF_LAYERS, FILES})
"""Tables of every store."""


def list_tables(layers: Sequence[str], *, has_sets: bool = True) -> tuple[str, ...]:
    """Return the tables of a store of some layers, which holds shingle sets or not."""
    if list(layers) == ["near"]:
        return TABLES if has_sets else (*TABLES, FILES)
    later = [LATER] if "near" in layers and layers[-1] != "near" else []
    return (*TABLES, KEYED, *later, *(name for layer, names in OWN.items() if layer in layers for name in names))


STATES = pa.schema(
    {
        "number": pa.int64(),
        "operation": pa.string(),  # add, delete, compact, ...
        "batch": pa.string(),  # empty where the operation adds none
        "content": pa.string(),  # digest of the batch's ids and shingle sets
        "time": pa.timestamp("us", "UTC"),
        "documents": pa.int64(),  # of the batch, or deleted
        "kept": pa.int64(),
        "state": pa.string(),  # the rest, as JSON
    }
)
"""Rows of `batches`: the newest says what is in the store."""

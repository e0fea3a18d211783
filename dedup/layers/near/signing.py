"""DOCUMENTS -> SIGNATURES and SETS: all that near asks of texts."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally
from dedup.engine.placement import sample_share
from dedup.files.orders import add_keys, drop_keys
from dedup.kernels import Bytes, Flags, Hashes, Integers, features, frequencies
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform, slice_by_bytes
from dedup.kernels.runs.bounds import find_bounds, mark_firsts, mark_repeated
from dedup.kernels.runs.groups import drop_repeated, join_groups
from dedup.kernels.sets.shingles import Shingled, shingle, shingle_texts
from dedup.kernels.sets.sketch import Sketcher, choose_bound
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.foreign import mark_foreign
from dedup.layers.layer import Context, Setup
from dedup.layers.near.sketching import name_spec, to_cell, to_rows
from dedup.layers.near.tables import ShingleSets, count_sets, join_sets
from dedup.settings.options import Config
from dedup.tables import arrow

HELD_BYTES = 256 << 20
"""Input up to which shingle sets that will be asked for are held from the first pass on: they take two to three times
as much memory as plain text compressed on disk, more where it is compressed better."""
LOOKED = 8
"""Band keys of a document by which a crowd is recognised: two documents 77 % alike have one of five in common."""
PIECE_BYTES = 1 << 20
"""Text, or sets, worked on at a time: the arrays stay within the processor's caches."""
SIGNED = pa.schema(
    [
        ("size", pa.int64()),  # distinct shingles; 0: no token
        ("digest_high", pa.int64()),  # XXH3-128 of the shingle set
        ("digest_low", pa.int64()),
        ("band_keys", pa.binary()),  # uint64, one a band
        ("signature", pa.binary()),  # the low byte of every row
        ("tokens", pa.binary()),  # uint32, the first of a document of the sample; null in others
        ("sketch", pa.binary()),  # SKETCH of the documents of a task, at its last one; null in others
        ("shingles", pa.binary()),  # the shingle set, where it is held so that its text is not read again; else null
    ]
)
"""Columns that SIGNATURES have besides those of REGISTER."""
SETS = pa.schema([("doc_id", pa.int64()), ("shingles", pa.binary())])
"""Shingle sets: uint64, ascending."""
Holds: TypeAlias = Literal["none", "crowds", "all", "parts"]
_local = threading.local()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """Parameters of signing texts."""

    tokenizer: Tokenizer
    shingle_size: int
    bands: int
    """0: no signature."""
    rows: int
    signature_seed: int
    sample_share: float
    """Share of the documents whose tokens are noted."""
    rules: Sequence[tuple[str, str]] = ()
    """Rules of the order, by which documents that are none of the input are known."""
    sketched: int = 0
    """Bound of a sketch; 0 for none."""
    hashed: Mapping[str, Any] = field(default_factory=dict)
    """All that signatures depend on, for the metadata of tables."""
    holds: Holds = "none"
    """Splits whose shingle sets are held; with "parts" all, since documents in several rows are put together once."""
    held_bytes: int = 1 << 62
    """Bytes of the sets of a split that are held, at most."""

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return what the settings say."""
        context, spec = setup.context, setup.spec
        return cls(
            tokenizer=setup.tokenizer,
            shingle_size=spec.shingle_size,
            bands=spec.bands,
            rows=spec.rows,
            signature_seed=spec.signature_seed,
            sample_share=sample_share(context.size),
            rules=setup.config.rules,
            sketched=choose_bound(context.size),
            hashed=spec.to_dict(),
            holds=_choose_holds(setup.config, context),
            held_bytes=context.held_bytes,
        )


def _choose_holds(config: Config, context: Context) -> Holds:
    if config.input.part_of:
        return "parts"
    if not context.held_bytes:
        return "none"
    if context.asks_all:
        return "all" if config.shingles.stored else "none"
    if context.size > HELD_BYTES:
        return "none"
    return "all" if config.mode == "exact" else "crowds"


def sign(batches: Batches, *, signing: Signing, schema: pa.Schema) -> Iterator[pa.RecordBatch | Tally]:
    """Sign documents; all sets of a call are held, or none.

    With "parts" the batches are PARTS, grouped. The tally has sums over the documents of the input: text_bytes, tokens,
    shingles, documents_empty, documents_short; and ids_null, sample_bytes and `foreign`, documents that are none of it.
    """
    signed, room = list[pa.RecordBatch](), _Room() if signing.holds in {"crowds", "all"} else None
    sketcher = Sketcher(signing.sketched)
    for batch, shingled in (_join_parts if signing.holds == "parts" else _shingle)(batches, signing):
        found = features.describe(shingled, bands=signing.bands, rows=signing.rows, seed=signing.signature_seed)
        rows, tally = _to_rows(batch, found, signing, schema)
        yield tally
        if signing.sketched:
            _sketch(sketcher, batch, found, ~mark_foreign(batch, signing.rules))
        signed.append(rows)
        if room is not None:
            room.put(found.shingles, found.shingle_counts)
        elif len(signed) > 1:
            yield signed.pop(0)
    if signed and signing.sketched:
        signed[-1] = _add_sketch(signed[-1], sketcher, signing)
    is_held = room is not None and room.nbytes <= min(signing.held_bytes, blocks.MOST_BYTES)
    if room is not None and is_held and signed and (signing.holds == "all" or _is_crowded(signed)):
        yield from room.hold(signed)
    else:
        yield from signed


def _shingle(batches: Batches, signing: Signing) -> Iterator[tuple[pa.RecordBatch, Shingled]]:
    for batch in slice_texts(batches):
        yield batch, shingle_texts(batch["text"], signing.shingle_size, signing.tokenizer)


def _join_parts(batches: Batches, signing: Signing) -> Iterator[tuple[pa.RecordBatch, Shingled]]:
    """Yield the first rows of documents, with the tokens of all of theirs one after another."""
    for group in join_groups(batches, ["doc_id"]):
        for batch in _slice_groups(group):
            tokens, limits = blocks.unlists(batch["hashes"], "<u8")
            bounds = find_bounds(batch["doc_id"].to_numpy())
            sums = np.add.reduceat(batch["text_bytes"].to_numpy(), bounds[:-1])
            first = batch.take(pa.array(bounds[:-1]))
            place = first.schema.get_field_index("text_bytes")
            first = first.set_column(place, first.schema.field(place), pa.array(sums))
            sets = shingle(tokens, limits[bounds], signing.shingle_size, signing.tokenizer)
            yield add_keys(drop_keys(first, signing.rules), signing.rules), Shingled(tokens, limits[bounds], *sets)


def _slice_groups(group: pa.RecordBatch) -> Batches:
    """Yield the rows of whole documents in batches of about PIECE_BYTES of tokens."""
    bounds = find_bounds(group["doc_id"].to_numpy())
    ends = np.cumsum(pc.binary_length(group["hashes"]).to_numpy())[bounds[1:] - 1]
    starts = np.append(bounds[:-1][mark_firsts(ends // PIECE_BYTES)], bounds[-1])
    for begin, end in pairwise(starts.tolist()):
        yield group.slice(begin, end - begin)


def list_tokens(batches: Batches, *, tokenizer: Tokenizer, schema: pa.Schema) -> Batches:
    """DOCUMENTS -> PARTS, rows of which several are one document."""
    for batch in slice_texts(batches):
        yield conform(batch, schema, hashes=blocks.lists(*tokenizer.hash(batch["text"])))


def parts(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of PARTS: REGISTER with the hashes of the tokens, uint64."""
    return pa.schema([*arrow.register(id_type), ("hashes", pa.binary())])


def slice_texts(batches: Batches) -> Batches:
    """Yield the same rows in batches of about PIECE_BYTES of text."""
    for batch in batches:
        if batch.num_rows:
            yield from slice_by_bytes(batch, PIECE_BYTES)


def take_held(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    """SIGNATURES -> SETS that are held; the tally has their `bytes`."""
    for batch in batches:
        held = batch.filter(batch["shingles"].is_valid()).select(SETS.names)
        yield Tally(bytes=pc.sum(pc.binary_length(held["shingles"])).as_py() or 0)
        yield held


def _drop_repeated(batches: Batches) -> Iterator[pa.RecordBatch | Tally]:
    yield from take_held(drop_repeated(batches, ["doc_id"]))


DISTINCT_SETS = Shuffle(emitted=SETS, by=("doc_id",), work=_drop_repeated, schema=SETS)
"""SETS of rows, of which equal ones share a document id -> one of each document."""


def gather_sets(
    engine: Engine[Rows],
    documents: Rows,
    wanted: Rows,
    *,
    count: int,
    name: str,
    read: Callable[[Rows], ShingleSets[Rows]],
) -> ShingleSets[Rows]:
    """Return the shingle sets of so many documents wanted: those that SIGNATURES hold, and the others as they are read.

    Parameters
    ----------
    read
        Returns the sets of some of the rows wanted.
    """
    own = engine.join(engine.select(documents, *SETS.names), wanted, "doc_id", how="semi")
    held = engine.map(own, take_held, SETS, name=f"{name}_held")
    rest = read(engine.join(wanted, held, "doc_id", how="anti"))
    if engine.tally(held)["rows"] + rest.documents > count:
        # Equal rows share a document id.
        held = engine.group(f"{name}_distinct", held, DISTINCT_SETS)
    return join_sets(engine, count_sets(engine, held), rest)


def shingle_again(batches: Batches, *, signing: Signing) -> Iterator[pa.RecordBatch | Tally]:
    """Return SETS of documents; the tally has their `bytes`."""
    for batch in slice_texts(batches):
        _, _, values, offsets = shingle_texts(batch["text"], signing.shingle_size, signing.tokenizer)
        yield Tally(bytes=values.nbytes)
        yield pa.RecordBatch.from_arrays([batch["doc_id"], blocks.lists(values, offsets)], schema=SETS)


def warm(signing: Signing) -> None:
    """Load or compile what signing calls, so that processes forked from this one need not do it each."""
    features.compute(
        pa.array(["a few words, \u00e9t\u00e9 \u4e2d"]),
        signing.tokenizer,
        shingle_size=signing.shingle_size,
        bands=signing.bands,
        rows=signing.rows,
        seed=signing.signature_seed,
    )


def _to_rows(
    batch: pa.RecordBatch, found: features.TextFeatures, signing: Signing, schema: pa.Schema
) -> tuple[pa.RecordBatch, Tally]:
    own = ~mark_foreign(batch, signing.rules)
    counts = found.token_counts[own]
    doc_ids = batch["doc_id"].fill_null(0).to_numpy(zero_copy_only=False)
    sample = frequencies.sample(doc_ids, found.tokens, found.token_bounds, signing.sample_share)
    columns = {
        "size": found.shingle_counts,
        "digest_high": found.digest_high,
        "digest_low": found.digest_low,
        "band_keys": blocks.rows(found.keys.view(np.uint8)),
        "signature": blocks.rows(found.low),
        "tokens": sample,
        "shingles": blocks.lists(found.shingles, found.shingle_bounds) if signing.holds == "parts" else None,
    }
    tally = Tally(
        text_bytes=int(batch["text_bytes"].to_numpy()[own].sum()),
        tokens=int(counts.sum()),
        shingles=int(found.shingle_counts[own].sum()),
        documents_empty=int(np.count_nonzero(counts == 0)),
        documents_short=int(np.count_nonzero((counts > 0) & (counts < signing.shingle_size))),
        ids_null=batch["doc_id"].null_count,
        sample_bytes=pc.sum(pc.binary_length(sample)).as_py() or 0,
        foreign=own.size - int(np.count_nonzero(own)),
    )
    return conform(batch, schema, **columns), tally


def _sketch(sketcher: Sketcher, batch: pa.RecordBatch, found: features.TextFeatures, own: Flags) -> None:
    """Add the documents of the input."""
    if own.all():
        sketcher.add(found.shingles, found.shingle_counts, batch["source"])
    else:
        hashes = found.shingles[np.repeat(own, found.shingle_counts)]
        sketcher.add(hashes, found.shingle_counts[own], batch["source"].filter(pa.array(own)))


def _add_sketch(rows: pa.RecordBatch, sketcher: Sketcher, signing: Signing) -> pa.RecordBatch:
    """Return the rows, the last with the sketch of all documents of a call."""
    sketch = to_cell(to_rows(sketcher.finish(), name_spec(signing.hashed)))
    cells = pa.array([None] * (rows.num_rows - 1) + [sketch], pa.binary())
    return rows.set_column(rows.schema.get_field_index("sketch"), rows.schema.field("sketch"), cells)


def _is_crowded(signed: list[pa.RecordBatch]) -> bool:
    """Tell whether half of the documents share one of their first band keys with others, so that most are compared."""
    digests = np.concatenate([rows["digest_high"].to_numpy() for rows in signed])
    keys = np.concatenate([_read_keys(rows)[:, :LOOKED] for rows in signed])
    # Copies of a set share all keys, and one of them is compared.
    keys = np.asfortranarray(keys[np.unique(digests, return_index=True)[1]])
    shares = np.zeros(keys.shape[0], dtype=bool)
    for band in keys.T:
        order = np.argsort(band)
        shares[order[mark_repeated(band[order])]] = True
    return 2 * int(np.count_nonzero(shares)) >= digests.size


def _read_keys(rows: pa.RecordBatch) -> Hashes:
    return blocks.unrows(rows["band_keys"]).view(np.uint64)


def to_matrix(column: pa.ChunkedArray) -> Bytes:
    """Return cells of one length as the rows of a matrix."""
    parts = [blocks.unrows(chunk) for chunk in column.chunks if len(chunk)]
    if not parts:
        return np.empty((0, 0), dtype=np.uint8)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def to_sets(column: pa.ChunkedArray) -> tuple[Hashes, Integers]:
    """Return the shingle sets of a column, as from `shingles.shingle`."""
    parts = [blocks.unlists(chunk, "<u8") for chunk in column.chunks]
    values = [np.empty(0, np.uint64), *(part for part, _ in parts)]
    sizes = [np.zeros(1, np.int64), *(np.diff(offsets) for _, offsets in parts)]
    return (values[1] if len(parts) == 1 else np.concatenate(values)), np.concatenate(sizes).cumsum()


class _Room:
    """Shingle sets of the documents of a call, in an array that calls of a thread use one after another.

    Memory that is new to a process costs more than all that is done with it here.
    """

    def __init__(self) -> None:
        self._sizes: list[Integers] = []
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all sets."""
        return 8 * self._end

    def put(self, shingles: Hashes, sizes: Integers) -> None:
        """Add documents."""
        begin, self._end = self._end, self._end + shingles.size
        values = getattr(_local, "values", None)
        if values is None or self._end > values.size:
            _local.values = np.empty(max(self._end, 2 * (0 if values is None else values.size)), dtype=np.uint64)
            if values is not None:
                _local.values[:begin] = values[:begin]
        _local.values[begin : self._end] = shingles
        self._sizes.append(sizes)

    def hold(self, signed: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their sets, which take the array with them."""
        [rows] = pa.Table.from_batches(signed).combine_chunks().to_batches()
        offsets = np.concatenate([[0], *self._sizes]).cumsum()
        cells = blocks.lists(_local.values[: self._end], offsets)
        _local.values = np.empty(_local.values.size, dtype=np.uint64)
        yield rows.set_column(rows.schema.get_field_index("shingles"), rows.schema.field("shingles"), cells)


def signatures(id_type: pa.DataType, hashed: Mapping[str, Any] = MappingProxyType({})) -> pa.Schema:
    """Return the schema of SIGNATURES: REGISTER, and what one pass over the text makes of each document.

    `hashed` says under which version and key, and goes to every file with the column `signature`.
    """
    place = SIGNED.get_field_index("signature")
    told = {name: json.dumps(value) for name, value in hashed.items()}
    return pa.schema([*arrow.register(id_type), *SIGNED.set(place, SIGNED.field(place).with_metadata(told))])

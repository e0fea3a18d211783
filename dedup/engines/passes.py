"""The passes over the text of the memory engine: splits of files in, arrays out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engines.held import Held, Room
from dedup.files.formats.format import Rejected
from dedup.files.remaining import Remaining
from dedup.files.source import FileSource, Piece
from dedup.files.splits import Split
from dedup.kernels import Bytes, Hashes, Integers, features, frequencies
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.bounds import mark_repeated
from dedup.kernels.sets import shingles
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.tables.ids import SHOWN, SHOWN_LENGTH

LOOKED = 8
"""Band keys of a document by which a crowd is recognised: two documents 77 % alike have one of five in common."""


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
    holds: Literal["none", "crowds", "all"] = "none"
    """Of which splits the shingle sets are given back as well."""


class Part(NamedTuple):
    """Features of some documents, in their order; every array has one value, or row, a document."""

    files: Integers
    rows: Integers
    doc_ids: Integers
    ids: pa.Array
    text_bytes: Integers
    token_counts: Integers
    shingle_counts: Integers
    digest_high: Integers
    digest_low: Integers
    band_keys: Hashes
    signature: Bytes
    sources: pa.Array
    tokens: pa.Array
    """Of the documents of the sample, as from `frequencies.shorten`; null elsewhere."""
    order_keys: pa.Array
    """Of the rules of `keep.order` that ask for columns, a list for each."""
    merged: pa.Array
    """Of the columns of `keep.merge`, a list of strings for each."""


class SignedSplit(NamedTuple):
    """Result of the first pass over a split."""

    parts: list[Part]
    begins: list[str]
    """Beginnings of the texts of some documents without an id."""
    rejected: list[tuple[int, Rejected]]
    """Malformed records, with the numbers of their files."""
    held: Held | None = None
    """Shingle sets of its documents."""


def sign_split(source: FileSource, split: Split, left: Remaining, signing: Signing) -> SignedSplit:
    """Read what is left of a split, and compute the features of its documents."""
    found, room = SignedSplit([], [], []), None if signing.holds == "none" else Room()
    for piece in left.read(source, split):
        found.rejected.extend((piece.file, each) for each in piece.rejected)
        if piece.batch.num_rows:
            found.parts.append(_sign(piece, signing, room))
            nameless = piece.batch.filter(pc.is_null(piece.batch["id"])).slice(0, SHOWN - len(found.begins))
            found.begins.extend(each[:SHOWN_LENGTH] for each in nameless["text"].fill_null("").to_pylist())
    if room is None or (signing.holds == "crowds" and not _is_crowded(found.parts)):
        return found
    return found._replace(held=room.hold())


def _is_crowded(parts: list[Part]) -> bool:
    """Tell whether half of the documents share one of their first band keys with others, so that most are compared."""
    if not parts:
        return False
    digests = np.concatenate([part.digest_high for part in parts])
    keys = np.concatenate([part.band_keys[:, :LOOKED] for part in parts])
    # Copies of a set share all keys, and one of them is compared.
    keys = np.asfortranarray(keys[np.unique(digests, return_index=True)[1]])
    shares = np.zeros(keys.shape[0], dtype=bool)
    for band in keys.T:
        order = np.argsort(band)
        shares[order[mark_repeated(band[order])]] = True
    return 2 * int(np.count_nonzero(shares)) >= digests.size


def _sign(piece: Piece, signing: Signing, room: Room | None) -> Part:
    batch, doc_ids = piece.batch, to_doc_ids(piece.batch["id"])
    found = features.compute(
        batch["text"],
        signing.tokenizer,
        shingle_size=signing.shingle_size,
        bands=signing.bands,
        rows=signing.rows,
        seed=signing.signature_seed,
    )
    if room is not None:
        room.put(found.shingles, found.shingle_counts)
    return Part(
        files=np.full(batch.num_rows, piece.file),
        rows=batch["row"].to_numpy(),
        doc_ids=doc_ids,
        ids=batch["id"],
        text_bytes=pc.binary_length(batch["text"]).fill_null(0).to_numpy().astype(np.int64),
        token_counts=found.token_counts,
        shingle_counts=found.shingle_counts,
        digest_high=found.digest_high,
        digest_low=found.digest_low,
        band_keys=found.keys,
        signature=found.low,
        sources=batch["source"],
        tokens=frequencies.sample(doc_ids, found.tokens, found.token_bounds, signing.sample_share),
        order_keys=batch["order_keys"],
        merged=batch["merged"],
    )


def warm(signing: Signing) -> None:
    """Load or compile what the passes call, so that processes forked from this one need not do it each."""
    features.compute(
        pa.array(["a few words, \u00e9t\u00e9 \u4e2d"]),
        signing.tokenizer,
        shingle_size=signing.shingle_size,
        bands=signing.bands,
        rows=signing.rows,
        seed=signing.signature_seed,
    )


def join(parts: list[Part]) -> Part:
    """Put parts together in their order; there is at least one."""
    columns = zip(*parts, strict=True)
    return Part(*map(_join_arrays, columns))


def _join_arrays(arrays: tuple[pa.Array | np.ndarray, ...]) -> pa.Array | np.ndarray:
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return pa.concat_arrays(arrays)


def shingle_split(
    source: FileSource,
    split: Split,
    left: Remaining,
    rows: Mapping[int, Integers],
    *,
    tokenizer: Tokenizer,
    shingle_size: int,
) -> tuple[Hashes, Integers]:
    """Read some rows of a split again.

    Parameters
    ----------
    rows
        int64, ascending, by the number of their file.

    Returns
    -------
    shingles : uint64 [shingles]
    sizes : int64 [documents]
        In the order of the rows.
    """
    found: list[tuple[Hashes, Integers]] = []
    for piece in left.read(source, split, rows):
        tokens, bounds = tokenizer.hash(piece.batch["text"])
        values, offsets = shingles.shingle(tokens, bounds, shingle_size, tokenizer)
        found.append((values, np.diff(offsets)))
    if not found:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    return np.concatenate([values for values, _ in found]), np.concatenate([sizes for _, sizes in found])

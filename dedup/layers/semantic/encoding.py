"""DOCUMENTS -> the same with a `vector` each: of a column, of a function, or by directions learned from the texts."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Work, once, pass_on
from dedup.errors import ConfigError, DataError
from dedup.kernels.hashing import mix
from dedup.kernels.runs import blocks
from dedup.kernels.runs.batches import conform_each
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.kernels.vectors import latent
from dedup.kernels.vectors.products import Matrix, to_bytes
from dedup.layers.near.templates import MEMBERS
from dedup.tables import arrow

CORPUS = "corpus"
"""Encoder that is learned from a sample of the texts."""
SETTING = "semantic.encoder"
SAMPLE = 5_000
"""Documents that it is learned from, about."""
FEATURES = pa.schema([("doc_id", pa.int64()), ("columns", pa.binary()), ("weights", pa.binary())])


@cache
def load_function(name: str) -> Callable[[Sequence[str]], Any]:
    """Return the function of a setting "package:function".

    Raises
    ------
    ConfigError
        When there is none.
    """
    module, _, function = name.partition(":")
    rule = f'{SETTING}: must be "{CORPUS}" or a function "package:function" (got "{name}"'
    try:
        found: Callable[[Sequence[str]], Any] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{rule}: {error})") from error
    if not callable(found):
        raise ConfigError(f"{rule}, which is none)")
    return found


def choose_encoder(engine: Engine[Rows], column: str, encoder: str, tokenizer: Tokenizer) -> Work:
    """Return the work that gives documents their vectors."""
    if column:
        return pass_on
    if encoder != CORPUS:
        return partial(_call, name=encoder)
    return partial(_encode, tokenizer=tokenizer, directions=_learn(engine, tokenizer))


def _add(batch: pa.RecordBatch, rows: np.ndarray, vectors: Matrix) -> pa.RecordBatch:
    """Give some rows their vectors, and others null."""
    places = np.full(batch.num_rows, -1)
    places[rows] = np.arange(rows.size)
    held = to_bytes(vectors).take(pa.array(places, mask=places < 0)) if rows.size else pa.nulls(batch.num_rows)
    return batch.set_column(batch.schema.get_field_index("vector"), "vector", held.cast(pa.binary()))


def _call(batches: Batches, *, name: str) -> Batches:
    encode = load_function(name)
    for batch in batches:
        texts = batch["text"].fill_null("")
        rows = np.flatnonzero(pc.utf8_length(pc.utf8_trim_whitespace(texts)).to_numpy(zero_copy_only=False))
        made = encode(texts.take(pa.array(rows)).to_pylist()) if rows.size else np.empty((0, 1))
        try:
            found = np.asarray(made, "<f4")
        except (TypeError, ValueError) as error:
            raise DataError(f"{SETTING}: {name} must return rows of numbers, all of one length ({error})") from error
        if found.ndim != 2 or len(found) != rows.size:
            raise DataError(f"{SETTING}: {name} must return a row for each text (got {found.shape} for {rows.size:,})")
        yield _add(batch, rows, found)


def _encode(batches: Batches, *, tokenizer: Tokenizer, directions: np.ndarray) -> Batches:
    for batch in batches:
        found = latent.encode(batch["text"], tokenizer, directions)
        rows = np.flatnonzero(found.any(axis=1))
        yield _add(batch, rows, found[rows])


def _learn(engine: Engine[Rows], tokenizer: Tokenizer) -> np.ndarray:
    """Return the directions of a sample, drawn by the hashes of documents; one more pass over all."""
    schema = arrow.register(engine.id_type)
    listed = engine.scan("listed", partial(conform_each, schema=schema), schema)
    bound = int(min(SAMPLE / max(engine.tally(listed)["rows"], 1), 1) * (1 << 63))
    drawn = engine.map(engine.select(listed, "doc_id"), partial(_draw, bound=bound), MEMBERS)
    wanted = engine.group("learned", drawn, once(MEMBERS))
    rows = engine.collect(engine.fetch("features", wanted, partial(_count, tokenizer=tokenizer), FEATURES))
    return latent.fit(_read(rows.sort_by("doc_id").combine_chunks()))


def _draw(batches: Batches, *, bound: int) -> Batches:
    for batch in batches:
        hashes = mix(batch["doc_id"].to_numpy().view(np.uint64)) >> np.uint64(1)
        yield batch.filter(pa.array(hashes < np.uint64(bound)))


def _count(batches: Batches, *, tokenizer: Tokenizer) -> Batches:
    for batch in batches:
        found = latent.count_features(batch["text"], tokenizer)
        cells = [blocks.lists(each, found.bounds) for each in (found.columns, found.weights)]
        yield pa.RecordBatch.from_arrays([batch["doc_id"], *cells], schema=FEATURES)


def _read(rows: pa.Table) -> latent.Features:
    cells, weighed = (rows[name].combine_chunks() for name in ("columns", "weights"))
    columns, bounds = blocks.unlists(cells, "<u2")
    return latent.Features(columns, blocks.unlists(weighed, "<f4")[0], bounds)

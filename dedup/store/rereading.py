"""Shingle sets of a store that holds none, made again of the texts where batches have read them."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from dedup.errors import ConfigError, DedupError, StorageError
from dedup.files.listing import list_files
from dedup.files.source import open_source
from dedup.files.splits import Split
from dedup.files.systems import redact
from dedup.kernels.runs import blocks
from dedup.kernels.runs.bounds import find_bounds
from dedup.kernels.sets.shingles import digest_halves, shingle_texts
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.near.signing import slice_texts
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from dedup.settings.inputs import Input
from dedup.settings.options import Text
from dedup.settings.rules import Texts
from dedup.store.state import KEY_FILE, STORED, TOKENIZER_FILE, State

SHINGLED = pa.schema([("set", pa.int64()), ("shingles", pa.binary())])


def load_contract(state: State, where: str, *, key_file: str = "") -> Tokenizer:
    """Return the tokenizer by which a store makes shingles of texts.

    Parameters
    ----------
    where
        Path of the store, for messages.
    key_file
        Path of the key of its hashes; by default where it was when the store was made.

    Raises
    ------
    ConfigError
        When the key, or Unicode's data, are others than the store's, or the store has no key.
    """
    held = HashSpec(**state.spec)
    if key_file and not held.key:
        raise ConfigError(f"--key-file must be left out, as the hashes of {where} have no key (got {key_file})")
    files = {name: state.settings.get(name, "") for name in (KEY_FILE, TOKENIZER_FILE)}
    files |= {KEY_FILE: key_file} if key_file else {}
    config = load_config(settings=_to_settings(held, files))
    tokenizer = load_tokenizer(config)
    for name, (theirs, mine) in held.difference(HashSpec.of(config, tokenizer)).items():
        raise ConfigError(f"{where}: hash specification: {name} must be {theirs!r}, as in the store (got {mine!r})")
    return tokenizer


def _list_columns(named: str) -> Texts:
    """Return the columns of a specification, as in input.columns."""
    return tuple(filter(None, named.split(",")))


def _to_settings(spec: HashSpec, files: Mapping[str, str]) -> dict[str, object]:
    """Return the settings that make a specification like the store's."""
    return {
        **{f"text.{name}": getattr(spec, name) for name in asdict(Text())},
        "shingles.shingle_size": spec.shingle_size,
        "shingles.unit": spec.unit,
        "input.columns": _list_columns(spec.columns),
        "seed": spec.shingle_seed,
        "lsh.bands": spec.bands,
        "lsh.rows": spec.rows,
        **files,
        KEY_FILE: files[KEY_FILE] if spec.key else "",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rereader:
    """Parameters of shingling texts again."""

    tokenizer: Tokenizer
    shingle_size: int
    has_sets: bool
    """Whether documents are sets, and no texts."""
    columns: str
    """Columns of the texts as in the specification; where there is one, a file tells its own."""
    threads: int
    """Files that are read at the same time."""

    def shingle(self, rows: pa.Table, files: pa.Table) -> pa.Table:
        """Return SHINGLED, perhaps in another order.

        Parameters
        ----------
        rows
            Rows of `sets` without shingles.
        files
            Rows of `files`.

        Raises
        ------
        StorageError
            When a text is not what or where it was.
        """
        ordered = rows.sort_by([("file", "ascending"), ("row", "ascending")])
        bounds = find_bounds(ordered["file"].to_numpy()).tolist()
        known = {named["file"]: named for named in files.to_pylist()}

        def read(bounds: tuple[int, int]) -> pa.Table:
            own = ordered.slice(bounds[0], bounds[1] - bounds[0])
            # Of each group of rows a few: what follows has a price for each batch.
            return pa.concat_tables(self._read(own, known[own["file"][0].as_py()])).combine_chunks()

        with ThreadPoolExecutor(self.threads) as readers:
            return pa.concat_tables([SHINGLED.empty_table(), *readers.map(read, pairwise(bounds))])

    def _read(self, rows: pa.Table, file: Mapping[str, Any]) -> Iterator[pa.Table]:
        sets, places, high, low = (rows[name].to_numpy() for name in ("set", "row", "digest_high", "digest_low"))
        left = np.ones(sets.size, dtype=bool)
        try:
            listing = list_files([file["path"]], format=file["format"])
            source = open_source(
                listing,
                id_column=file["id_column"],
                text_columns=[*Input(text_column=file["text_column"], columns=_list_columns(self.columns)).weights],
                on_bad_record="quarantine",
                has_sets=self.has_sets,
            )
            for piece in source.read(Split(parts=(source.whole(0),)), {0: places}):
                for batch in slice_texts([piece.batch]):
                    at = np.searchsorted(places, batch["row"].to_numpy())
                    _, _, values, offsets = shingle_texts(batch["text"], self.shingle_size, self.tokenizer)
                    own = digest_halves(values, offsets)
                    left[at] = (own[0] != high[at]) | (own[1] != low[at])
                    yield pa.table([sets[at], blocks.lists(values, offsets)], schema=SHINGLED)
        except DedupError as error:
            raise StorageError(_tell(file["path"], str(error))) from error
        if left.any():
            raise StorageError(_tell(file["path"], f"{np.count_nonzero(left):,} texts that are asked for are others"))


def _tell(path: str, why: str) -> str:
    return (
        f"{redact(path)}: must be as a batch of the store has read it, because the store holds no shingle sets "
        f"({STORED} = false): {why}"
    )

"""The texts that a model is to be tested by: what is searched for, and what the report says of who has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dedup.errors import ConfigError
from dedup.files.listing import list_files
from dedup.files.source import open_source
from dedup.files.splits import split_files
from dedup.kernels import Integers
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.text.grams import GramIndex, Occurrences, index
from dedup.kernels.text.matches import KnownGrams
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers.references import Reference

SPLIT_BYTES = 64 << 20
"""Bytes read at a time."""
SHOWN = 20
"""Items of a set, and common runs of tokens, that the report shows."""
SHOWN_CHARACTERS = 200
"""Characters shown of each."""


class PromptSet(NamedTuple):
    """An entry of `contamination.sets`: its three parts between colons."""

    name: str
    column: str
    path: str

    @property
    def reference(self) -> Reference:
        """Files of the set."""
        return Reference("contamination.sets", self.name, self.path)


def parse_sets(entries: Sequence[str], where: str) -> tuple[PromptSet, ...]:
    """Return the entries of `contamination.sets`.

    Raises
    ------
    ConfigError
        When an entry is malformed, or two have one name.
    """
    # Behind the last colon of the two is the path, which may have more of them.
    sets = [PromptSet(*(*entry.split(":", 2), "", "")[:3]) for entry in entries]
    for each, entry in zip(sets, entries, strict=True):
        if not all(part.strip() for part in each):
            raise ConfigError(f"{where}: sets must have entries NAME:COLUMN:PATH (got {entry!r})")
    names = [each.name for each in sets]
    if len({*names}) < len(names):
        raise ConfigError(f"{where}: sets must have names of their own (got {', '.join(names)})")
    return tuple(sets)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompts:
    """The n texts of all sets."""

    names: Sequence[str]
    """Names of the sets."""
    sets: Integers
    """int64 [n], the number of the set that each is of."""
    items: Integers
    """int64 [n], its number in the set, from 0."""
    texts: pa.Array

    def name(self, text: int) -> str:
        """Return what a text is called."""
        return f"{self.names[self.sets[text]]}:{self.items[text]}"

    def index(self, size: int, tokenizer: Tokenizer) -> tuple[GramIndex, Occurrences, Integers]:
        """Return what is searched for, where it stands, and how many tokens each text has."""
        tokens, offsets = tokenizer.hash(self.texts)
        return *index(tokens, offsets, size, tokenizer), np.diff(offsets)


def read_prompts(sets: Sequence[PromptSet]) -> Prompts:
    """Read the texts of all sets into memory; an item's number is its row's, through all files of its set.

    Raises
    ------
    StorageError
        When there is no such file, or the names do not tell one format.
    SchemaError
        When a column is missing, or of a type that cannot serve.
    DataError
        When a file is damaged, or a record is malformed.
    """
    texts = [_read(each) for each in sets]
    sizes = np.array([len(each) for each in texts], dtype=np.int64)
    return Prompts(
        names=[each.name for each in sets],
        sets=np.repeat(np.arange(sizes.size), sizes),
        items=np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes),
        texts=pa.chunked_array([pa.array([], pa.large_string()), *texts]).combine_chunks(),
    )


def _read(chosen: PromptSet) -> pa.Array:
    with chosen.reference.name_errors():
        source = open_source(list_files([chosen.path]), id_column="", text_column=chosen.column)
        pieces = [piece for split in split_files(source.listing, SPLIT_BYTES) for piece in source.read(split)]
    found = [pa.array([], pa.large_string()), *(piece.batch["text"].cast(pa.large_string()) for piece in pieces)]
    return pa.chunked_array(found).combine_chunks()


def choose(counted: pa.Table, known: GramIndex, occurrences: Occurrences, common: int) -> KnownGrams:
    """Return the grams that documents have, of a table of their numbers and documents; see `settings.common`."""
    counted = counted.sort_by("number")
    numbers, documents = (counted[name].to_numpy() for name in ("number", "documents"))
    bounds = np.searchsorted(occurrences.grams, np.stack((numbers, numbers + 1)))
    sizes = bounds[1] - bounds[0]
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    texts = occurrences.texts[np.arange(offsets[-1]) + np.repeat(bounds[0] - offsets[:-1], sizes)]
    # A text may have a gram twice.
    grams = np.repeat(np.arange(numbers.size), sizes)
    distinct = mark_firsts(grams, texts)
    return KnownGrams(
        numbers=numbers,
        sizes=known.sizes[numbers].astype(np.int64),
        is_common=(documents > common) & (common > 0),
        offsets=np.searchsorted(grams[distinct], np.arange(numbers.size + 1)),
        texts=texts[distinct],
    )


def tell_sets(
    prompts: Prompts, token_counts: Integers, matched: Mapping[int, Mapping[str, Any]], size: int
) -> dict[str, Any]:
    """Return what the report says of each set.

    Parameters
    ----------
    token_counts : int64 [n]
    matched
        Number of matching documents and the id of one, of texts, and of sets by -2 less their number.
    """
    told = {}
    for number, name in enumerate(prompts.names):
        own = np.flatnonzero(prompts.sets == number)
        found = sorted((text for text in own.tolist() if text in matched), key=lambda text: -matched[text]["documents"])
        told[name] = {
            "items": own.size,
            "items_empty": int(np.count_nonzero(token_counts[own] == 0)),
            "items_short": int(np.count_nonzero((token_counts[own] > 0) & (token_counts[own] < size))),
            "items_matched": len(found),
            "documents": matched.get(-2 - number, {"documents": 0})["documents"],
            "most": [
                {
                    "item": int(prompts.items[text]),
                    **matched[text],
                    "text": (prompts.texts[text].as_py() or "")[:SHOWN_CHARACTERS],
                }
                for text in found[:SHOWN]
            ],
        }
    return told


def tell_common(
    prompts: Prompts, known: KnownGrams, counted: pa.Table, occurrences: Occurrences, tokenizer: Tokenizer
) -> list[dict[str, Any]]:
    """Return what the report says of common grams: those of most documents, as their first text has them."""
    documents = counted.sort_by("number")["documents"].to_numpy()
    rows = np.flatnonzero(known.is_common)
    told = []
    for row in rows[np.argsort(-documents[rows], kind="stable")][:SHOWN].tolist():
        first = int(np.searchsorted(occurrences.grams, known.numbers[row]))
        text, place = int(occurrences.texts[first]), int(occurrences.places[first])
        places = tokenizer.locate(prompts.texts.slice(text, 1))
        begin, end = places.begins[place], places.ends[place + known.sizes[row] - 1]
        told.append(
            {
                "text": prompts.texts[text].as_py()[begin:end][:SHOWN_CHARACTERS],
                "documents": int(documents[row]),
                "items": int(known.offsets[row + 1] - known.offsets[row]),
                "item": prompts.name(text),
            }
        )
    return told

"""Texts looked up in a store: which of its documents they resemble."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from dedup.errors import ConfigError, DataError
from dedup.files.formats.json_line import mend
from dedup.kernels import Hashes, Integers
from dedup.kernels.sets.shingles import shingle_texts
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.settings.rules import Range, refuse_single
from dedup.store.arrays import distinct, list_ranges
from dedup.store.links import Links, find_links
from dedup.store.rereading import load_contract
from dedup.store.schemas import LATER, NO_SET
from dedup.store.snapshot import Snapshot
from dedup.store.tables import Tables

SHARE = Range(0, 1, above=True)
TOGETHER = 10_000
"""Texts looked up at a time: bounds memory."""


class Match(NamedTuple):
    """A document of the store that a text resembles."""

    id: int | str
    jaccard: float
    """Exact; 1 for the same shingle set."""
    batch: str
    kept: bool
    """Whether it was kept when its batch was added, or since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A store opened to be looked into, as it was at this moment."""

    snapshot: Snapshot
    tokenizer: Tokenizer
    documents: pa.Table
    """doc_id and set of all documents, by set."""

    @classmethod
    def open(cls, path: str, *, key_file: str = "") -> "View":
        """Open a store.

        Parameters
        ----------
        key_file
            Path of the key of its hashes; by default where it was when the store was made.

        Raises
        ------
        StorageError
            When there is none.
        ConfigError
            When the key, or Unicode's data, are others than the store's.
        """
        snapshot = Snapshot.open(Tables(path))
        tokenizer = load_contract(snapshot.state, path, key_file=key_file)
        snapshot = replace(snapshot, tokenizer=tokenizer)
        documents = snapshot.read("documents", ["doc_id", "set"])
        documents = documents.filter(pa.array(documents["set"].to_numpy() != NO_SET)).sort_by("set")
        return cls(snapshot=snapshot, tokenizer=tokenizer, documents=documents)

    def shingle(self, texts: pa.Array) -> tuple[Hashes, Integers]:
        """Return the shingle sets of texts, as from `shingles.shingle`."""
        spec = self.snapshot.state.spec
        found = shingle_texts(texts, spec["shingle_size"], self.tokenizer)
        return found.shingles, found.offsets

    def look_up(self, texts: Iterable[str], *, threshold: float | None = None) -> Iterator[list[Match]]:
        """Yield for each text the documents that resemble it, the most similar first.

        Of those at the threshold as many are found as by the search that made the store: `lsh.recall`.

        Parameters
        ----------
        threshold
            Least similarity; by default the store's.

        Raises
        ------
        ConfigError
            When the threshold is no share, or the texts are one string.
        """
        refuse_single("texts", texts)
        least, waiting = self.snapshot.state.search.threshold if threshold is None else threshold, iter(texts)
        if not SHARE.holds(least, float):
            raise ConfigError(f"threshold: must be {SHARE.rule(float)} (got {least!r})")
        while part := list(islice(waiting, TOGETHER)):
            sets = self.shingle(to_strings(part))
            _, keys = self.snapshot.state.signer.sign(*sets)
            links, _ = find_links(self.snapshot, sets, keys, least)
            yield from self._name(len(part), links)

    def _name(self, count: int, links: Links) -> list[list[Match]]:
        """Return the documents of sets, by the number of the text."""
        of = self.documents["set"].to_numpy()
        first = np.searchsorted(of, links.right)
        counts = np.searchsorted(of, links.right, side="right") - first
        doc_ids = self.documents["doc_id"].to_numpy()[list_ranges(first, counts)]
        numbers, exact = np.repeat(links.left, counts), np.repeat(links.jaccard, counts)
        wanted = distinct(doc_ids)
        rows = self.snapshot.find("documents", wanted, ["doc_id", "id", "batch"]).sort_by("doc_id")
        members = self.snapshot.find("members", wanted, ["doc_id", "kept", "since"]).sort_by("since").to_pylist()
        kept = {row["doc_id"]: row["kept"] for row in members}
        if LATER in self.snapshot.state.segments:
            gone = self.snapshot.find(LATER, wanted, ["doc_id"])["doc_id"].to_pylist()
            kept |= dict.fromkeys(gone, False)
        places = np.searchsorted(wanted, doc_ids).tolist()
        ids, batches = rows["id"].to_pylist(), rows["batch"].to_pylist()
        found: list[list[Match]] = [[] for _ in range(count)]
        for number, place, doc_id, similarity in zip(
            numbers.tolist(), places, doc_ids.tolist(), exact.tolist(), strict=True
        ):
            found[number].append(Match(ids[place], similarity, batches[place], kept.get(doc_id, True)))
        for each in found:
            each.sort(key=lambda match: (-match.jaccard, match.id))
        return found


def lookup(
    store: str, texts: Iterable[str], *, threshold: float | None = None, key_file: str = ""
) -> list[list[Match]]:
    """Return for each text the documents of a store that resemble it, the most similar first.

    Parameters
    ----------
    store
        Path or URL of a store.
    texts
        As many as you like: 10,000 at a time are in memory.
    threshold
        Least exact Jaccard similarity; by default that of the store. Pairs below it are found less often.
    key_file
        Path of the key of the store's hashes; by default where it was when the store was made.

    Raises
    ------
    StorageError
        When there is no store.
    ConfigError
        When the key, or Unicode's data, are others than the store's.
    """
    return list(View.open(store, key_file=key_file).look_up(texts, threshold=threshold))


def to_strings(texts: Sequence[str | None]) -> pa.Array:
    """Return texts as those of JSON lines are read: halves of surrogate pairs are replaced.

    Raises
    ------
    DataError
        When one is no string.
    """
    wrong = next((each for each in texts if not isinstance(each, str | None)), None)
    if wrong is not None:
        raise DataError(f"texts: must be strings (got {wrong!r})")
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if each is None else mend(each) for each in texts], pa.string())

"""Documents drawn from a corpus, with those that resemble them, held in the driver's memory.

Documents drawn one by one lose their pairs: of n in N a pair stays with probability (n / N)^2, one in 10,000 at one in
a hundred. So each document drawn brings along those of the whole corpus that resemble it, by an exact search.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.errors import ConfigError, DataError
from dedup.evaluate.corpus import SampledCorpus
from dedup.evaluate.pairs import find_alike
from dedup.evaluate.planting import edit, split_words
from dedup.kernels import Flags, Hashes, Integers, sample_search
from dedup.kernels.hashing import expand, mix
from dedup.kernels.neighbours import Seeds, select_least
from dedup.kernels.sets import exact, minhash, shingles
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config

NEIGHBOURS = 50
"""Most documents that one drawn document brings along, so that a family of a million does not come whole."""
ROUNDS = 12
"""Most steps along a chain of similar documents."""
GROWTH = 20
"""Most documents per drawn document, so that a component of half a corpus does not come whole."""
PLANTED = (0.4, 1.0)
"""Similarities of planted copies to their originals, approximate and evenly spread."""
WORDS: Mapping[str, float] = MappingProxyType({"tokens": 1.0, "char": 1 / 7, "ids": 4 / 7})
"""Words of a token, by shingles.unit, in English."""
LEAST_UNITS = 3
"""Least words of a text to be copied with edits, as a multiple of the shingle size."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Sample of n documents in the order of doc_id."""

    doc_ids: Integers
    ids: pa.Array
    """User's ids; null for planted copies."""
    texts: pa.Array
    """Bytes."""
    drawn: Flags
    """Flags of the documents drawn; the others came along."""
    sources: Integers
    """Position of the original of a planted copy, -1 for all others."""
    config: Config
    size: int
    """Values of a signature."""

    @cached_property
    def sets(self) -> tuple[Hashes, Integers]:
        """Shingle sets, end to end, and their offsets."""
        tokenizer = load_tokenizer(self.config)
        found = shingles.shingle_texts(self.texts, self.config.shingles.shingle_size, tokenizer)
        return found.shingles, found.offsets

    @cached_property
    def signatures(self) -> Hashes:
        """Signatures for all settings, one per document."""
        return minhash.sign(*self.sets, self.size, self.config.seed)

    @cached_property
    def heads(self) -> Integers:
        """The result of `sample_search.find_heads`."""
        return sample_search.find_heads(self.doc_ids, *self.sets)

    def rank(self) -> Integers:
        """Return the order of documents by their ids; planted copies come last."""
        real = self.sources < 0
        ranks = np.arange(self.doc_ids.size) + self.doc_ids.size
        ranks[real] = pc.rank(self.ids.filter(pa.array(real)), tiebreaker="dense").to_numpy()
        return ranks

    def name(self, position: int) -> str | int:
        """Return the user's id of a document; a planted copy is named after its original."""
        source = int(self.sources[position])
        name: str | int = self.ids[position].as_py() if source < 0 else f"planted copy of {self.name(source)}"
        return name

    def read(self, position: int) -> str:
        """Return the text of a document."""
        content: bytes = self.texts[position].as_py() or b""
        return content.decode("utf-8", "replace")


def bring_along(
    corpus: SampledCorpus, drawn: Sample, *, settings: Sequence[sample_search.Setting], floor: float
) -> tuple[Sample, Mapping[str, int]]:
    """Return the drawn documents with the documents of the corpus that resemble them, and counts of the search.

    Two passes over the corpus: one finds them, one fetches them.

    Parameters
    ----------
    floor
        Least exact Jaccard of a document that comes along to one drawn.

    Returns
    -------
    sample
        Every drawn document with at most NEIGHBOURS, those with the least hashes of their doc_id.
    counts
        As the counters of `dedup.kernels.neighbours.find_neighbours`.
    """
    seeds = Seeds(
        doc_ids=drawn.doc_ids,
        index=exact.index(*drawn.sets, floor),
        signatures=drawn.signatures,
        signature_seed=drawn.config.seed,
        settings=settings,
    )
    # A document drawn is among its own neighbours.
    found = corpus.find_neighbours(seeds, most=NEIGHBOURS + 1, config=drawn.config)
    _, doc_ids = select_least(found.seeds, found.doc_ids, NEIGHBOURS + 1)
    return _add(corpus, drawn, np.setdiff1d(doc_ids, drawn.doc_ids)), found.counts


def complete_components(corpus: SampledCorpus, sample: Sample, threshold: float) -> tuple[Sample, int]:
    """Return the sample with its documents' components completed, and the number of documents left unfollowed.

    Whether two documents end in one component, and whether one is removed, depends on all others of their component.
    Those that came along last bring along in their turn what reaches the threshold, until none are new: two passes over
    the corpus for each step of the longest chain, ROUNDS of them at most, and no more than GROWTH times the documents
    drawn.
    """
    similar = find_alike(sample.sets, sample.drawn, floor=threshold, threshold=threshold)
    components = similar.connect(threshold, sample.doc_ids.size)
    joined = np.isin(components, components[sample.drawn])
    asking = sample.doc_ids[joined & ~sample.drawn]
    most = GROWTH * np.count_nonzero(sample.drawn)
    for _ in range(ROUNDS):
        if not asking.size or sample.doc_ids.size > most:
            break
        places = np.searchsorted(sample.doc_ids, asking)
        seeds = Seeds(
            doc_ids=asking,
            index=exact.index(*exact.take(*sample.sets, places), threshold),
            signatures=sample.signatures[places],
            signature_seed=sample.config.seed,
            settings=(),
        )
        found = corpus.find_neighbours(seeds, most=NEIGHBOURS + 1, config=sample.config)
        reached = np.unique(select_least(found.seeds, found.doc_ids, NEIGHBOURS + 1)[1])
        asking = np.setdiff1d(reached, sample.doc_ids[joined])
        joined_ids = np.union1d(sample.doc_ids[joined], asking)
        sample = _add(corpus, sample, np.setdiff1d(asking, sample.doc_ids))
        joined = np.isin(sample.doc_ids, joined_ids)
    return sample, asking.size


def _add(corpus: SampledCorpus, sample: Sample, doc_ids: Integers) -> Sample:
    """Return the sample with further documents, which were not drawn."""
    table = pa.table({"doc_id": sample.doc_ids, "id": sample.ids, "text": sample.texts})
    if doc_ids.size:
        others = corpus.fetch(doc_ids)
        table = pa.concat_tables([table, others.set_column(2, "text", others["text"].cast(pa.large_binary()))])
    added = assemble(table, sample.config, sample.size)
    return replace(added, drawn=np.isin(added.doc_ids, sample.doc_ids[sample.drawn]))


def assemble(documents: pa.Table, config: Config, size: int) -> Sample:
    """Return a sample of documents (doc_id, id, text), all of them drawn; equal rows are one document.

    Raises
    ------
    DataError
        When two documents have one id.
    """
    doc_ids = documents["doc_id"].to_numpy()
    _, first = np.unique(doc_ids, return_index=True)
    if config.input.id_column and first.size < doc_ids.size:
        repeated = np.setdiff1d(np.arange(doc_ids.size), first)
        shown = documents["id"][int(repeated[0])].as_py()
        raise DataError(
            f"input.id_column: column {config.input.id_column!r} must be unique (got {shown!r} more than once)"
        )
    chosen = documents.take(pa.array(first))
    return Sample(
        doc_ids=doc_ids[first],
        ids=chosen["id"].combine_chunks(),
        texts=chosen["text"].cast(pa.large_binary()).combine_chunks(),
        drawn=np.ones(first.size, dtype=bool),
        sources=np.full(first.size, -1),
        config=config,
        size=size,
    )


def plant(sample: Sample, count: int) -> Sample:
    """Return the sample with edited copies of drawn documents, the same every time.

    Words are exchanged, a passage is dropped or a foreign one put in, in turn, so that the similarities to the
    originals spread over PLANTED; the documents copied are taken in the order of their hashes, again from the first
    when there are more copies than documents.

    Raises
    ------
    ConfigError
        When documents are sets.
    DataError
        When no document is long enough.
    """
    chance = random.Random(1)  # noqa: S311 - a spread that comes again needs a seed, no secrecy
    chosen = sample.config.shingles
    if chosen.has_sets or len(sample.config.text_columns) > 1:
        raise ConfigError("--planted: must be 0 for sets and several columns, as it exchanges the words of a text")
    size = 1 + (chosen.shingle_size - 1) * WORDS[chosen.unit]
    order = np.argsort(mix(sample.doc_ids.view(np.uint64)))
    originals = [position for position in order.tolist() if sample.drawn[position]]
    units = {position: split_words(sample.read(position)) for position in originals}
    originals = [position for position in originals if len(units[position][0]) >= LEAST_UNITS * size]
    if not originals:
        raise DataError(f"--planted: must find texts of {LEAST_UNITS * size:g} words and more to copy (it found none)")
    copies, sources = [], []
    for number in range(count):
        source = originals[number % len(originals)]
        words, joint = units[source]
        foreign = units[chance.choice(originals)][0]
        target = PLANTED[0] + (PLANTED[1] - PLANTED[0]) * (number + 0.5) / count
        copies.append(joint.join(edit(number, chance, words, foreign=foreign, target=target, size=size)))
        sources.append(source)
    free = np.setdiff1d(expand(1, sample.doc_ids.size + 2 * count).view(np.int64), sample.doc_ids)[:count]
    doc_ids = np.concatenate((sample.doc_ids, free))
    places = np.argsort(doc_ids)
    now_at = np.argsort(places)
    moved = np.concatenate((sample.sources, sources)).astype(np.int64)
    moved[moved >= 0] = now_at[moved[moved >= 0]]
    taken = pa.array(places)
    return replace(
        sample,
        doc_ids=doc_ids[places],
        ids=pa.concat_arrays([sample.ids, pa.nulls(count, sample.ids.type)]).take(taken),
        texts=pa.concat_arrays([sample.texts, pa.array([copy.encode() for copy in copies], pa.large_binary())]).take(
            taken
        ),
        drawn=np.concatenate((sample.drawn, np.ones(count, dtype=bool)))[places],
        sources=moved[places],
    )

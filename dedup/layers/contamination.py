"""The layer of contamination: documents that share tokens in a row with texts that a model is to be tested by."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from dedup.engine.engine import Engine, Rows, Shuffle, Work, describe
from dedup.errors import ConfigError
from dedup.kernels.runs.batches import conform_each
from dedup.kernels.runs.counting import add_groups
from dedup.kernels.text.grams import GramIndex
from dedup.kernels.text.matches import KnownGrams
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import gram_hits
from dedup.layers.gram_hits import NAME
from dedup.layers.layer import Found, Layer, Setup, check_places
from dedup.layers.prompts import Prompts, choose, parse_sets, read_prompts, tell_common, tell_sets
from dedup.layers.references import Reference
from dedup.settings.options import Config
from dedup.settings.rules import Range, Table, Texts
from dedup.tables import arrow

BROADCAST_GRAMS = 1 << 21
"""Grams of the largest index that goes whole to every worker: about 40 MB; of a larger one only its filter, 8 MB."""

CHARACTERS = 40
"""Least match where tokens are characters: texts that do not know each other share 30 of a common phrase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contamination(Table):
    """Layer "contamination": documents that share n consecutive tokens with texts that a model is to be tested by."""

    sets: Texts = ()
    """Sets of texts, a list of Unicode strings NAME:COLUMN:PATH: the name that the report calls a set by, the column of
    its texts, dots leading to fields of structs, and its file, glob or folder, of any format that is read."""

    match_tokens: int = field(default=13, metadata={"range": Range(1, 64)})
    """Consecutive tokens that make a match, an integer from 1 to 64; a text of the sets with fewer matches as a
    whole."""

    action: Literal["drop", "cut", "mark"] = "drop"
    """Action on matches: "drop" removes the documents; "cut" takes them out of the texts, with the margin; "mark" only
    lists them in the folder spans, as the others do too."""

    margin: int = field(default=0, metadata={"range": Range(0, 10_000), "needs": ("contamination.action", "cut")})
    """Tokens on both sides of a match that "cut" takes out as well, an integer from 0 to 10000."""

    common: int = field(default=0, metadata={"range": Range(0)})
    """Documents that may share a match before it counts as a common phrase, a 64-bit integer of at least 0; a common
    phrase removes and cuts nothing, and is listed apart in the report and in the folder spans. 0 sets no limit."""

    def __post_init__(self) -> None:
        """Check the fields, then the entries of the sets."""
        Table.__post_init__(self)
        parse_sets(self.sets, type(self).__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContaminationLayer(Layer):
    """The layer with its settings and the texts to search for."""

    name = NAME
    table = Contamination
    reads = ()
    is_incremental = True
    settings: Contamination
    tokenizer: Tokenizer
    prompts: Prompts
    broadcast: int
    """Grams of the largest index that goes whole to every worker."""

    @classmethod
    def check(cls, config: Config) -> None:
        """See `Layer.check`."""
        if not config.of(Contamination).sets:
            raise ConfigError('contamination.sets: must name sets of texts for the layer "contamination" (got none)')
        settings = config.of(Contamination)
        check_places(config, "contamination.match_tokens", settings.match_tokens, CHARACTERS, settings.action)

    @classmethod
    def list_references(cls, config: Config) -> list[Reference]:
        """See `Layer.list_references`."""
        return [each.reference for each in parse_sets(config.of(Contamination).sets, NAME)]

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        settings = setup.config.of(Contamination)
        prompts = read_prompts(parse_sets(settings.sets, NAME))
        return cls(settings=settings, tokenizer=setup.tokenizer, prompts=prompts, broadcast=BROADCAST_GRAMS)

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents: DOCUMENTS -> SPANS, REMOVALS.

        Of a large index the runs of tokens that pass its filter, of others than its own one in 64 at most, are
        shuffled together with it. All else is arithmetic on the few that documents have; only documents that match are
        read a second time, for the places of their tokens.
        """
        settings, prompts = self.settings, self.prompts
        index, occurrences, token_counts = prompts.index(settings.match_tokens, self.tokenizer)
        documents, hits, emit = self._search(engine, index)
        counted = engine.collect(
            engine.group(
                "grams",
                hits,
                Shuffle(
                    emit=emit,
                    emitted=gram_hits.HITS,
                    by=["number"],
                    order=["doc_id"],
                    work=gram_hits.count_documents,
                    schema=gram_hits.COUNTED,
                ),
            )
        )
        known = choose(counted, index, occurrences, settings.common)
        placed = self._place(engine, hits, emit, known)
        matched = self._count_texts(engine, placed, known)
        details = {
            "documents": matched.get(gram_hits.EVERY, {"documents": 0})["documents"],
            "sets": tell_sets(prompts, token_counts, matched, settings.match_tokens),
            "common": tell_common(prompts, known, counted, occurrences, self.tokenizer),
            "common_count": int(np.count_nonzero(known.is_common)),
        }
        names = {text: prompts.name(text) for text in np.unique(known.texts).tolist()}
        spans = engine.map(placed, partial(gram_hits.list_spans, names=names), arrow.SPANS)
        removals = None
        if settings.action == "drop":
            schema = arrow.removals(engine.id_type)
            removals = engine.map(placed, partial(gram_hits.list_removals, schema=schema), schema)
        return Found(
            documents=documents,
            removals=removals,
            spans=spans,
            effect="cut" if settings.action == "cut" else "mark",
            details=details,
        )

    def _search(self, engine: Engine[Rows], index: GramIndex) -> tuple[Rows, Rows, Work]:
        """Return all documents, their grams that are in the index, and what makes HITS of these."""
        read = partial(gram_hits.read, known=index.filter, size=self.settings.match_tokens, tokenizer=self.tokenizer)
        if index.high.size <= self.broadcast:
            documents = describe(engine, "documents", partial(read, index=index), gram_hits.NUMBERED)
            return documents, documents, partial(gram_hits.flatten, schema=gram_hits.HITS)
        documents = describe(engine, "documents", partial(read, index=None), gram_hits.HASHED)
        whole = gram_hits.to_rows(index, pa.schema([*arrow.register(engine.id_type), *gram_hits.HASHED]))
        hits = engine.group(
            "hits",
            engine.concat(documents, engine.parallelise("index", whole)),
            Shuffle(
                emit=gram_hits.send,
                emitted=gram_hits.SENT,
                by=["high", "low"],
                order=["is_document", "doc_id", "place"],
                work=gram_hits.join,
                schema=gram_hits.HITS,
            ),
        )
        return documents, hits, partial(conform_each, schema=gram_hits.HITS)

    def _place(self, engine: Engine[Rows], hits: Rows, emit: Work, known: KnownGrams) -> Rows:
        """Return the spans of every document that has some, in characters."""
        is_cut = self.settings.action == "cut"
        find = partial(
            gram_hits.match_documents, known=known, margin=self.settings.margin * is_cut, with_common=not is_cut
        )
        matched = engine.group(
            "matched",
            hits,
            Shuffle(
                emit=emit, emitted=gram_hits.HITS, by=["doc_id"], order=["place"], work=find, schema=gram_hits.MATCHED
            ),
        )
        schema = gram_hits.placed_schema(engine.id_type)
        place = partial(gram_hits.place, tokenizer=self.tokenizer, schema=schema, is_cut=is_cut)
        return engine.fetch("placed", matched, place, schema)

    def _count_texts(self, engine: Engine[Rows], placed: Rows, known: KnownGrams) -> dict[int, dict[str, Any]]:
        """Return how many documents match a text, a set, known by -2 less its number, and any: and the id of one."""
        texts = np.unique(known.texts)
        sets = dict(zip(texts.tolist(), (-2 - self.prompts.sets[texts]).tolist(), strict=True))
        emitted = pa.schema([*arrow.integers("text", "doc_id", "documents"), ("id", engine.id_type)])
        schema = pa.schema([*arrow.integers("text", "documents"), ("id", engine.id_type)])
        counted = engine.group(
            "texts",
            placed,
            Shuffle(
                emit=partial(gram_hits.list_texts, sets=sets, schema=emitted),
                emitted=emitted,
                by=["text"],
                order=["doc_id"],
                work=partial(add_groups, by=["text"], sums=["documents"], firsts=["id"]),
                schema=schema,
            ),
        )
        return {row.pop("text"): row for row in engine.collect(counted).to_pylist()}

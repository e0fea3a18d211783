"""The layer of passages: spans of tokens that occur twice, found exactly.

    documents -> grams selected -> those that occur twice -> windows that hold one -> their documents ranked
    -> windows that occur twice -> pieces -> digests of both their places -> pieces verified -> spans, removals

Rows that travel: (hash, document, place) of each gram selected, 4 to 7 of 100 tokens, and of each window in question,
never pairs, so that what occurs n times costs n rows. The text of a document is read again if it holds a gram that
occurs twice, and once more if it holds or keeps a piece. See `dedup.kernels.text.passages` for why no window is missed.

A window is told by a 64-bit hash of 64-bit hashes of tokens. Before anything is taken out, the tokens themselves of
each piece and of the place that it is held against have had equal digests of 128 bits.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Self

import pyarrow as pa

from dedup.engine.engine import Emit, Engine, Rows, Shuffle, conform_rows, describe, once, pass_on
from dedup.kernels.runs.batches import conform_each
from dedup.kernels.text.tokenizer import Tokenizer
from dedup.layers import cutting, repeats, tallies
from dedup.layers.cutting import Fate
from dedup.layers.layer import CHANGED, DOC_ID, EarlierKeys, Fetch, Found, Layer, Setup, check_places
from dedup.layers.ordering import Rules, ordered, rank_documents
from dedup.settings.keeping import FIRST_COME
from dedup.settings.options import Config
from dedup.settings.rules import Range, Table
from dedup.tables import arrow

NAME = "passages"
NEAR = 5
"""To meet a sentence's end a span gives up to one in so many of a window's tokens at either side."""
CHARACTERS = 100
"""Least length where tokens are characters, some 15 words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages(Table):
    """Layer "passages": of spans of tokens that occur twice, in one document or in several, one stays."""

    tokens: int = field(default=50, metadata={"range": Range(10, 1000)})
    """Tokens, as [text] has them, of the shortest passage, an integer from 10 to 1000."""

    action: Literal["cut", "drop", "mark"] = "cut"
    """Action on passages: "cut" takes them out of the texts, "drop" removes documents of which they are a share of at
    least drop_share and leaves the others whole, "mark" lists them in OUT/spans and changes nothing."""

    keep_first: bool = True
    """Whether one occurrence of each passage stays, that of the first document by keep.order, true or false; no token
    of it is cut for another passage, so what stays is whole. With false all go."""

    drop_share: float = field(
        default=0.5, metadata={"range": Range(0, 1, above=True), "needs": ("passages.action", "drop")}
    )
    """Least share of a document's tokens that must be repeated for "drop" to remove it, a number above 0 and at most
    1."""

    min_tokens_left: int = field(default=10, metadata={"range": Range(0), "needs": ("passages.action", "cut")})
    """Least tokens that "cut" must leave of a document, a 64-bit integer of at least 0; one with fewer is removed."""

    ends: Literal["token", "sentence"] = "token"
    """Boundaries of cuts: "token" cuts before the first and behind the last word of a passage, "sentence" where a
    sentence or line begins and ends, if one does within a fifth of tokens on their inside; what stays may then be
    repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassagesLayer(Layer):
    """The layer with its settings."""

    name = NAME
    table = Passages
    reads = ("keep.order",)
    is_incremental = True
    settings: Passages
    tokenizer: Tokenizer
    rules: Rules
    """By which the first of several occurrences is chosen; in one document it is the first from its beginning."""

    @classmethod
    def check(cls, config: Config) -> None:
        """See `Layer.check`."""
        settings = config.of(Passages)
        check_places(config, "passages.tokens", settings.tokens, CHARACTERS, settings.action)

    @classmethod
    def make(cls, setup: Setup) -> Self:
        """See `Layer.make`."""
        return cls(settings=setup.config.of(Passages), tokenizer=setup.tokenizer, rules=setup.config.rules)

    def find(self, engine: Engine[Rows]) -> Found[Rows]:
        """Search the documents."""
        documents = self._select_grams(engine)
        grams, emit = engine.select(documents, "doc_id", "grams", "places"), repeats.emit_grams
        return self._tell(engine, documents, self._find(engine, grams, emit, engine.fetch, self.rules))

    def find_since(self, engine: Engine[Rows], past: EarlierKeys) -> Found[Rows]:
        """Search the documents of a batch, before which those of earlier ones come, which stay as they are.

        See `Layer.find_since`.
        """
        documents, schema = self._select_grams(engine), cutting.verified(engine.id_type)
        given = engine.select(documents, "doc_id", "grams", "places")
        own = engine.map(given, repeats.emit_grams, repeats.GRAMS, name="grams")
        grams = engine.concat(own, past.look_up(engine, repeats.STORED, own))
        rules = (FIRST_COME, *self.rules)
        every = self._find(engine, grams, None, past.open(engine, cutting.STORED), rules)
        found = engine.map(engine.join(every, documents, "doc_id", how="semi"), pass_on, schema, name="verified_own")
        told = self._tell(engine, documents, found)
        stored = {repeats.STORED: own, cutting.STORED: self._keep(engine, told)}
        if told.spans is None:
            return replace(told, stored=stored)
        earlier = engine.join(every, documents, "doc_id", how="anti")
        named = engine.group("earlier", engine.select(earlier, "doc_id"), once(DOC_ID))
        kept = past.look_up(engine, cutting.STORED, named, cutting.LOST.names)
        work = partial(cutting.tell_changes, keep_first=self.settings.keep_first)
        with_cuts = schema.append(cutting.LOST.field("cuts"))
        by_document = Shuffle(emitted=with_cuts, by=["doc_id"], work=work, schema=CHANGED)
        changes = engine.group("changed", engine.join(earlier, kept, "doc_id"), by_document)
        return replace(told, stored=stored, changes=changes)

    def _select_grams(self, engine: Engine[Rows]) -> Rows:
        """Return REGISTER with SELECTED."""
        describe_grams = partial(repeats.describe_grams, length=self.settings.tokens, tokenizer=self.tokenizer)
        return describe(engine, "documents", describe_grams, repeats.SELECTED)

    def _keep(self, engine: Engine[Rows], told: Found[Rows]) -> Rows:
        """Return KEPT of documents, of which some have gone whole."""
        wanted = engine.group("wanted", engine.select(told.documents, "doc_id"), once(DOC_ID))
        parts = [engine.parallelise("no_cuts", cutting.CUTS.empty_table())]
        if told.spans is not None:
            parts.append(engine.select(told.spans, *cutting.CUTS.names))
        if told.removals is not None:
            parts.append(conform_rows(engine, told.removals, cutting.CUTS, begin=0, end=cutting.LONGEST))
        cuts = engine.group("cuts", engine.concat(*parts), cutting.GATHER_CUTS)
        with_cuts = engine.join(wanted, cuts, "doc_id", how="left")
        return engine.fetch("texts", with_cuts, partial(conform_each, schema=cutting.KEPT), cutting.KEPT)

    def _tell(self, engine: Engine[Rows], documents: Rows, found: Rows) -> Found[Rows]:
        """Say what becomes of documents by their verified pieces."""
        settings, schema = self.settings, cutting.verified(engine.id_type)
        fate = Fate(
            kind={"cut": cutting.LEFT, "drop": cutting.SHARE, "mark": ""}[settings.action],
            least_share=settings.drop_share,
            least_left=settings.min_tokens_left,
            keep_first=settings.keep_first,
        )
        emitted, order = cutting.emit_pieces, ["first", "last"]
        by_place = partial(Shuffle, emit=emitted, emitted=schema, by=["doc_id"], order=order)
        spans = removals = None
        if settings.action != "drop":
            work = partial(cutting.tell_spans, layer=self.name, kind="repeated", fate=fate)
            spans = engine.group("spans", found, by_place(work=work, schema=arrow.SPANS))
        if settings.action != "mark":
            gone = cutting.going(engine.id_type)
            work = partial(cutting.tell_removals, layer=self.name, fate=fate, schema=gone)
            removals = engine.group("going", found, by_place(work=work, schema=gone))
            if settings.action == "drop" or settings.min_tokens_left > settings.tokens:
                removals = cutting.name_kept(engine, removals)
            else:
                # Of a document that keeps a passage for others, that much is left.
                removals = engine.select(removals, *arrow.removals(engine.id_type).names)
        effect: Literal["cut", "mark"] = "mark" if settings.action == "mark" else "cut"
        details = tallies.describe(engine, documents, found, schema, length=settings.tokens, fate=fate)
        return Found(documents=documents, removals=removals, spans=spans, effect=effect, details=details)

    def _find(self, engine: Engine[Rows], grams: Rows, emit: Emit | None, fetch: Fetch[Rows], rules: Rules) -> Rows:
        """Return verified pieces and passages of rows that `emit` makes GRAMS of."""
        length = self.settings.tokens
        shared = engine.group(
            "shared",
            grams,
            Shuffle(
                emit=emit,
                emitted=repeats.GRAMS,
                by=["gram"],
                work=repeats.find_shared,
                schema=repeats.SHARED,
                repeated=True,
            ),
            once=True,
        )
        asked = engine.group(
            "asked",
            shared,
            Shuffle(
                emitted=repeats.SHARED, by=["doc_id"], order=["place"], work=repeats.gather_places, schema=repeats.ASKED
            ),
            once=emit is not None,
        )
        schema = pa.schema([*ordered(engine.id_type), *repeats.COMPARED])
        work = partial(repeats.describe_windows, length=length, tokenizer=self.tokenizer, schema=schema)
        ranked = rank_documents(engine, fetch("windows", asked, work, schema), schema, rules)
        repeated = engine.group(
            "occurrences",
            ranked,
            Shuffle(
                emit=repeats.emit_windows,
                emitted=repeats.WINDOWS,
                by=["window"],
                order=["rank", "place"],
                work=repeats.find_repeated,
                schema=repeats.REPEATED,
                repeated=True,
            ),
            once=True,
        )
        recurring = engine.map(engine.select(ranked, "doc_id", "recurring"), repeats.list_recurring, repeats.REPEATED)
        pieces = engine.group(
            "pieces",
            engine.concat(repeated, recurring),
            Shuffle(
                emitted=repeats.REPEATED,
                by=["doc_id"],
                order=["begin"],
                work=partial(repeats.unite_windows, length=length, keep_first=self.settings.keep_first),
                schema=repeats.PIECES,
            ),
            once=True,
        )
        # In a store what is to be read is asked for more than once.
        return self._verify(engine, pieces, fetch, once=emit is not None)

    def _verify(self, engine: Engine[Rows], pieces: Rows, fetch: Fetch[Rows], *, once: bool) -> Rows:
        """PIECES -> those of the same tokens as the place that they are held against."""
        schema = cutting.verified(engine.id_type)
        ranges = engine.group(
            "ranges",
            pieces,
            Shuffle(
                emit=cutting.emit_ranges,
                emitted=cutting.RANGES,
                by=["doc_id"],
                order=cutting.COLUMNS,
                work=cutting.gather_ranges,
                schema=cutting.READ,
            ),
            once=once,
        )
        read = cutting.digested(engine.id_type)
        near = self.settings.tokens // NEAR if self.settings.ends == "sentence" else 0
        work = partial(cutting.describe_ranges, near=near, tokenizer=self.tokenizer, schema=read)
        return engine.group(
            "verified",
            fetch("digests", ranges, work, read, once=True),
            Shuffle(
                emitted=read,
                by=cutting.KEY,
                order=["range", "doc_id", "begin"],
                work=partial(cutting.verify, schema=schema),
                schema=schema,
            ),
        )

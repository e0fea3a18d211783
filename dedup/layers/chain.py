"""Layers one after another: what each finds among what the ones before have left, put together for the output."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Generic, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, conform_rows
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.groups import bound_groups, join_groups
from dedup.kernels.runs.span_offsets import move_back, unite_spans
from dedup.layers.layer import Found, NothingToSearchError
from dedup.tables import arrow
from dedup.tables.counts import Layered

WHOLE = arrow.SPANS.append(arrow.EFFECT)
"""SPANS with their effect."""
KEY, ROLE = "key", "role"
FOUND, WAITING = 0, 1
EARLIER, LATER = 0, 1
TIMED = arrow.integers(KEY, ROLE, "place_begin", "place_end")
NOWHERE = -1
CUTS = pa.schema([WHOLE.field(name) for name in ("doc_id", "begin", "end")])
KEPT, MARK = "kept", "mark"
GATHERED = ("edges", "near_misses", "cosines", "sample", "sketches")
"""Fields of `Found` and of a chain of which all rows count, whatever layer has found them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chain(Generic[Rows]):
    """Findings of the layers so far."""

    engine: Engine[Rows]
    """Tables of all documents."""
    documents: Rows | None = None
    """REGISTER of all documents; None before the first layer."""
    removals: Rows | None = None
    """REMOVALS; each in favour of a document that no layer so far has removed, null where there is none."""
    edges: Rows | None = None
    """EDGES of pairs of known similarity."""
    near_misses: Rows | None = None
    """EDGES a little below a threshold."""
    cosines: Rows | None = None
    """COSINES of pairs that are edges by their vectors."""
    sample: Rows | None = None
    """doc_id and tokens of a sample of documents."""
    sketches: Rows | None = None
    """Parts of the sketch of the documents."""
    kept: Rows | None = None
    """Documents that stay for others, in the form of REMOVALS, each as the last layer that compared it has it."""
    spans: Rows | None = None
    """SPANS in characters of the whole texts, with their EFFECT."""
    steps: tuple[Layered, ...] = ()
    named: Rows | None = None
    """doc_id and id of all documents that took part, where `documents` are not all of them."""

    def rest(self, layer: str) -> Engine[Rows]:
        """Return the engine for the next layer, which this is."""
        lost = None if self.spans is None else self.engine.map(self.spans, lose, CUTS)
        return self.engine.without(self.removals, lost, layer)

    def add(self, layer: str, found: Found[Rows]) -> Self:
        """Add what a layer has found.

        Raises
        ------
        NothingToSearchError
            When it is the first, and was given no document.
        """
        step = self._count(layer, found)
        if not self.steps and not step.documents:
            raise NothingToSearchError
        gathered: dict[str, Any] = {name: self._add(getattr(self, name), getattr(found, name)) for name in GATHERED}
        return replace(
            self,
            documents=self.documents if self.documents is not None else found.documents,
            removals=self._add_removals(layer, found),
            spans=self._add_spans(layer, found),
            kept=self._add_kept(found.kept),
            steps=(*self.steps, step),
            **gathered,
        )

    def skip(self, layer: str) -> Self:
        """Add a layer that has found nothing to search, since those before have removed all.

        Raises
        ------
        NothingToSearchError
            When there is none before.
        """
        if not self.steps:
            raise NothingToSearchError
        return replace(self, steps=(*self.steps, Layered(layer=layer, documents=0, text_bytes=0)))

    def unite(self, parts: "Mapping[str, Chain[Rows]]") -> Self:
        """Add what the same layers have found in parts of the documents, each searched by itself.

        Parameters
        ----------
        parts
            By name, at least one; details of layers are by these names then.
        """
        engine = self.engine

        def join(tables: Iterable[Rows | None]) -> Rows | None:
            found = [each for each in tables if each is not None]
            return engine.concat(*found) if found else None

        chains, names = parts.values(), (*GATHERED, "removals", "kept", "spans")
        joined: dict[str, Any] = {name: join(getattr(each, name) for each in chains) for name in names}
        return replace(
            self,
            **joined,
            steps=tuple(
                _add_up(dict(zip(parts, steps, strict=True)))
                for steps in zip(*(chain.steps for chain in chains), strict=True)
            ),
        )

    def _count(self, layer: str, found: Found[Rows]) -> Layered:
        if found.counts is not None:
            signed = found.counts.signed
            removed = found.counts.elected.rows
            return Layered(
                layer=layer, documents=signed.rows, text_bytes=signed.text_bytes, tokens=signed.tokens, removed=removed
            )
        measure = self.engine.measure
        given = measure(found.documents, "text_bytes")
        return Layered(
            layer=layer,
            documents=given["rows"],
            text_bytes=given["text_bytes"],
            removed=0 if found.removals is None else measure(found.removals)["rows"],
            spans=0 if found.spans is None else measure(found.spans)["rows"],
            details=found.details,
        )

    def _add_removals(self, layer: str, found: Found[Rows]) -> Rows | None:
        """Return all removals, those of earlier layers in favour of what stays."""
        if self.removals is None or found.removals is None:
            return found.removals if self.removals is None else self.removals
        kept = list_owners(self.engine, found.removals) if found.kept is None else found.kept
        known = [each for each in (found.removals, kept, found.earlier) if each is not None]
        return self.engine.concat(self._follow(layer, self.removals, *known), found.removals)

    def follow(self, name: str, known: Rows) -> Self:
        """Let removals be in favour of those that documents known have gone for, in the form of REMOVALS."""
        return self if self.removals is None else replace(self, removals=self._follow(name, self.removals, known))

    def _follow(self, name: str, removals: Rows, *known: Rows) -> Rows:
        engine = self.engine
        schema = arrow.removals(engine.id_type)
        emitted = pa.schema([(KEY, pa.int64()), (ROLE, pa.int64()), *schema])
        roles = [
            engine.map(rows, partial(_note_role, role=role, schema=emitted), emitted)
            for rows, role in ((removals, WAITING), (engine.concat(*known), FOUND))
        ]
        return engine.group(
            f"{name}_followed",
            engine.concat(*roles),
            Shuffle(
                emitted=emitted, by=[KEY], order=[ROLE, "doc_id"], work=partial(_follow, schema=schema), schema=schema
            ),
        )

    def _add(self, earlier: Rows | None, found: Rows | None) -> Rows | None:
        """Return the rows of both."""
        if earlier is None or found is None:
            return found if earlier is None else earlier
        return self.engine.concat(earlier, found)

    def _add_kept(self, found: Rows | None) -> Rows | None:
        """Return what stays for others, one row each."""
        if self.kept is None or found is None:
            return self._add(self.kept, found)
        return self._add(self.engine.join(self.kept, found, "doc_id", how="anti"), found)

    def _add_spans(self, layer: str, found: Found[Rows]) -> Rows | None:
        """Return all spans, in characters of the whole texts."""
        if found.spans is None:
            return self.spans
        engine = self.engine
        spans = conform_rows(engine, found.spans, WHOLE, effect=found.effect)
        if self.spans is None:
            return spans
        spans = self.move_back(f"{layer}_own", spans, WHOLE)
        spans = self.move_back(f"{layer}_kept", spans, WHOLE, ("kept_doc_id", "kept_begin", "kept_end"))
        return engine.concat(self.spans, spans)

    def move_back(
        self, name: str, rows: Rows, schema: pa.Schema, places: Sequence[str] = ("doc_id", "begin", "end")
    ) -> Rows:
        """Return rows whose places, in texts that have lost spans, are those in the whole texts.

        Parameters
        ----------
        schema
            Columns of the rows.
        places
            Names of those of the document, null where there is none, and of its first and last character.
        """
        if self.spans is None:
            return rows
        engine, timed = self.engine, pa.schema([*TIMED, *schema])
        lost = engine.map(self.spans, lose, CUTS)
        earlier = engine.map(lost, partial(_note_time, time=EARLIER, places=CUTS.names, schema=timed), timed)
        later = engine.map(rows, partial(_note_time, time=LATER, places=places, schema=timed), timed)
        work = partial(_move, places=places, schema=schema)
        by_place = Shuffle(emitted=timed, by=[KEY], order=TIMED.names[1:], work=work, schema=schema)
        return engine.group(name, engine.concat(earlier, later), by_place)


def _add_up(steps: Mapping[str, Layered]) -> Layered:
    """Return the counts of a layer in all parts."""
    every = [*steps.values()]
    tokens = [each.tokens for each in every if each.tokens is not None]
    return Layered(
        layer=every[0].layer,
        documents=sum(each.documents for each in every),
        text_bytes=sum(each.text_bytes for each in every),
        tokens=sum(tokens) if tokens else None,
        removed=sum(each.removed for each in every),
        spans=sum(each.spans for each in every),
        details={name: each.details for name, each in steps.items() if each.details},
    )


def list_owners(engine: Engine[Rows], removals: Rows) -> Rows:
    """Return the documents in whose favour some are removed, a row for each of these, in the form of REMOVALS."""
    schema = arrow.removals(engine.id_type)
    return engine.map(removals, partial(_take_owners, schema=schema), schema)


def _take_owners(batches: Batches, *, schema: pa.Schema) -> Batches:
    for batch in batches:
        known = batch.filter(batch["representative_id"].is_valid())
        ids = known["representative_id"]
        yield conform(known, schema, doc_id=to_doc_ids(ids), id=ids, kind=KEPT)


def _note_role(batches: Batches, *, role: int, schema: pa.Schema) -> Batches:
    """Give removals the key by which they meet: found ones their document, waiting ones the one kept for them."""
    for batch in batches:
        keys = batch["doc_id"]
        if role == WAITING:
            others = pa.array(to_doc_ids(batch["representative_id"]))
            keys = pc.if_else(pc.is_valid(batch["representative_id"]), others, keys)
        roles = pa.repeat(pa.scalar(role, pa.int64()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([keys, roles, *batch.columns], schema=schema)


def _follow(batches: Batches, *, schema: pa.Schema) -> Batches:
    """Let waiting removals be in favour of what a layer has kept for the one that was kept for them."""
    for batch in join_groups(batches, [KEY]):
        is_waiting = pc.equal(batch[ROLE], WAITING)
        waiting, found = batch.filter(is_waiting), batch.filter(pc.invert(is_waiting))
        places = pc.index_in(waiting["representative_id"], found["id"])
        known = found.take(places.fill_null(0)) if found.num_rows else found
        if not known.num_rows:
            yield waiting.select(schema.names)
            continue
        is_known = pc.is_valid(places)
        # Of two documents of one text, each is as similar to a third as the other.
        is_same = pc.equal(waiting["jaccard"], 1.0).fill_null(pa.scalar(value=False))
        jaccard = pc.if_else(is_same, known["jaccard"], pa.scalar(None, pa.float64()))
        jaccard = pc.if_else(pc.equal(known["kind"], KEPT), waiting["jaccard"], jaccard)
        changed = {
            "representative_id": known["representative_id"],
            "component_id": known["component_id"],
            "jaccard": jaccard,
        }
        followed = {name: pc.if_else(is_known, column, waiting[name]) for name, column in changed.items()}
        yield conform(waiting, schema, **followed)


def _note_time(batches: Batches, *, time: int, places: Sequence[str], schema: pa.Schema) -> Batches:
    """Give rows the key by which those of one document meet; one without a place moves with none."""
    of, begin, end = places
    for batch in batches:
        begins, ends = (batch[name].fill_null(NOWHERE) for name in (begin, end))
        found = dict(zip(TIMED.names, (batch[of].fill_null(0), time, begins, ends), strict=True))
        yield conform(batch, schema, **found)


def _move(batches: Batches, *, places: Sequence[str], schema: pa.Schema) -> Batches:
    """Move places in texts that had lost spans by these, and leave the spans out."""
    for batch in join_groups(batches, [KEY]):
        _, roles, *found = (batch[name].to_numpy().copy() for name in TIMED.names)
        begins, ends = found
        lost, moves = roles == EARLIER, (roles == LATER) & (begins != NOWHERE)
        for first, last in pairwise(bound_groups(batch, [KEY]).tolist()):
            of, new = (first + np.flatnonzero(each[first:last]) for each in (lost, moves))
            if of.size and new.size:
                cuts = unite_spans(begins[of], ends[of])
                begins[new], ends[new] = move_back(begins[new], ends[new], cuts)
        moved = (pa.array(each, mask=each == NOWHERE) for each in (begins, ends))
        rows = conform(batch, schema, **dict(zip(places[1:], moved, strict=True)))
        yield rows.filter(pa.array(roles == LATER))


def lose(batches: Batches) -> Batches:
    """Select the spans that texts have lost for the layers that follow."""
    for batch in batches:
        yield batch.filter(pc.not_equal(batch["effect"], MARK)).select(CUTS.names)

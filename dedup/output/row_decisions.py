"""REGISTER, REMOVALS -> DECISIONS: the rows that go, each with its reason."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

import pyarrow as pa
import pyarrow.compute as pc

from dedup.engine.engine import Batches, Engine, Rows, Shuffle, Tally, conform_rows
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.runs.batches import conform
from dedup.kernels.runs.bounds import mark_firsts
from dedup.kernels.runs.groups import drop_repeated, join_groups
from dedup.layers.chain import Chain, list_owners
from dedup.tables import arrow

SOURCES = 50
"""Sources counted on their own."""
PROFILE = pa.field("profile", pa.int64())
REASON = ("layer", "kind", "representative_id", "component_id", "jaccard")
GOES, STAYS = 0, 1
"""Roles of rows that tell the component of a document: of one that goes in its favour, and its own."""
NUMBER = pa.field("number", pa.int64())
"""Number of the first of equal rows that goes: 1 where all go, 2 where the first stays."""
COUNTED = pa.schema(
    [
        ("key", pa.int64()),  # hash of the source
        ("source", pa.string()),  # null of documents without one, and of others
        ("is_other", pa.bool_()),
        ("documents", pa.int64()),
        ("kept", pa.int64()),
    ]
)
"""Documents by source."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Findings(Generic[Rows]):
    """Results of all layers, as the output applies them, in document ids."""

    chain: Chain[Rows]
    documents: Rows
    """REGISTER; with the number of the `profile` where there are any."""
    repeated: Rows | None
    """Column doc_id: ids of equal rows; None where there are none."""
    copies: tuple[str, str]
    """Layer and kind by which all of these but the first go; empty where they stay."""
    pairs: int
    """Edges and near misses at most, each."""
    named: Rows | None = None
    """doc_id and id of all that edges and near misses name, where `documents` are not all of them."""
    changes: Rows | None = None
    """Documents of earlier batches of a store whose fate is another now; None without a store."""
    drops_all: bool = False
    """Whether of equal rows none stays."""
    shown: Sequence[int] = ()
    """Documents whose texts the report shows; none where the output has no texts."""
    has_profiles: bool = False
    parts: int | None = None
    """Rows, where several are a document; None where each is one."""

    @property
    def rows(self) -> int:
        """Rows of the input."""
        return self.chain.steps[0].documents if self.parts is None else self.parts

    @property
    def gone(self) -> int:
        """Documents that REMOVALS name."""
        return sum(step.removed for step in self.chain.steps)


def decide(engine: Engine[Rows], found: Findings[Rows]) -> Rows:
    """Keep DECISIONS of all rows that go; the tally has the rows `removed` by layer, and what `read_profiles` reads.

    Of equal rows, which share a document id, the first by file and row stays if their document does; the others go as
    its copies.
    """
    schema = list_columns(engine.id_type)
    whole = schema.append(PROFILE) if found.has_profiles else schema
    given = pa.schema([field for field in whole if field.name not in {*REASON, NUMBER.name}])
    documents = engine.select(found.documents, *given.names)
    removals, kept = found.chain.removals, found.chain.kept
    if removals is None:
        removals = engine.parallelise("no_removals", arrow.removals(engine.id_type).empty_table())
    reasons = engine.expect(engine.select(removals, "doc_id", *REASON), found.gone)
    decided = engine.join(documents, reasons, "doc_id")
    if found.repeated is not None and found.copies[0]:
        equal = engine.join(documents, engine.select(found.repeated, "doc_id"), "doc_id", how="semi")
        copies = equal
        if not found.drops_all:
            further = Shuffle(emitted=given, by=["doc_id"], order=["file", "row"], work=_skip_firsts, schema=given)
            copies = engine.group("further", equal, further, once=True)
        copies = engine.join(copies, reasons, "doc_id", how="anti")
        copies = engine.join(copies, _find_components(engine, removals, kept, found.repeated), "doc_id", how="left")
        name = partial(_name_copies, copies=found.copies, schema=whole, alone=found.drops_all)
        decided = conform_rows(engine, decided, whole, number=1)
        decided = engine.concat(decided, engine.map(copies, name, whole))
    return engine.map(decided, partial(_count, schema=schema), schema, name="decisions")


def _find_components(engine: Engine[Rows], removals: Rows, kept: Rows | None, wanted: Rows) -> Rows:
    """Return doc_id and component_id of those wanted that stay for others: that of what goes for them, if anything."""
    schema = pa.schema([*arrow.integers("doc_id", "role"), ("component_id", engine.id_type)])
    rows = conform_rows(engine, list_owners(engine, removals), schema, role=GOES)
    if kept is not None:
        own = engine.select(kept, "doc_id", "component_id")
        rows = engine.concat(rows, conform_rows(engine, own, schema, role=STAYS))
    rows = engine.join(rows, wanted, "doc_id", how="semi")
    first = Shuffle(
        emitted=schema, by=["doc_id"], order=["role"], work=partial(drop_repeated, by=["doc_id"]), schema=schema
    )
    return engine.select(engine.group("stays", rows, first), "doc_id", "component_id")


def list_columns(id_type: pa.DataType) -> pa.Schema:
    """Return the schema of DECISIONS."""
    register, removals = arrow.register(id_type), arrow.removals(id_type)
    own = [field for field in register if field.name != "order_keys"]
    return pa.schema([*own, *(removals.field(name) for name in REASON), NUMBER])


def read_profiles(tally: Mapping[str, Mapping[str, int]]) -> dict[tuple[int, str], int]:
    """Return the rows that go by the number of their profile and layer, of the tally of DECISIONS."""
    found = ((*key.partition(" "), count) for key, count in tally.get("profiles", {}).items())
    return {(int(number), layer): count for number, _, layer, count in found}


def _name_copies(batches: Batches, *, copies: tuple[str, str], schema: pa.Schema, alone: bool) -> Batches:
    """Give the columns of DECISIONS to copies of rows that stay, or to all equal ones."""
    layer, kind = copies
    for batch in batches:
        own = batch["id"]
        component = pc.coalesce(batch["component_id"], own) if "component_id" in batch.schema.names else own
        reason = {"layer": layer, "kind": kind, "representative_id": own, "component_id": component, "jaccard": 1.0}
        if alone:
            reason |= {"representative_id": pa.nulls(len(own), own.type), "jaccard": pa.nulls(len(own), pa.float64())}
        yield conform(batch, schema, **reason, number=1 if alone else 2)


def _skip_firsts(batches: Batches) -> Batches:
    """Yield the second and further of rows of one document id."""
    for batch in join_groups(batches, ["doc_id"]):
        yield batch.filter(pa.array(~mark_firsts(batch["doc_id"].to_numpy())))


def _count(batches: Batches, *, schema: pa.Schema) -> Iterator[pa.RecordBatch | Tally]:
    """Count text_bytes, and rows by layer, and by profile and layer."""
    for batch in batches:
        tally = Tally(text_bytes=pc.sum(batch["text_bytes"]).as_py() or 0)
        keys = {"removed": batch["layer"]}
        if PROFILE.name in batch.schema.names:
            keys["profiles"] = pc.binary_join_element_wise(batch[PROFILE.name].cast(pa.string()), batch["layer"], " ")
        for name, values in keys.items():
            tally.update({(name, each["values"]): each["counts"] for each in pc.value_counts(values).to_pylist()})
        yield tally
        yield conform(batch, schema, **({} if NUMBER.name in batch.schema.names else {NUMBER.name: 1}))


def count_sources(engine: Engine[Rows], documents: Rows, decisions: Rows) -> dict[str, dict[str, int]]:
    """Count documents and those kept of the SOURCES largest sources, and of all others together."""
    counted = [
        engine.map(engine.select(rows, "source"), partial(_count_batch, is_gone=is_gone), COUNTED)
        for rows, is_gone in ((documents, False), (decisions, True))
    ]
    largest = Shuffle(emitted=COUNTED, by=["key"], work=_select_largest, schema=COUNTED, in_order=False)
    rows = engine.collect(engine.group("sources", engine.concat(*counted), largest, once=True))
    found: dict[str, dict[str, int]] = {}
    for row in (row for batch in _select_largest(rows.to_batches()) for row in batch.to_pylist()):
        name = "(others)" if row["is_other"] else "(none)" if row["source"] is None else row["source"]
        sums = found.setdefault(name, {"documents": 0, "kept": 0})
        for column in sums:
            sums[column] += row[column]
    return dict(sorted(found.items(), key=lambda item: (item[0] == "(others)", -item[1]["documents"], item[0])))


def _count_batch(batches: Batches, *, is_gone: bool) -> Batches:
    """Count the rows of each source."""
    for batch in batches:
        counts = pc.value_counts(batch["source"])
        sources, documents = (counts.field(name) for name in ("values", "counts"))
        counted = (
            {"documents": 0, "kept": pc.negate(documents)} if is_gone else {"documents": documents, "kept": documents}
        )
        rows = pa.RecordBatch.from_arrays([sources], names=["source"])
        yield conform(rows, COUNTED, key=to_doc_ids(sources), is_other=False, **counted)


def _select_largest(batches: Batches) -> Batches:
    """Add up sources, and all but the largest."""
    counted = pa.Table.from_batches([*batches], COUNTED).group_by(["key", "source", "is_other"])
    rows = counted.aggregate([("documents", "sum"), ("kept", "sum")]).rename_columns(COUNTED.names).to_pylist()
    rows.sort(key=lambda row: (row["is_other"], -row["documents"], row["source"] is not None, row["source"] or ""))
    others = rows[SOURCES:]
    sums = {name: sum(row[name] for row in others) for name in ("documents", "kept")}
    rest = [{"key": 0, "source": None, "is_other": True} | sums] if others else []
    yield pa.RecordBatch.from_pylist(rows[:SOURCES] + rest, COUNTED)

"""Who stays of the components that a batch has changed: each is decided on in one task, as `store.election` does."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from dedup.engines.values import Search
from dedup.kernels import Hashes, Integers
from dedup.kernels.removal_statistics import REMOVERS, merge_removals
from dedup.kernels.representatives import LARGEST
from dedup.kernels.runs import blocks
from dedup.kernels.sets.exact import take
from dedup.stages.components import Connecting, connect_documents
from dedup.stages.exchange import Batches, Counters
from dedup.stages.placement import CELL_BYTES, tasks
from dedup.stages.table import Seen, Table, count_rows
from dedup.store.arrays import look_up
from dedup.store.election import Verdict, elect, find_components, gather
from dedup.store.growth import Links
from dedup.store.joins.arriving import SET_BYTES
from dedup.store.joins.growth import Joined
from dedup.store.joins.reading import as_wanted
from dedup.store.joins.step import LINKS, Step
from dedup.store.schemas import NO_SET
from dedup.tables.counts import Connected, Elected

VOTING = T.StructType().add("set", T.LongType()).add("component", T.LongType())
"""Sets of the components that the batch touches."""
EARLIER = ("kept", "representative", "kind", "jaccard", "settled")
"""Of `members`, what was said before."""
TEXT = "elected"
"""Name under which tasks tell their counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decided:
    """What an election says."""

    verdicts: Table[Elected]
    """VERDICTS."""
    removed: int
    """Documents of them that have come and are not kept."""
    connected: Table[Connected]
    """Components of the sets of the store that have edges, by their least set."""


def verdicts(id_type: T.DataType) -> T.StructType:
    """Return the schema of VERDICTS, the documents of the components that a batch touches."""
    return (
        T.StructType()
        .add("doc_id", T.LongType())
        .add("id", id_type)
        .add("batch", T.StringType())
        .add("head", T.LongType())  # the least document of the same set
        .add("kept", T.BooleanType())
        .add("representative", T.LongType())  # null where that was deleted
        .add("representative_id", id_type)
        .add("kind", T.StringType())
        .add("jaccard", T.DoubleType())
        .add("settled", T.BooleanType())
        .add("component_id", T.LongType())
        .add("component", id_type)
        .add("was_kept", T.BooleanType())  # null of those whose lot is what it was, as in the next
        .add("would_be_kept", T.BooleanType())
    )


def decide(step: Step, joined: Joined, connecting: Connecting, *, anew: bool) -> Decided:
    """Connect what resembles each other, and decide who stays.

    Components are found as in a single run: on the driver up to DRIVER_EDGES edges of the store, by
    GraphFrames beyond.
    """
    spark, keep, reader = step.reader.spark, step.keep, step.reader
    lost = spark.createDataFrame(joined.withdrawn).select("left", "right")
    known = reader.scan("edges", LINKS.names)
    if joined.withdrawn.num_rows:
        known = known.join(F.broadcast(lost), on=["left", "right"], how="left_anti")
    links = known.unionByName(joined.found.frame)
    connected = connect_documents(
        keep,
        links.select(F.col("left").alias("left_id"), F.col("right").alias("right_id")),
        reader.count("edges") + joined.found.counts,
        **connecting._asdict(),
    )
    parts = connected.frame.select(F.col("doc_id").alias("set"), F.col("component_id").alias("component"))
    voting = _choose_voting(step, [joined.found.frame, lost], parts, anew=anew)
    voters = _gather_voters(step, voting)
    inner = links.join(
        voting.frame.select(F.col("set").alias("left"), "component"), on="left", how="inner"
    ).withColumnRenamed("jaccard", "similarity")
    several = tasks(2 * SET_BYTES * voting.counts, CELL_BYTES, step.cores)
    sets = reader.find_sets(as_wanted(voting.frame, "set"), ["set", "shingles"], step.count, several)
    held = sets.join(voting.frame, on="set", how="inner").select(F.col("set").alias("of"), "component", "shingles")
    rows = voters.unionByName(inner, allowMissingColumns=True).unionByName(held, allowMissingColumns=True)
    count = tasks(SET_BYTES * voting.counts, CELL_BYTES, step.cores)
    placed = rows.repartition(count, "component")
    schema = verdicts(from_arrow_schema(reader.layouts["documents"].schema)["id"].dataType)
    elected = keep(
        "verdicts",
        schema,
        lambda counters: placed.mapInArrow(_elector(step, schema, counters, anew=anew), schema),
        _measure,
    )
    counts, removed = elected.counts
    return Decided(verdicts=Table(frame=elected.frame, counts=counts), removed=removed, connected=connected)


def _choose_voting(step: Step, links: Iterable[DataFrame], parts: DataFrame, *, anew: bool) -> Table[int]:
    """Keep VOTING: the components that the batch touches, and with a new election those that wait for one."""
    touched = step.documents.frame.select("set").unionByName(step.met.known.frame.select("set"))
    for each in links:
        touched = touched.unionByName(each.select(F.explode(F.array("left", "right")).alias("set")))
    if anew:
        waiting = newest(step.reader.scan("members", ["doc_id", *EARLIER, "since"])).filter(~F.col("settled"))
        documents = step.reader.scan("documents", ["doc_id", "set"])
        touched = touched.unionByName(documents.join(waiting, on="doc_id", how="left_semi").select("set"))
    touched = touched.filter(F.col("set") != NO_SET).distinct()
    labelled = touched.join(parts, on="set", how="left")
    chosen = labelled.select(F.coalesce("component", "set").alias("component")).distinct()
    joined = parts.join(chosen, on="component", how="left_semi").select(*VOTING.names)
    alone = labelled.filter(F.col("component").isNull()).select("set", F.col("set").alias("component"))
    return step.keep("voting", VOTING, lambda _: joined.unionByName(alone), count_rows)


def newest(members: DataFrame) -> DataFrame:
    """Return the newest row of every document."""
    values = F.struct(*[each for each in members.columns if each not in {"doc_id", "since"}])
    return members.groupBy("doc_id").agg(F.max_by(values, "since").alias("value")).select("doc_id", "value.*")


def _gather_voters(step: Step, voting: Table[int]) -> DataFrame:
    """Keep the documents of components, and what was said of them, but for those that have come and are alone."""
    columns = step.reader.layouts["documents"].schema.names
    old = step.reader.select("documents", columns, "set", voting.frame, voting.counts)
    every = old.withColumn("is_new", F.expr("false")).unionByName(
        step.documents.frame.withColumn("is_new", F.expr("true"))
    )
    sizes = F.count(F.lit(1)).over(Window.partitionBy("component"))
    placed = every.join(voting.frame, on="set", how="inner").withColumn("size", sizes)
    chosen = placed.filter((F.col("size") > 1) | ~F.col("is_new")).drop("size")
    schema = from_arrow_schema(step.reader.layouts["documents"].schema)
    schema = schema.add("component", T.LongType()).add("is_new", T.BooleanType())
    voters = step.keep("voters", schema, lambda _: chosen.select(*schema.names), count_rows)
    told = step.reader.select(
        "members", ["doc_id", *EARLIER, "since"], "doc_id", voters.frame.select("doc_id"), voters.counts
    )
    return voters.frame.join(newest(told), on="doc_id", how="left")


class _Held:
    """Shingle sets of a task."""

    def __init__(self, numbers: Integers, shingles: Hashes, offsets: Integers) -> None:
        self._numbers, self._sets = numbers, (shingles, offsets)

    def find_sets(self, numbers: Integers) -> tuple[Hashes, Integers]:
        """See `election.HasSets`."""
        order = np.argsort(self._numbers)
        places = look_up(self._numbers[order], numbers)
        assert (places >= 0).all(), "sets: must hold every set of the store"
        return take(*self._sets, order[places])


def _elector(step: Step, schema: T.StructType, counters: Counters, *, anew: bool) -> Callable[[Batches], Batches]:
    """Return what elects in a task that has whole components."""
    search: Search = step.search
    documents = step.reader.layouts["documents"].schema
    earlier = pa.schema([step.reader.layouts["members"].schema.field(each) for each in ("doc_id", *EARLIER)])
    names = schema.names

    def run(batches: Batches) -> Batches:
        # Apart at once: together every edge would have a member's columns and every member an edge's.
        members, edges, sets = [], [], []
        for batch in batches:
            members.append(batch.filter(batch["doc_id"].is_valid()))
            edges.append(batch.filter(batch["left"].is_valid()).select(["left", "right", "similarity"]))
            sets.append(batch.filter(batch["of"].is_valid()).select(["of", "shingles"]))
        rows = pa.Table.from_batches(members) if members else None
        if rows is None or not rows.num_rows:
            return
        pairs = pa.Table.from_batches(edges)
        links = Links(*(pairs[name].to_numpy() for name in pairs.column_names))
        voters = gather(rows.select(documents.names).cast(documents), find_components(links, rows["set"].to_numpy()))
        before = rows.filter(rows["kept"].is_valid()).select(earlier.names).cast(earlier).sort_by("doc_id")
        new = np.sort(rows.filter(rows["is_new"])["doc_id"].to_numpy())
        held = _Held(*_read_sets(pa.Table.from_batches(sets)))
        verdict = elect(held, voters, links, before=before, new=new, search=search, anew=anew, readmit=False, threads=1)
        counters.add_text(TEXT, json.dumps(asdict(verdict.counts)))
        gone = verdict.members.filter(pc.invert(verdict.members["kept"]))["doc_id"].to_numpy()
        counters.add("removed", np.count_nonzero(look_up(new, gone) >= 0))
        table = _name(voters.rows, voters.heads, verdict)
        yield from table.select(names).combine_chunks().to_batches()

    return run


def _read_sets(rows: pa.Table) -> tuple[Integers, Hashes, Integers]:
    parts = [blocks.unlists(chunk, "<u8") for chunk in rows["shingles"].chunks]
    sizes = np.concatenate([np.diff(offsets) for _, offsets in parts])
    values = np.concatenate([each for each, _ in parts])
    return rows["of"].to_numpy(), values, np.concatenate(([0], np.cumsum(sizes)))


def _name(rows: pa.Table, heads: Integers, verdict: Verdict) -> pa.Table:
    """Return VERDICTS of voters."""
    members, changes = verdict.members, verdict.changes
    doc_ids, ids = rows["doc_id"].to_numpy(), rows["id"]
    owners = look_up(doc_ids, pc.fill_null(members["representative"], 0).to_numpy())
    missing = (owners < 0) | members["representative"].is_null().to_numpy()
    told = look_up(changes["doc_id"].to_numpy(), doc_ids)
    columns = {name: changes[name].take(pa.array(told, mask=told < 0)) for name in ("was_kept", "would_be_kept")}
    return pa.table(
        {
            **{name: rows[name] for name in ("doc_id", "id", "batch")},
            "head": doc_ids[heads],
            **{name: members[name] for name in ("kept", "representative", "kind", "jaccard", "settled")},
            "representative_id": ids.take(pa.array(owners, mask=missing)),
            "component_id": members["component_id"],
            "component": ids.take(pa.array(look_up(doc_ids, members["component_id"].to_numpy()))),
            **columns,
        }
    )


def _measure(seen: Seen) -> tuple[Elected, int]:
    """Return the counts of all tasks, and how many that have come are removed."""
    parts = [json.loads(text) for text, count in seen.get(TEXT, {}).items() for _ in range(count)]
    return merge_elected(parts), seen.get("removed", 0)


def merge_elected(parts: Iterable[Mapping[str, Any]]) -> Elected:
    """Return the counts of members from those of parts of the components."""
    told = [each for each in parts if each["rows"]]
    if not told:
        return Elected(rows=0)
    sums = {
        name: sum(each[name] for each in told) for name in ("rows", "near", "distant", "copied", "relinked", "parted")
    }
    joined = [
        None if None in each else sum(each) for each in zip_longest(*(each["joined"] for each in told), fillvalue=0)
    ]
    largest = sorted(
        (one for each in told for one in each["largest"]), key=lambda one: (-one["documents"], one["doc_id"])
    )
    return Elected(
        **sums,
        **merge_removals(told),
        joined=joined,
        removers=_merge_removers(told),
        rules=dict(sum((Counter(each["rules"]) for each in told), Counter[str]())),
        sizes=dict(sorted(sum((_count_sizes(each["sizes"]) for each in told), Counter[int]()).items())),
        largest=largest[:LARGEST],
    )


def _count_sizes(sizes: Mapping[str, int]) -> Counter[int]:
    return Counter({int(size): count for size, count in sizes.items()})


def _merge_removers(told: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    sums = Counter[tuple[str | None, str | None]]()
    for each in told:
        for one in each["removers"]:
            sums[one["source"], one["by"]] += one["documents"]
    ordered = sorted(sums.items(), key=lambda one: (-one[1], *(name or "" for name in one[0])))
    return [{"source": source, "by": by, "documents": count} for (source, by), count in ordered[:REMOVERS]]

"""Model of a run: rows -> bytes stored and shuffled, tasks, memory, hours and money, stage by stage.

    signatures, identical, buckets, templates, candidates, edges, components, uncompared, representatives, output

Stages are those of `dedup.layers.near.layer`, with the schemas of its shuffles, and the layer passages. The module
`dedup.plan.shuffles` tells what the verbs of an engine move; partitions and broadcasts follow the engine's own numbers.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from dedup.engine import placement
from dedup.kernels.components import DRIVER_EDGES
from dedup.kernels.sets import sketch
from dedup.kernels.sets.lsh import DRAWN_PAIRS, SAMPLED_PAIRS
from dedup.layers import cutting, repeats
from dedup.layers.near import buckets, comparison, election, signing, templates
from dedup.plan.profile import CorpusProfile, Counts, Trial
from dedup.plan.rates import Rates
from dedup.plan.rows import count_rows
from dedup.plan.shuffles import (
    ID_BYTES,
    PLACE_BYTES,
    ROW_BYTES,
    Item,
    compare,
    fetch,
    group,
    ids,
    join,
    width,
)
from dedup.settings.options import Config
from dedup.tables import arrow

REGISTER, REMOVALS = arrow.register(pa.string()), arrow.removals(pa.string())
SIGNATURES = signing.signatures(pa.string())
INPUT_SPLIT_BYTES = 128 << 20
"""Input of one task: Spark's `spark.sql.files.maxPartitionBytes`."""
FOREST_BYTES = 270
"""Bytes that GraphFrames shuffles for an edge of the forest, in all its rounds: `scripts/bench`, graphframes less
driver."""
TOLD_BYTES = 26
"""Bytes after LZ4 of a row of TOLD: a document, a mark of 16 bytes, and small numbers."""
PASSAGES = (
    ("grams selected", repeats.GRAMS, "grams", 0.67),
    ("grams that occur twice", repeats.SHARED, "shared_grams", 0.5),
    ("windows in question", repeats.WINDOWS, "asked_windows", 0.6),
    ("windows that occur twice", repeats.REPEATED, "repeated_windows", 0.4),
    ("places of pieces", cutting.RANGES, "places", 0.18),
)
"""Rows that the layer passages shuffles: a schema, the count, and the share that LZ4 leaves of the schema's bytes."""
PLACED_BYTES = 12
"""Bytes of a gram or window with its place, as the layer stores them."""
RANKED_BYTES = 11
"""Bytes after LZ4 of a window sent to its document: a hash and its place."""
DIGESTED_BYTES = 150
"""Bytes after LZ4 of the digest of a piece's tokens, with ids and the beginning of a text."""
GONE_BYTES = 5
"""Bytes after LZ4 of the place of a row that goes, sent to its file: 5.2 to 5.9 in runs of three corpora."""
KIND_BYTES = 8
"""Bytes of the kind of a row, as it is stored."""
EDGE_MEMORY = 64
"""Memory of the driver for each edge it connects: 16 bytes, and a few times that at the peak."""


class StageCost(NamedTuple):
    """Cost of one stage."""

    name: str
    shuffle: list[Item]
    tables: list[Item]
    """Tables written to OUT.partial."""
    partitions: int
    core_seconds: float


class Plan(NamedTuple):
    """Rows of a run, and the cost of its stages."""

    rows: Counts
    stages: list[StageCost]
    engine: str
    """Engine that finds the components."""
    driver_bytes: float
    """Memory of the driver for edges."""


def measure(stages: Iterable[StageCost]) -> dict[str, float]:
    """Return the sums over stages of the bytes of tables and shuffles, and of core hours."""
    stages = list(stages)
    return {
        "table_bytes": math.fsum(item.bytes for stage in stages for item in stage.tables),
        "shuffle_bytes": math.fsum(item.bytes for stage in stages for item in stage.shuffle),
        "core_hours": math.fsum(stage.core_seconds for stage in stages) / 3600,
    }


def plan(
    config: Config,
    corpus: CorpusProfile,
    cores: int,
    rates: Rates,
    *,
    trial: Trial | None = None,
    counts: Counts | None = None,
) -> Plan:
    """Return the cost of a run on so many cores, partitioned and broadcast as the engine would.

    Parameters
    ----------
    trial, counts
        As for `count_rows`.
    """
    rows = count_rows(config, corpus, trial, counts)
    model = Model(config=config, corpus=corpus, rows=rows, cores=cores, rates=rates)
    links, engine = model.choose_engine()
    return Plan(rows, model.list_stages(), engine, EDGE_MEMORY * links if engine == "driver" else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Rows of a run, and what its stages make of them."""

    config: Config
    corpus: CorpusProfile
    rows: Counts
    cores: int
    rates: Rates

    @property
    def text_bytes(self) -> float:
        """Bytes of all texts."""
        return self.rows["documents"] * self.corpus.text_bytes

    def list_stages(self) -> list[StageCost]:
        """Return the stages in order."""
        rows = self.rows
        return [
            self._sign(),
            self._collapse(),
            self._bucket(),
            *([self._link()] if rows["hot"] else []),
            self._pair(),
            self._verify(),
            self._connect(),
            *([self._sample()] if rows["uncompared"] else []),
            self._elect(),
            *([self._find_passages()] if "reaching" in rows else []),
            self._write(),
        ]

    def choose_engine(self) -> tuple[float, str]:
        """Return the edges that are connected, and what finds the components."""
        links, engine = self.rows["edges"] + self.rows["identical"], self.config.components.engine
        forest = min(links, self.rows["members"])
        if engine == "auto":
            engine = "driver" if forest <= DRIVER_EDGES else "graphframes"
        return (forest if engine == "graphframes" or links > DRIVER_EDGES else links), engine

    @property
    def _tasks(self) -> int:
        """Tasks that read all texts."""
        return math.ceil(self.text_bytes / INPUT_SPLIT_BYTES)

    @property
    def _sketches(self) -> Item:
        """Parts of the sketch of the corpus, one of each task that signs."""
        tasks = self._tasks
        share = sketch.choose_bound(self.text_bytes) / sketch.ALL
        pairs = self.rows["documents"] * self.corpus.shingles * share / tasks
        return Item("sketches", tasks, 8 * min(sketch.KEPT, pairs))

    def _row(self, schema: pa.Schema, *names: str, **varying: float) -> float:
        """Return the bytes of a shuffled row of Spark with these columns of a schema."""
        return ROW_BYTES + width(pa.schema([schema.field(name) for name in names]), id=self.corpus.id_bytes, **varying)

    def _sign(self) -> StageCost:
        corpus, rates, documents, (bands, size) = self.corpus, self.rates, self.rows["documents"], self.config.banding
        each = width(SIGNATURES, id=corpus.id_bytes, band_keys=8 * bands, signature=bands * size)
        sampled = min(documents, placement.SAMPLE_BYTES / max(corpus.text_ratio * corpus.text_bytes, 1.0))
        return StageCost(
            "signatures",
            group("document ids", arrow.integers("doc_id"), documents, self.cores),
            [
                Item("documents", documents, each),
                Item("tokens of a sample", sampled, 4 * corpus.tokens),
                self._sketches,
            ],
            max(self.cores, self._tasks),
            self.text_bytes * rates.text_byte + documents * bands * size * rates.row,
        )

    def _collapse(self) -> StageCost:
        documents, schema = self.rows["documents"], buckets.COLLAPSE.emitted
        return StageCost(
            "identical",
            group("digests", schema, documents, self.cores),
            [Item("identical documents", self.rows["identical"], width(buckets.IDENTICAL))],
            placement.place_rows(len(schema), documents, self.cores),
            documents * self.rates.identical,
        )

    def _bucket(self) -> StageCost:
        rows, schema, bands = self.rows, buckets.BUCKET.emitted, self.config.banding.bands
        keys, expected = rows["heads"] * bands, rows["documents"] * bands
        partitions = placement.place_rows(len(schema), expected, self.cores)
        sent = group("band keys", schema, keys, self.cores, each=width(schema, doc_id=ids(bands, partitions)))
        every = Item(
            "documents, to leave out identical ones",
            rows["documents"],
            self._row(SIGNATURES, "doc_id", "band_keys", band_keys=8 * bands),
        )
        gone = Item("identical documents", rows["identical"], ROW_BYTES + ID_BYTES)
        return StageCost(
            "buckets",
            [*join(rows["identical"], width(buckets.IDENTICAL), every, gone), *sent],
            [
                Item("buckets", rows["buckets"], width(arrow.BUCKETS)),
                Item("members", rows["memberships"], width(templates.MEMBERS)),
            ],
            partitions,
            keys * self.rates.bucketed,
        )

    def _link(self) -> StageCost:
        """Plan the comparison in place of buckets over the cap: docs/internals/templates.md."""
        rows, rates, cores, schema = self.rows, self.rates, self.cores, templates.SLOTTED
        hot, shingles, undecided = rows["hot"], rows["hot_shingles"], rows["undecided"]
        shuffle = [
            *group("members of buckets over the cap", templates.DISTINCT.emitted, hot, cores),
            *fetch("members", hot, rows["documents"]),
            *group("undecided members", templates.DISTINCT.emitted, undecided, cores),
        ]
        if 8 * shingles > placement.COLLECTABLE_BYTES:
            told = group("told of these", templates.TOLD, shingles, cores, each=TOLD_BYTES)
            shuffle += [*group("shingles", schema, shingles, cores), *told]
        return StageCost(
            "templates",
            shuffle,
            [
                Item("members", hot, width(templates.MEMBERS)),
                Item("shingle sets", hot, width(signing.SETS, shingles=8 * shingles / hot)),
                Item("pairs in their place", rows["linked"], width(arrow.BUCKETS, doc_ids=16)),
                Item("undecided members", undecided, 2 * width(templates.MEMBERS)),
            ],
            placement.place_rows(len(schema), shingles, cores),
            hot * self.corpus.text_bytes * (rates.scanned_byte + rates.text_byte)
            + shingles * rates.bucketed
            + rows["linked"] * rates.pair,
        )

    def _estimate(self, pairs: Item, distinct: float, among: float) -> tuple[list[Item], placement.Meeting]:
        """Return what travels where pairs meet the signatures of their documents, and how these are placed."""
        rows, (bands, size) = self.rows, self.config.banding
        members, documents = rows["memberships"] + 2 * rows["linked"], rows["documents"]
        meeting = placement.place_cells(
            pairs.number + members, members, documents, documents * (8 + bands * size), self.cores
        )
        named, given = (Item("documents", each, rows["signature_bytes"]) for each in (among, documents))
        return compare(pairs, distinct, named, given, meeting, cores=self.cores), meeting

    def _pair(self) -> StageCost:
        rows = self.rows
        pairs = Item("pairs", rows["pairs"] + rows["linked"], rows["pair_bytes"])
        moved, meeting = self._estimate(pairs, rows["distinct"], rows["bucketed"])
        return StageCost(
            "candidates",
            moved,
            [Item("candidates", rows["candidates"], width(comparison.CANDIDATES))],
            meeting.cells,
            rows["heads"] * self.rates.signature + rows["pairs"] * self.rates.pair,
        )

    def _compare(self, pairs: Item, named: Item) -> tuple[list[Item], placement.Meeting]:
        """Return what travels where pairs meet the shingle sets of the documents named, and how these are placed."""
        rows, sets = self.rows, self.rows["sets"]
        meeting = placement.place_cells(pairs.number, 2 * pairs.number, sets, 8 * rows["set_shingles"], self.cores)
        given = Item("documents", sets, rows["set_bytes"])
        return compare(pairs, pairs.number, named, given, meeting, cores=self.cores), meeting

    def _verify(self) -> StageCost:
        rows, rates, cores = self.rows, self.rates, self.cores
        candidates, misses, made = rows["candidates"], 2 * rows["near_misses"], rows["sets"] - rows["hot"]
        pairs = Item("pairs", candidates, rows["candidate_bytes"])
        moved, meeting = self._compare(pairs, Item("documents", rows["ends"], rows["set_bytes"]))
        read = fetch("documents of candidates", made, rows["documents"])
        shingles = max(rows["set_shingles"] - rows["hot_shingles"], 0) / max(made, 1)
        ranked, named = (
            group(what, shuffle.emitted, misses, cores, each=width(shuffle.emitted) * rows["candidate_bytes"] / 16)
            for what, shuffle in (
                ("near misses by document", comparison.rank_near_misses(self.config.threshold)),
                ("near misses", comparison.NAME_DISTANCES),
            )
        )
        return StageCost(
            "edges",
            [
                *group("ends of candidates", templates.DISTINCT.emitted, rows["ends"], cores),
                *read,
                *moved,
                *ranked,
                *named,
            ],
            [
                Item("documents of candidates", rows["ends"], width(templates.MEMBERS)),
                Item("shingle sets", made, width(signing.SETS, shingles=8 * shingles)),
                Item("edges and near misses", rows["edges"] + misses, width(arrow.EDGES)),
            ],
            meeting.cells,
            self.text_bytes * rates.scanned_byte
            + sum(each.bytes for each in read[:-1]) * rates.shuffled_byte
            + made * self.corpus.text_bytes * rates.text_byte
            + candidates * rates.comparison,
        )

    def _connect(self) -> StageCost:
        links, engine = self.choose_engine()
        is_spread = engine == "graphframes"
        return StageCost(
            "components",
            [Item("edges, all rounds", links, FOREST_BYTES)] if is_spread else [],
            [Item("members", self.rows["members"], width(arrow.COMPONENTS))],
            self.cores if is_spread else 1,
            links * self.rates.edge,
        )

    def _sample(self) -> StageCost:
        """Plan the comparison of a sample of the pairs left out by circles."""
        rows, undecided, uncompared = self.rows, self.rows["undecided"], self.rows["uncompared"]
        every = undecided * (undecided - 1) / 2
        # Distinct ones of pairs drawn from all of undecided documents.
        drawn = -every * math.expm1(-min(uncompared, DRAWN_PAIRS) / every) if every > 0 else 0.0
        # As many of them may be similar as of the pairs of buckets.
        possible = drawn * rows["candidates"] / max(rows["distinct"], 1)
        sampled = min(possible, SAMPLED_PAIRS)
        # Of pairs drawn the left ids follow themselves, the right ones are any.
        looked, _ = self._estimate(Item("pairs drawn", drawn, ID_BYTES), drawn, undecided)
        pairs = Item("pairs", sampled, width(comparison.PAIRS))
        moved, meeting = self._compare(
            pairs, Item("documents", min(undecided, 2 * sampled), rows["undecided_set_bytes"])
        )
        return StageCost(
            "uncompared",
            [*looked, *moved],
            [
                Item("pairs drawn", possible, width(comparison.CANDIDATES)),
                Item("pairs", sampled, width(comparison.PAIRS)),
            ],
            meeting.cells,
            drawn * self.rates.pair + sampled * self.rates.comparison,
        )

    def _elect(self) -> StageCost:
        rows, schema, id_bytes = self.rows, election.members(pa.string()), self.corpus.id_bytes
        members, edges, distant = rows["members"], rows["edges"], rows["distant"]
        voter = self._row(election.voters(pa.string()), "component_id", "id")
        found = Item("members and edges, to be found", 2 * members + edges, ROW_BYTES + ID_BYTES)
        pairs = Item("distant pairs", distant, width(comparison.PAIRS))
        moved, _ = self._compare(pairs, Item("documents", rows["distant_ends"], rows["distant_set_bytes"]))
        each = width(schema, id=id_bytes, representative_id=id_bytes, component=id_bytes, kind=KIND_BYTES)
        # What components ask for, as they elect and by itself, and the answers.
        asked = 2 * width(election.ASKED, kind=KIND_BYTES) + width(arrow.EDGES)
        return StageCost(
            "representatives",
            [
                Item("members", members, voter),
                Item("edges", edges, ROW_BYTES + ID_BYTES + rows["candidate_bytes"] / 2),
                *join(
                    members,
                    width(arrow.COMPONENTS),
                    Item("documents, to find members", rows["documents"], voter),
                    found,
                ),
                # Even one such pair is met by all small sets.
                *(item._replace(number=item.number * -math.expm1(-distant)) for item in moved),
            ],
            [Item("members", members, each), Item("distant pairs", distant, asked)],
            placement.place_rows(None, members + edges, self.cores),
            members * self.rates.member,
        )

    def _find_passages(self) -> StageCost:
        """Plan the layer of passages, which moves grams, windows and pieces, never pairs."""
        rows, rates, reaching, id_bytes = self.rows, self.rates, self.rows["reaching"], self.corpus.id_bytes
        counts = {**rows, "places": 2 * rows["pieces"]}
        digests = Item("digests of pieces, thrice", 6 * rows["pieces"], DIGESTED_BYTES)
        shuffle = fetch("documents with grams that occur twice", rows["asked"], reaching)
        for what, schema, name, left in PASSAGES:
            shuffle += group(what, schema, counts[name], self.cores, each=left * width(schema))
        # Integers order documents by themselves; others are ranked together with their windows.
        ranked = [Item("windows to be ranked", rows["asked_windows"], RANKED_BYTES)] if id_bytes != ID_BYTES else []
        text_bytes = reaching * self.corpus.text_bytes
        return StageCost(
            "passages",
            [*shuffle, *ranked, digests],
            [
                Item("documents", reaching, width(REGISTER, id=id_bytes)),
                Item("grams and windows", rows["grams"] + rows["asked_windows"], PLACED_BYTES),
                digests,
            ],
            max(self.cores, math.ceil(text_bytes / INPUT_SPLIT_BYTES)),
            rows["tokens"] * rates.token
            + rows["repeated_windows"] * rates.window
            + text_bytes * rates.scanned_byte * (1 + rows["asked"] / reaching),
        )

    def _write(self) -> StageCost:
        rows, id_bytes = self.rows, self.corpus.id_bytes
        documents, removed, pairs = rows["documents"], rows["removed"], rows["edges"] + rows["near_misses"]
        named = ROW_BYTES + ID_BYTES + id_bytes
        moved = join(
            removed,
            width(REMOVALS, id=id_bytes, representative_id=id_bytes, component_id=id_bytes),
            Item("documents, to find those that go", documents, named + PLACE_BYTES),
            Item("documents that go", removed, named),
        )
        # Integers are their own document ids.
        if id_bytes != ID_BYTES:
            ends = Item("pairs, to be named at both ends", 2 * pairs, named)
            moved += join(pairs, math.inf, Item("documents, to name pairs", documents, named), ends)
        moved_bytes = sum(each.bytes for each in moved)
        each = width(REGISTER, id=id_bytes) + width(REMOVALS, id=0, representative_id=id_bytes, component_id=id_bytes)
        return StageCost(
            "output",
            [*moved, Item("rows that go, to their files", removed, GONE_BYTES), self._sketches],
            [Item("rows that go", removed, each)],
            max(1, self._tasks),
            self.text_bytes * self.rates.written_byte + moved_bytes * self.rates.shuffled_byte,
        )

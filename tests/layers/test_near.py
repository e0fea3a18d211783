"""The layer near, on an engine of hostile batches and partitions, against plain Python."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.layers.holders import HELD
from dedup.layers.near.buckets import SHARE, choose_prefixes
from dedup.layers.near.election import PAIRED, to_voters, voters
from dedup.tables.counts import Lost
from tests.engine import Row, make_layer
from tests.engine.oracle import Expected
from tests.engine.test_memory import corpora, searches
from tests.layers.tiny import TinyEngine


def make_engine(rows: list[Row], search, seed, collectable):
    names = [name for name, _ in search.rules if name in {"highest", "lowest"}]
    keys = {
        row.id: [float("nan") if row.value is None else row.value * (-1 if name == "highest" else 1) for name in names]
        for row in rows
    }
    return TinyEngine(
        [(row.id, row.text) for row in rows],
        pa.string() if isinstance(rows[0].id, str) else pa.int64(),
        keys=keys,
        rules=search.rules,
        seed=seed,
        partitions=1 + seed % 4,
        sources=[row.source for row in rows],
        collectable=collectable,
    )


def rows_of(table, *names):
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


@settings(max_examples=2 * settings().max_examples)
@given(
    rows=corpora().filter(bool),
    search=searches,
    shingle_size=st.integers(1, 3),
    seed=st.integers(0, 2**16),
    holds=st.sampled_from(["none", "crowds", "all"]),
    collectable=st.sampled_from([0, 1 << 62]),
)
def test_finds_what_plain_python_finds(*, rows, search, shingle_size, seed, holds, collectable):
    engine = make_engine(rows, search, seed, collectable)
    found = make_layer(search, shingle_size, holds=holds).find(engine)
    # An exact search counts a shingle for each document that has it, the others for each row.
    rows = rows if search.mode == "lsh" else [*{row.doc_id: row for row in rows}.values()]
    expected, counts, tables = Expected(rows, search, shingle_size), found.counts, engine.counted

    assert rows_of(tables["identical"], "doc_id", "set_id") == expected.identical
    bucketed = counts.bucketed
    assert bucketed.sizes == dict(sorted(Counter(map(len, expected.buckets.values())).items()))
    assert (bucketed.rows, bucketed.members) == (len(expected.buckets), sum(map(len, expected.buckets.values())))
    if search.mode == "lsh":
        assert bucketed.band_rows == expected.band_rows
    assert rows_of(tables["candidates"], "left_id", "right_id", "estimate") == [
        (*pair, estimate) for pair, estimate in sorted(expected.candidates.items())
    ]
    paired = counts.paired
    assert (paired.pairs_in_buckets, paired.pairs_uncompared) == (expected.in_buckets, expected.uncompared)
    assert (paired.pairs_settled, paired.pairs_distinct) == (expected.settled, len(expected.distinct))
    assert paired.pairs_after_length == expected.after_length
    edges = [(*pair, similarity) for pair, similarity in expected.edges.items()]
    same = [(head, one, 1.0) for one, head in expected.identical]
    assert rows_of(found.edges, "left_id", "right_id", "jaccard") == sorted(edges + same)
    assert rows_of(found.near_misses, "left_id", "right_id", "jaccard") == sorted(
        (*pair, value) for pair, value in expected.near_misses.items()
    )
    assert counts.verified.rows == len(edges)
    assert counts.verified.compared == len(edges) + len(expected.near_misses)
    assert sum(counts.verified.similarities) == counts.paired.rows == len(expected.candidates)
    assert rows_of(tables["components"], "doc_id", "component_id") == sorted(expected.components.items())
    members = {one: told for one, told in expected.members.items() if told[4] != "kept"}
    assert rows_of(found.removals, "doc_id", "id", "kind", "representative_id", "component_id", "jaccard") == sorted(
        (one, told[0], told[4], told[2], expected.ids[told[3]], told[5]) for one, told in members.items()
    )
    assert rows_of(found.kept, "doc_id") == sorted((one,) for one in expected.members.keys() - members.keys())
    lost = expected.lose()
    assert counts.lost == lost or counts.lost == replace(Lost(), documents=lost.documents)
    elected = counts.elected
    assert elected.rows == counts.connected.rows == len(expected.members)
    assert (elected.near, elected.distant, elected.spared) == (expected.near, expected.distant, len(expected.spared))
    assert (elected.chained, elected.least, elected.removed) == (expected.chained, expected.least, expected.removed)
    assert elected.relinked == expected.relinked
    assert (elected.rules, elected.similarities) == (expected.rules, expected.similarities)
    assert [tuple(each.values()) for each in elected.doubtful] == expected.doubtful
    assert (elected.parted, elected.joined) == (expected.parted, expected.joined)
    assert elected.sizes == dict(sorted(Counter(map(len, expected.families.values())).items()))
    assert [*elected.largest] == expected.largest()


def find_prefixes(sets, threshold):
    """Return the shingles of the prefix of each set."""
    rows = [(shingle, doc_id, len(members)) for doc_id, members in enumerate(sets) for shingle in members]
    held = pa.Table.from_arrays([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], schema=HELD)
    engine = TinyEngine([])
    shared = engine.group("shared", held, replace(SHARE, emit=None))
    found = engine.group("prefixes", shared, choose_prefixes(threshold)).to_pylist()
    return [sorted(row["key"] for row in found if row["doc_id"] == doc_id) for doc_id in range(len(sets))]


def test_a_product_a_little_above_a_whole_number_does_not_shorten_a_prefix():
    # .56 x 25 is 14.000000000000002: the prefix has 25 - 14 + 1 shingles.
    assert find_prefixes([range(25), range(25)], 0.56) == [[*range(12)]] * 2


def test_a_shingle_of_one_set_takes_its_place_in_the_prefix():
    assert find_prefixes([[1, 2, 3, 4, 5], [1, 2, 3, 4, 9], [7]], 0.6) == [[1, 2], [1, 2], []]


def test_pairs_have_no_null_lists_which_spark_would_walk_for_every_row():
    pairs = pa.record_batch([[1, 2], [3, 4], [0.9, 0.8], [1, 1]], schema=PAIRED)

    (rows,) = to_voters([pairs], schema=voters(pa.int64()))

    assert rows.select(PAIRED.names) == pairs
    lists = [field.name for field in rows.schema if pa.types.is_list(field.type)]
    assert {name: rows[name].to_pylist() for name in lists} == {name: [[], []] for name in lists} != {}
    assert all(rows[name].null_count == 2 for name in {*rows.schema.names} - {*lists, *PAIRED.names})

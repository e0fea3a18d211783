"""A batch is the same whatever engine adds it, one that parts batches and rows as no other would among them."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dedup.store.outcome import tell
from dedup.store.tables import Tables
from tests.layers.tiny import TinyEngine
from tests.store import bring, list_edges, list_members
from tests.store.test_equality import cut, make_rows, searches
from tests.strategies import runs


def open_tiny(rows, search, seed):
    """Return the engine of a batch, most of whose calls receive two or three rows."""
    names = [name for name, _ in search.rules if name in {"highest", "latest", "lowest", "earliest"}]
    signs = [-1 if name in {"highest", "latest"} else 1 for name in names]
    keys = {row.id: [sign * (float("nan") if row.value is None else row.value) for sign in signs] for row in rows}
    texts = [(row.id, row.text) for row in rows]
    return TinyEngine(
        texts,
        sources=[row.source for row in rows],
        keys=keys,
        rules=search.rules,
        seed=seed,
        is_placed=True,
        collectable=100 * (seed % 3),
    )


def describe(brought, threshold):
    """Return what a batch says of itself, less examples of components, of which several are equally large."""
    engine, signed, grown = brought
    told = tell(engine, grown, signed, threshold)
    found, counts = told.found, told.counts
    tables = (found.removals, found.kept, found.edges, found.near_misses, told.changes)
    elected = replace(counts.elected, largest=())
    rest = (counts.signed, counts.collapsed, counts.paired, counts.verified.rows, counts.lost, elected)
    return [sorted(map(repr, table.to_pylist())) for table in tables], rest


@runs(2)
@given(seed=st.integers(0, 2**32), search=searches)
def test_batches_of_a_hostile_engine_are_those_of_the_memory_engine(tmp_path_factory, seed, search):
    one, other = (Tables(str(tmp_path_factory.mktemp("store"))) for _ in range(2))
    chance = Random(seed)
    for number, part in enumerate(cut(make_rows(seed, count=6), chance, most=4)):
        anew = chance.random() < 0.5
        engine = open_tiny(part, search, chance.randrange(100))
        plain = bring(one, f"{number}", part, search, anew=anew)
        tiny = bring(other, f"{number}", part, search, anew=anew, engine=engine)
        assert describe(tiny, search.threshold) == describe(plain, search.threshold)
        for each in (plain, tiny):
            each.grown.finish("add")
        assert list_edges(other) == list_edges(one)
        assert list_members(other) == list_members(one)

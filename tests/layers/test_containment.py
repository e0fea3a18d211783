"""The layer of containment, held against comparing all sets with all."""

import math
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers import inclusion
from dedup.layers.containment import Containment, ContainmentLayer
from dedup.layers.copies import Choice
from tests.conftest import PROFILE
from tests.layers.tiny import TinyEngine, run
from tests.oracles import tokens

CHOICE = Choice(rules=[("smallest_id", "")], per_source=0)
WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=12, unique=True)
DOCUMENTS = st.lists(st.one_of(WORDS, st.lists(st.sampled_from("abc"), max_size=3)), max_size=8)


def make_layer(choice=CHOICE, shingle_size=1, max_larger=150, **settings):
    return ContainmentLayer(
        settings=Containment(**{"min_shingles": 1} | settings),
        tokenizer=UnicodeWords(),
        shingle_size=shingle_size,
        most=max_larger,
        choice=choice,
    )


def find(texts, choice=CHOICE, shingle_size=1, sources=None, ids=None, **settings):
    return run(make_layer(choice, shingle_size, **settings), texts, sources=sources, ids=ids)


def shingle_of(word):
    """Return the hash of a shingle of one word, as it is sorted by."""
    [only] = inclusion.shingle_batch(
        pa.RecordBatch.from_pydict({"text": [word]}), shingle_size=1, tokenizer=UnicodeWords()
    )["shingles"].to_pylist()
    return int.from_bytes(only, "little", signed=True)


def list_removed(found):
    """Return what goes, in favour of what, with their Jaccard."""
    return {row["id"]: (row["representative_id"], row["jaccard"]) for row in found.removals.to_pylist()}


def compare_all(sets, threshold, least, rank):
    """Return the same by the definition."""
    stays, removed = [], {}
    for one in sorted(range(len(sets)), key=lambda one: (-len(sets[one]), rank(one))):
        mine = sets[one]
        holders = [
            other
            for other in stays
            if len(mine) >= least and mine and len(mine & sets[other]) / len(mine) >= threshold - 1e-9
        ]
        if holders:
            other = min(holders, key=rank)
            removed[one] = (other, len(mine & sets[other]) / len(mine | sets[other]))
        else:
            stays.append(one)
    return removed


@given(
    documents=DOCUMENTS,
    threshold=st.sampled_from([0.1, 0.5, 2 / 3, 0.8, 1.0]),
    least=st.integers(1, 4),
    rule=st.sampled_from(["smallest_id", "shortest"]),
)
def test_what_goes_is_what_comparing_all_with_all_finds(documents, threshold, least, rule):
    texts = [" ".join(words) for words in documents]
    choice = Choice(rules=[(rule, "")], per_source=0)
    found = find(texts, choice, threshold=threshold, min_shingles=least)

    def rank(one):
        return (len(texts[one]) if rule == "shortest" else 0, one)

    assert list_removed(found) == compare_all([set(words) for words in documents], threshold, least, rank)
    assert found.details["uncompared"] == {"pairs_at_most": 0, "documents_at_most": 0}


def shingles_of(text, size):
    words = tokens(text)
    return {tuple(words[place : place + size]) for place in range(max(len(words) - size + 1, 1))} if words else set()


def test_quotes_and_parts_are_found_within_larger_documents():
    rng = Random(1)
    words = [f"w{n}" for n in range(3000)]
    articles = [rng.choices(words, k=200) for _ in range(20)]
    parts = [article[20:100] for article in articles[:8]]
    mixed = [[*article[:60], *rng.choices(words, k=5)] for article in articles[8:14]]
    texts = [" ".join(each) for each in (*articles, *parts, *mixed)]
    found = find(texts, shingle_size=5, threshold=0.8, min_shingles=20)
    expected = compare_all([shingles_of(text, 5) for text in texts], 0.8, 20, lambda one: one)
    assert list_removed(found) == expected
    assert sorted(expected) == list(range(20, 34))
    assert found.details["contained"] == 14
    assert found.details["compared"] < 60


def test_of_a_hot_shingle_the_largest_are_compared_and_the_bound_holds():
    rng = Random(2)
    halves = [[f"{half}{n}" for n in range(20)] for half in "xy"]
    own = ([f"{number}_{n}" for n in range(rng.randint(60, 90))] for number in range(60))
    documents = [[*half, *next(own)] for half in halves for _ in range(20)]
    documents += [[*halves[0], *halves[1], *next(own)[: rng.randint(1, 9)]] for _ in range(12)]
    texts, sets = [" ".join(words) for words in documents], [set(words) for words in documents]
    exact = find(texts, threshold=0.75, max_larger=1000)
    assert list_removed(exact) == compare_all(sets, 0.75, 1, lambda one: one)
    assert exact.details["uncompared"] == {"pairs_at_most": 0, "documents_at_most": 0}
    for most in (1, 5, 20) if PROFILE == "full" else (1, 20):
        few = find(texts, threshold=0.75, max_larger=most)
        assert few.details["compared"] < exact.details["compared"]
        stays = [one for one in range(len(texts)) if one not in list_removed(few)]
        contained = {
            one
            for one in stays
            for other in stays
            if (len(sets[one]), -one) < (len(sets[other]), -other)
            if len(sets[one] & sets[other]) >= 0.75 * len(sets[one])
        }
        assert 0 < len(contained) <= few.details["uncompared"]["documents_at_most"]
        assert few.details["uncompared"]["pairs_at_most"] > 0


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_chain_of_inclusions_needs_no_square(shuffled):
    words = [f"w{number}" for number in range(120)]
    travelled = {}
    for count in (25, 50, 100):
        texts = [" ".join(words[: 20 + number]) for number in range(count)]
        order = Random(count).sample(range(count), count) if shuffled else range(count)
        engine = TinyEngine([(number, texts[place]) for number, place in enumerate(order)], size=40)
        found = make_layer(threshold=0.9).find(engine)
        longest = list(order).index(count - 1)
        assert {row["representative_id"] for row in found.removals.to_pylist()} == {longest}
        assert found.removals.num_rows == found.details["compared"] == count - 1
        travelled[count] = sum(engine.emitted.values()) / sum(20 + number for number in range(count))
    # Rows for each shingle: the longer a document, the more of its shingles may be missing in another.
    assert travelled[100] < 1.3 * travelled[25]


def test_of_copies_each_is_compared_with_the_first_by_the_order():
    last = Choice(rules=[("source", "z")], per_source=0)
    texts, sources = ["a b c d e f g h"] * 20, ["a"] * 20
    sources[12] = "z"
    for most in (1, 5, 150):
        found = find(texts, last, sources=sources, max_larger=most)
        assert {each for each, _ in list_removed(found).values()} == {12}
        assert found.details["compared"] == len(list_removed(found)) == 19


@given(
    documents=st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=4, unique=True), min_size=6, max_size=14),
    most=st.integers(1, 4),
    threshold=st.sampled_from([0.5, 0.75, 1.0]),
)
@settings(max_examples=settings().max_examples if PROFILE == "full" else 12)
def test_of_many_holders_those_count_that_are_first_in_the_order_of_election(documents, most, threshold):
    # By the definition: prefixes, the first holders of each of their shingles, and the election.
    sets = [set(words) for words in documents]
    order = sorted(range(len(sets)), key=lambda one: (-len(sets[one]), one))
    pairs = set()
    for one in order:
        mine = {word: [other for other in order if word in sets[other]] for word in sets[one]}
        shared = sorted(
            (word for word in mine if len(mine[word]) > 1), key=lambda word: (len(mine[word]), shingle_of(word))
        )
        needed = max(math.ceil(threshold * len(mine) - 1e-9), 1)
        taken = len(mine) - needed + 1 - (len(mine) - len(shared))
        for word in shared[: max(taken, 0)]:
            pairs |= {(one, other) for other in mine[word][: min(mine[word].index(one), most)]}
    stays, removed = [], {}
    for one in order:
        holders = [
            other
            for other in stays
            if (one, other) in pairs and len(sets[one] & sets[other]) >= threshold * len(sets[one]) - 1e-9
        ]
        if holders:
            removed[one] = min(holders)
        else:
            stays.append(one)
    found = list_removed(find([" ".join(words) for words in documents], threshold=threshold, max_larger=most))
    assert {one: other for one, (other, _) in found.items()} == removed


def test_equal_sets_leave_the_first_by_the_order_and_no_circle():
    texts = ["a b c d", "d c b a", "a b c d"]
    assert list_removed(find(texts)) == {1: (0, 1.0), 2: (0, 1.0)}
    last = Choice(rules=[("source", "z")], per_source=0)
    assert list_removed(find(texts, last, sources=["a", "z", "b"])) == {0: (1, 1.0), 2: (1, 1.0)}
    assert list_removed(find(["a b c d"] * 50, max_larger=2)).keys() == set(range(1, 50))


def test_nothing_goes_for_what_is_gone():
    # The first holds most of the second, the second most of the third, the first too little of the third.
    texts = ["a b c d e f g h 1 2 3", "a b c d e f g h x y", "a b c d x y"]
    assert list_removed(find(texts, threshold=0.8)) == {1: (0, 8 / 13)}
    assert list_removed(find(texts, threshold=1.0)) == {2: (1, 0.6)}


def test_what_is_within_another_that_goes_can_stay_and_others_go_for_it():
    # The second goes for the first; so the third, half of which it holds, stays, and the fourth goes for the third.
    assert list_removed(find(["a b", "a h", "h i", "d h"], threshold=0.5)) == {1: (0, 1 / 3), 3: (2, 1 / 3)}


def test_short_documents_stay():
    assert list_removed(find(["a b c", "a b c d"], min_shingles=4)) == {}
    assert list_removed(find(["a b c", "a b c d"], min_shingles=3)) == {0: (1, 0.75)}
    assert list_removed(find(["", "", "a"])) == {}


def test_a_component_is_known_by_its_least_document():
    rows = find(["a b", "b c", "a b c"]).removals.to_pylist()
    assert [(row["doc_id"], row["component_id"], row["kind"], row["layer"]) for row in rows] == [
        (0, 0, "contained", "containment"),
        (1, 0, "contained", "containment"),
    ]


@pytest.mark.parametrize(("per_source", "removed"), [(0, {0, 1, 2, 4}), (2, {0, 1, 4}), (1, {0, 4})])
def test_a_source_answers_for_few_documents_of_others(per_source, removed):
    choice = Choice(rules=[("smallest_id", "")], per_source=per_source)
    found = find(["a b", "b c", "c d", "a b c d", "d a"], choice, sources=["x", "y", "x", "z", "z"])
    assert list_removed(found).keys() == removed
    assert found.details["spared"] == 4 - len(removed)


def test_equal_rows_of_one_id_are_one_document():
    assert list_removed(find(["a b", "c", "a b"], ids=["x", "y", "x"])) == {}
    assert list_removed(find(["a b", "c a b", "a b"], ids=["x", "y", "x"])) == {"x": ("y", 2 / 3)}


def test_the_report_has_the_containments_compared():
    details = find(["a b c d", "a b c x y", "a b c d e"], threshold=0.75).details
    assert details["compared"] == sum(details["containments"])
    assert details["containments"][-1] == 1
    assert details["containments"][15] == 1

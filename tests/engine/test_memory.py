"""The memory engine against plain Python, in both modes and whatever the settings."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup.errors import DataError
from dedup.kernels.sets import lsh
from tests.engine import SEARCH, Corpus, Row, rows_of
from tests.engine.oracle import Expected
from tests.strategies import int64s
from tests.templates import make_family

RULES = [
    *(("smallest_id", ""), ("longest", ""), ("shortest", ""), ("source", "two"), ("source", "two,one")),
    *(("highest", "x"), ("lowest", "x")),
]
LARGE = 1 << 62
"""Of integers from 2^53 on, two in a row are one as floats."""
searches = st.builds(
    replace,
    st.just(SEARCH),
    threshold=st.sampled_from([0.1, 0.5, 0.7, 0.8, 1.0]),
    mode=st.sampled_from(["lsh", "exact"]),
    bands=st.integers(1, 6),
    rows=st.integers(1, 2),
    max_bucket=st.sampled_from([2, 3, 5, 150]),
    estimate_sigmas=st.sampled_from([0.0, 1.0, 100.0]),
    per_source=st.integers(0, 3),
    rules=st.lists(st.sampled_from(RULES), max_size=3).map(tuple),
    by_representative=st.booleans(),
    max_component=st.sampled_from([0, 0, 2, 5]),
)


@st.composite
def corpora(draw: st.DrawFn) -> list[Row]:
    """Families of near copies in any order, empty texts among them, some rows more than once."""
    chance = Random(draw(st.integers(0, 2**32)))
    texts = [""] * draw(st.integers(0, 2))
    for _ in range(draw(st.integers(0, 3))):
        words = [chance.choice("abcdefghijklmnop") for _ in range(chance.choice([1, 3, 8, 20, 40]))]
        for _ in range(chance.randint(1, 14)):
            edited = list(words)
            for _ in range(chance.randint(0, 3)):
                edited[chance.randrange(len(words))] = chance.choice("abcdefghijklmnopqrstuvw")
            texts.append(" ".join(edited))
    number = len(texts)
    ids = draw(
        st.one_of(
            st.lists(int64s, min_size=number, max_size=number, unique=True),
            st.lists(st.text("aZé\U0001f600\uffff", max_size=4), min_size=number, max_size=number, unique=True),
        )
    )
    sources = draw(st.lists(st.sampled_from(["one", "two", None]), min_size=number, max_size=number))
    values = draw(st.lists(st.sampled_from([None, -1.5, 0.0, 2.0]), min_size=number, max_size=number))
    rows = [Row(*values) for values in zip(ids, texts, sources, values, strict=True)]
    again = draw(st.lists(st.sampled_from(rows), max_size=4)) if rows and draw(st.booleans()) else []
    return draw(st.permutations(rows + again))


# A corpus takes 25 ms, and 30 of them met a rule that few need in one run of two.
@settings(max_examples=4 * settings().max_examples)
@given(corpora().filter(bool), searches, st.integers(1, 3))
def test_finds_what_plain_python_finds(rows, search, shingle_size):
    found = Corpus(rows, shingle_size).find(search)
    # An exact search counts a shingle for each document that has it, the others for each row.
    rows = rows if search.mode == "lsh" else [*{row.doc_id: row for row in rows}.values()]
    expected = Expected(rows, search, shingle_size)

    assert rows_of(found.identical) == expected.identical
    assert found.bucketed.sizes == dict(sorted(Counter(map(len, expected.buckets.values())).items()))
    assert found.bucketed.rows == len(expected.buckets)
    assert found.bucketed.members == sum(map(len, expected.buckets.values()))
    if search.mode == "lsh":
        assert found.bucketed.band_rows == expected.band_rows
    assert rows_of(found.candidates) == [(*pair, estimate) for pair, estimate in expected.candidates.items()]
    assert found.paired.pairs_in_buckets == expected.in_buckets
    assert found.paired.pairs_uncompared == expected.uncompared
    assert found.paired.pairs_settled == expected.settled
    assert found.paired.pairs_distinct == len(expected.distinct)
    assert found.paired.pairs_after_length == expected.after_length
    assert rows_of(found.edges) == [(*pair, similarity) for pair, similarity in expected.edges.items()]
    assert rows_of(found.near_misses) == sorted((*pair, value) for pair, value in expected.near_misses.items())
    assert sum(found.verified.similarities) == found.paired.rows == len(expected.candidates)
    assert rows_of(found.components) == sorted(expected.components.items())
    assert rows_of(found.members) == [
        (one, *told[:4], expected.ids[told[3]], *told[4:]) for one, told in sorted(expected.members.items())
    ]
    assert rows_of(found.spared) == expected.spared
    assert found.lost == expected.lose()
    assert found.elected.rows == found.connected.rows == len(expected.members)
    assert (found.elected.near, found.elected.distant) == (expected.near, expected.distant)
    assert found.elected.spared == len(expected.spared)
    assert (found.elected.chained, found.elected.least) == (expected.chained, expected.least)
    assert found.elected.relinked == expected.relinked
    assert found.elected.rules == expected.rules
    assert found.elected.removed == expected.removed
    assert found.elected.similarities == expected.similarities
    assert [tuple(each.values()) for each in found.elected.doubtful] == expected.doubtful
    assert found.elected.parted == expected.parted
    assert found.elected.joined == expected.joined
    if search.by_representative:
        assert found.elected.chained == 0
    assert found.elected.sizes == dict(sorted(Counter(map(len, expected.families.values())).items()))
    assert [*found.elected.largest] == expected.largest()


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [(1, 0), (LARGE, 1)]),
        ("left", [(None, None), (0, None), (1, 0), (LARGE, 1), (LARGE + 1, None)]),
        ("semi", [(1,), (LARGE,)]),
        ("anti", [(None,), (0,), (LARGE + 1,)]),
    ],
)
def test_a_key_that_is_null_has_no_partner_and_makes_no_other_less_exact(how, expected):
    rows = pa.table({"doc_id": [None, 0, 1, LARGE, LARGE + 1]})
    others = pa.table({"doc_id": [1, LARGE], "place": [0, 1]})

    found = Corpus([]).open(SEARCH).join(rows, others, "doc_id", how=how)
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    none = Corpus([]).open(SEARCH).join(rows, others.slice(2), "doc_id", how=how)
    assert none.num_rows == {"left": 5, "anti": 5}.get(how, 0)


def test_text_is_read_once_and_only_for_documents_that_need_it():
    text = " ".join(map(str, range(30)))
    texts = [text, text, f"{text} more", "", "else"]
    corpus = Corpus([Row(number, text) for number, text in enumerate(texts)])

    corpus.find(SEARCH)
    assert corpus.calls == [[0, 2]]
    corpus.find(replace(SEARCH, mode="exact"))
    assert corpus.calls[1:] == [[0, 2, 4]]
    corpus.find(SEARCH, [(0, 4)])
    assert corpus.calls[2:] == [[0, 2, 4]]


def test_pairs_that_may_be_lost_are_verified_in_proportion(monkeypatch):
    corpus = Corpus([Row(number, text) for number, text in enumerate(make_family(300, words=120, edits=2))])
    search = replace(SEARCH, max_bucket=8)
    monkeypatch.setattr(lsh, "SAMPLED_PAIRS", 10**9)
    every = corpus.find(search).lost
    monkeypatch.setattr(lsh, "SAMPLED_PAIRS", every.possible // 3)
    third = corpus.find(search).lost

    assert every.verified == every.possible > 1000
    assert every.lost > 20
    assert (third.drawn, third.possible) == (every.drawn, every.possible)
    assert abs(third.verified - every.possible / 3) < 5 * math.sqrt(every.possible * 2 / 9)
    assert abs(third.lost - every.lost / 3) < 5 * math.sqrt(every.lost * 2 / 9)


def test_recall_counts_the_labelled_pairs_that_are_joined_by_similarity():
    words = [f"w{number}" for number in range(30)]
    near, far = [*words[:-1], "else"], [*words[:12], *"abcdefghijklmnopqr"]
    texts = [" ".join(words), " ".join(words), " ".join(near), " ".join(far), "", ""]
    corpus = Corpus([Row(number, text) for number, text in enumerate(texts)])
    labels = [(0, 1), (1, 2), (2, 0), (0, 3), (4, 5), (3, 4), (0, 77), (0, None)]

    found = corpus.find(SEARCH, labels)

    points = [(point["jaccard"], point["pairs"], point["joined"]) for point in found.recall]
    assert points == [(0.0, 2, 0), (8 / 44, 1, 0), (25 / 27, 2, 2), (1.0, 1, 1)]
    assert found.recall[2]["recall"] == 1.0
    assert found.recall[2]["low"] < 0.5
    assert found.recall[2]["high"] == 1.0


@pytest.mark.parametrize("labels", [[], [(0, 9)], [(None, None)]])
def test_labels_of_other_documents_are_refused(labels):
    with pytest.raises(
        DataError, match=rf"labeled_pairs: must hold duplicates of .* \(got {len(labels)}, none with both"
    ):
        Corpus([Row(0, "a"), Row(1, "b")]).find(SEARCH, labels)

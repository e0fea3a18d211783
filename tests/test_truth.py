"""The exact answer of the corpus in tests/data, and what a judge says of outputs that are not it."""

from itertools import combinations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import oracles
from tests.truth import DATA, find_truth, judge, read_truth

WORDS = [f"word{number}" for number in range(17)]
TEXTS = {
    "a": " ".join(WORDS),
    "b": " ".join([*WORDS, "more"]),  # 13 of 14 shingles are those of a
    "c": " ".join([*WORDS[1:], "other", "end"]),  # 12 of 15 those of a, which is the threshold, of b 11 of 16
    "d": " ".join(WORDS).upper(),  # The set of a
    "e": "alone",
    "f": "",
    "g": "",
}
DOCUMENTS = pa.table({"doc_id": list(TEXTS), "text": list(TEXTS.values())})


@pytest.fixture(scope="module")
def history():
    return DATA / "history.parquet"


def test_the_exact_answer_stored_is_that_of_comparing_all(history):
    assert [table.to_pydict() for table in read_truth(history)] == [
        table.to_pydict() for table in find_truth(pq.read_table(history))
    ]


def test_every_pair_is_compared():
    _, pairs = find_truth(DOCUMENTS, floor=0.1)

    sets = {name: oracles.shingle_set(TEXTS[name], 5) for name in "abce"}
    similarities = {pair: float(oracles.jaccard(*(sets[name] for name in pair))) for pair in combinations(sets, 2)}
    assert {(row["a"], row["b"]): row["jaccard"] for row in pairs.to_pylist()} == {
        pair: similarity for pair, similarity in similarities.items() if similarity >= 0.1
    }


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ("aefg", {"kept": 4, "recall": 1, "missed": 0, "lost": 0, "strangers": 0}),
        # c resembles b by less than the threshold, but a by as much.
        ("befg", {"kept": 4, "recall": 1, "missed": 0, "lost": 0, "strangers": 0}),
        ("acefg", {"recall": 0.5, "missed": 0}),
        ("abefg", {"recall": 0.5, "missed": 1}),
        ("adefg", {"recall": 1, "missed": 1}),
        ("efg", {"lost": 4}),
        ("afg", {"lost": 1}),
        ("aef", {"lost": 1}),
        ("aaefgx", {"kept": 4, "strangers": 2}),
    ],
)
def test_an_output_is_judged_by_what_it_keeps(kept, found):
    verdict = judge(TEXTS, kept, *find_truth(DOCUMENTS))

    assert (verdict.documents, verdict.components) == (7, 4)
    assert {name: getattr(verdict, name) for name in found} == found
    assert verdict.holds(exact=True) == (kept in {"aefg", "befg"})

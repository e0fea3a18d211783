"""Documents held in the driver's memory, and the copies planted among them."""

import random

import numpy as np
import pyarrow as pa
import pytest

from dedup.errors import DataError
from dedup.evaluate.sample import assemble, plant
from dedup.kernels.sets import exact
from dedup.settings.files import load_config

CONFIG = load_config(None, None, ["input.id_column=id"])
WORDS = [f"word{number}" for number in range(500)]


def make_sample(texts, ids=None):
    doc_ids = [(7 * number) % 101 for number in range(len(texts))]
    ids = ids or [f"doc {number}" for number in doc_ids]
    return assemble(pa.table({"doc_id": doc_ids, "id": ids, "text": texts}), CONFIG, 126)


def make_texts(count=40, length=200):
    chance = random.Random(1)
    return [" ".join(chance.choices(WORDS, k=length)) for _ in range(count)]


def test_documents_lie_in_the_order_of_their_ids_and_keep_their_texts():
    texts = make_texts(5)
    sample = make_sample(texts)

    assert sample.doc_ids.tolist() == [0, 7, 14, 21, 28]
    assert [(sample.name(place), sample.read(place)) for place in range(5)] == [
        (f"doc {7 * number}", texts[number]) for number in range(5)
    ]


def test_two_documents_of_one_id_are_refused_and_equal_rows_are_one():
    table = pa.table({"doc_id": [1, 2, 1], "id": ["a", "b", "a"], "text": ["x", None, "y"]})

    with pytest.raises(DataError, match=r"'id' must be unique \(got 'a' more than once\)"):
        assemble(table, CONFIG, 126)

    sample = assemble(table, load_config(), 126)
    assert sample.ids.to_pylist() == ["a", "b"]
    assert sample.read(1) == ""


def test_planted_copies_spread_over_the_similarities():
    texts = [*make_texts(), "too short to copy", ""]
    sample = plant(make_sample(texts), 120)
    copies = np.flatnonzero(sample.sources >= 0)
    similarities = exact.compare(sample.sets, sample.sets, copies, sample.sources[copies])

    assert (sample.doc_ids.size, copies.size) == (162, 120)
    assert (np.diff(sample.doc_ids) > 0).all()
    counts, _ = np.histogram(similarities, bins=[0.2, 0.4, 0.6, 0.8, 1])
    # From .4 to 1, evenly.
    assert counts.sum() == 120
    assert np.abs(counts - [0, 40, 40, 40]).max() < 7
    # Each long text was copied three times, by three kinds of edits.
    sources, times = np.unique(sample.sources[copies], return_counts=True)
    assert times.tolist() == [3] * 40
    assert sample.name(int(copies[0])) == f"planted copy of {sample.name(int(sample.sources[copies[0]]))}"
    assert {sample.read(int(source)) for source in sources} == set(texts[:40])
    # The originals have the lesser ranks, so they are kept.
    ranks = sample.rank()
    assert ranks[copies].min() > np.delete(ranks, copies).max()


def test_copies_are_the_same_every_time():
    one, other = (plant(make_sample(make_texts()), 30) for _ in range(2))

    assert one.texts == other.texts
    assert one.doc_ids.tolist() == other.doc_ids.tolist()


def test_texts_without_spaces_are_edited_by_character():
    text = "".join(random.Random(2).choices("漢字仮名交文天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往", k=300))
    sample = plant(make_sample([text, text[::-1]]), 30)
    copies = np.flatnonzero(sample.sources >= 0)
    similarities = exact.compare(sample.sets, sample.sets, copies, sample.sources[copies])

    assert np.histogram(similarities, bins=[0.3, 0.6, 0.8, 1])[0].min() >= 5


def test_without_a_text_to_copy_nothing_is_planted():
    with pytest.raises(DataError, match=r"--planted: must find texts of 15 words"):
        plant(make_sample(["a b c", ""]), 5)


def test_documents_that_came_along_are_not_copied():
    sample = make_sample(make_texts(10))
    sample.drawn[3:] = False
    planted = plant(sample, 12)

    assert set(planted.sources[planted.sources >= 0]) == set(np.flatnonzero(planted.drawn & (planted.sources < 0)))
    assert planted.drawn.sum() == 15

"""Ids that the memory engine refuses, in the words of the stages."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from dedup.engines.documents import check_ids, find_renamed
from dedup.errors import DataError
from dedup.kernels.ids import apply_renamed
from tests.engines import SEARCH, Corpus, Row


def features_of(ids, texts=None):
    return Corpus([Row(each, text) for each, text in zip(ids, texts or ["a"] * len(ids), strict=True)]).features(SEARCH)


def test_ids_that_are_unique_pass():
    check_ids(features_of([3, -1, 2]), id_column="id")
    check_ids(features_of([]), id_column="id")


def test_a_null_id_is_refused_with_the_beginning_of_its_text():
    features = replace(features_of([1, 2]), ids=pa.array([1, None]))

    with pytest.raises(DataError, match=r"'key' must not be null \(got 1 nulls; their texts begin 'once upon'\)"):
        check_ids(features, id_column="key", null_texts=["once upon"])


def test_repeated_ids_are_refused_with_the_least_of_them():
    ids = ["é", "b", "é", "Z", "a", "a", "a", "Z"]

    with pytest.raises(DataError, match=r"unique \(got 3 repeated ids: 'Z' \(2 rows\), 'a' \(3 rows\), 'é' \(2 r"):
        check_ids(features_of(ids), id_column="key")
    with pytest.raises(DataError, match=r"got 6 repeated ids: -2 \(2 rows\), -1 .*, 0 .*, 1 .*, 9 \(2 rows\)\)"):
        check_ids(features_of([*range(-2, 2), 9, 10] * 2), id_column="key")


def test_equal_rows_without_an_id_column_are_no_fault():
    check_ids(features_of(["a", "b", "a"]), id_column="")


def test_ids_of_one_hash_get_document_ids_of_their_own_whatever_their_order():
    ids, doc_ids = ["c", "a", "b", "d", "a"], np.array([5, 5, 7, 5, 5])
    expected = {"a": 5, "b": 7, "c": signed_hash("c", 43), "d": signed_hash("d", 43)}

    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 1, 3]):
        found = resolve_ids(doc_ids[order], pa.array([ids[place] for place in order]))
        assert found.tolist() == [expected[ids[place]] for place in order]


def test_another_document_keeps_its_id_from_those_that_are_renamed():
    taken = signed_hash("b", 43)

    found = resolve_ids(np.array([5, 5, taken]), pa.array(["a", "b", "z"]))

    assert found.tolist() == [5, signed_hash("b", 44), taken]


def test_ids_whose_hashes_differ_stay_as_they_are():
    doc_ids = np.array([3, 3, 9])

    assert resolve_ids(doc_ids, pa.array(["a", "a", None])).tolist() == [3, 3, 9]
    assert resolve_ids(doc_ids, pa.array([3, 3, 9])) is doc_ids


def resolve_ids(doc_ids, ids):
    return apply_renamed(doc_ids, ids, find_renamed(doc_ids, ids))


def signed_hash(user_id, seed):
    return int(np.uint64(xxhash.xxh64_intdigest(user_id.encode(), seed)).astype(np.int64))

"""Ids that the memory engine refuses, in the words of the stages."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dedup.engines.memory import check_ids
from dedup.errors import DataError
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


@pytest.mark.parametrize("id_column", ["", "key"])
def test_two_ids_of_one_hash_are_refused(id_column):
    features = replace(features_of(["a", "b", "c", "d"]), doc_ids=np.array([5, 7, 7, 5]))

    with pytest.raises(DataError, match=r"ids 'a' and 'd' share one 64-bit hash \(5\); rename one of them"):
        check_ids(features, id_column=id_column)

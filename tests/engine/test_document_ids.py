"""Ids that the memory engine refuses, in the words of the stages."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from dedup.engine.document_ids import check_repeated, find_renamed
from dedup.engine.workers import Processes
from dedup.errors import DataError
from dedup.kernels.ids import apply_renamed
from tests.engine import SEARCH, Corpus, Row, Source, make_layer


def check(ids, *, id_column):
    kind = pa.int64() if ids and isinstance(ids[0], int) else pa.string()
    rows = [Row(each, "a") for each in ids]
    check_repeated(np.array([row.doc_id for row in rows], np.int64), pa.array(ids, kind), id_column=id_column)


def test_ids_that_are_unique_pass():
    check([3, -1, 2], id_column="id")
    check([], id_column="id")


def test_a_null_id_is_refused_with_the_beginning_of_its_text():
    corpus = Corpus([Row("one", "a text"), Row("two", "once upon")])
    engine = replace(corpus.open(SEARCH), id_column="key")
    batch = engine.workers._held.batch
    lacking = batch.set_column(0, "id", pa.array(["one", None]))
    engine = replace(engine, workers=Processes(1, Source(lacking)))

    with pytest.raises(DataError, match=r"'key' must not be null \(got 1 nulls; their texts begin 'once upon'\)"):
        make_layer(SEARCH, 5).sign(engine)


def test_repeated_ids_are_refused_with_the_least_of_them():
    ids = ["é", "b", "é", "Z", "a", "a", "a", "Z"]

    with pytest.raises(DataError, match=r"unique \(got 3 repeated ids: 'Z' \(2 rows\), 'a' \(3 rows\), 'é' \(2 r"):
        check(ids, id_column="key")
    with pytest.raises(DataError, match=r"got 6 repeated ids: -2 \(2 rows\), -1 .*, 0 .*, 1 .*, 9 \(2 rows\)\)"):
        check([*range(-2, 2), 9, 10] * 2, id_column="key")


def test_equal_rows_without_an_id_column_are_no_fault():
    check(["a", "b", "a"], id_column="")


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

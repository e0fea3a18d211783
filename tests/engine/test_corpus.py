"""Input rows to documents: whose id is whose, and which inputs are refused."""

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest
import xxhash
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.corpus import (
    SHOWN,
    Rows,
    add_foreign,
    check_null,
    check_repeated,
    exchange_ids,
    find_renamed,
    identify,
    read_documents,
    read_rows,
)
from dedup.engine.sessions import restored
from dedup.errors import DataError, SchemaError
from dedup.run.faults import recognise
from dedup.run.session import WHOLE_STAGE
from tests.engine.tables import make_register, rows, settings, signed

FACTORY = "spark.sql.codegen.factoryMode"


def hash_id(name: str) -> int:
    return signed(xxhash.xxh64_intdigest(name.encode(), seed=42))


def read(corpus, id_column="", text_column="text"):
    return rows(read_documents(corpus, id_column=id_column, text_columns=[text_column]).drop("source"))


def check(spark, ids, *, id_column="name", id_type=None):
    """Check rows of (doc_id, id)."""
    register = make_register(spark, ids, id_type or pa.string())
    counts = Counter(doc_id for doc_id, _ in ids)
    repeated = spark.createDataFrame([pair for pair in counts.items() if pair[1] > 1], "doc_id long, copies long")
    check_repeated(register, repeated, id_column=id_column)


@pytest.mark.parametrize(("kind", "bits"), [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)])
def test_an_integer_is_its_own_document_id(spark, kind, bits):
    ids = [-(2 ** (bits - 1)), -1, 0, 2 ** (bits - 1) - 1]
    corpus = spark.createDataFrame([(number, "x") for number in ids], f"id {kind}, text string")
    documents = read_documents(corpus, id_column="id", text_columns=["text"])

    assert sorted(row.doc_id for row in documents.collect()) == ids
    assert all(row.id == row.doc_id for row in documents.collect())
    assert documents.schema["doc_id"].dataType == T.LongType()
    assert documents.schema["id"].dataType == corpus.schema["id"].dataType


def test_a_string_id_is_hashed_and_a_null_one_stays_null(spark):
    names = ["", "a", "1", "01", " a", "é", "漢" * 100]
    corpus = spark.createDataFrame([(name, "x") for name in [*names, None]], "id string, text string")

    found = {row_id: doc_id for doc_id, row_id, _ in read(corpus, "id")}

    assert found == {**{name: hash_id(name) for name in names}, None: None}


def test_a_null_integer_id_stays_null(spark):
    assert read(spark.createDataFrame([(None, "x")], "id int, text string"), "id") == [(None, None, "x")]


def test_text_is_as_it_is(spark):
    texts = [(1, "é漢\0"), (2, ""), (3, None)]
    assert read(spark.createDataFrame(texts, "id int, text string"), "id") == [(n, n, text) for n, text in texts]
    cells = [(1, b"\xff\0a"), (2, None)]
    assert read(spark.createDataFrame(cells, "id int, text binary"), "id") == [(n, n, cell) for n, cell in cells]


@pytest.mark.parametrize("name", ["a.b", "two words", "tick`ed", "`", "`a.b`", "*", "a.b.c`d e"])
def test_columns_are_found_by_their_very_names(spark, name):
    schema = T.StructType().add("a", T.StructType().add("b", T.StringType())).add(name, T.StringType())
    corpus = spark.createDataFrame([(("inner",), "outer")], schema)
    text = spark.createDataFrame([(7, "outer")], T.StructType().add("id", T.IntegerType()).add(name, T.StringType()))

    assert corpus.select(identify(corpus, id_column=name)[0].alias("id")).collect()[0].id == "outer"
    assert read(text, "id", name) == [(7, 7, "outer")]
    [whole] = corpus.select(identify(corpus, id_column="")[0].alias("id")).collect()
    assert len(whole.id) == 32


def test_equal_rows_share_an_id_and_others_do_not(spark):
    different = [
        ("a", None, "x"),
        (None, "a", "x"),
        ("a", "", "x"),
        ("a", "null", "x"),
        (None, None, "x"),
        ("", "", "x"),
        ("aa", "", "x"),
        ("a", "a", "x"),
        ("a", "a", None),
        ("a", "a", ""),
        ('a","c1":"a', "", "x"),
    ]
    corpus = spark.createDataFrame(different * 2, "left string, right string, text string")

    found = [doc_id for doc_id, _, _ in read(corpus)]

    assert len(set(found)) == len(different)
    assert all(found.count(doc_id) == 2 for doc_id in found)


def test_a_row_is_told_by_the_whole_of_its_columns(spark):
    schema = "n struct<a: string, b: string>, m map<string, int>, l array<int>, d double, raw binary, text string"
    base = {"n": ("a", None), "m": {"k": None}, "l": [1, None], "d": 0.1, "raw": b"\xff"}
    others = [
        {"n": (None, "a")},
        {"n": None},
        {"m": {}},
        {"m": {"k": 0}},
        {"l": [None, 1]},
        {"l": [1]},
        {"d": 0.1 + 2**-55},
        {"d": None},
        {"raw": b"\xfe"},
        {"raw": None},
    ]
    corpus = spark.createDataFrame([tuple({**base, **other, "text": "x"}.values()) for other in [{}, *others]], schema)

    assert len({doc_id for doc_id, _, _ in read(corpus)}) == len(others) + 1


@pytest.mark.parametrize("value", ["timestamp_micros(1)", "map(timestamp_micros(1), 1)", "array(timestamp_micros(1))"])
def test_the_id_of_a_row_is_the_same_in_any_zone(spark, value):
    found, before = set(), spark.conf.get("spark.sql.session.timeZone")
    for zone in ("UTC", "Asia/Kathmandu"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        moment = spark.range(1).select(F.expr(value).alias("at"))
        found |= {row.id for row in moment.select(identify(moment, id_column="")[0].alias("id")).collect()}
    spark.conf.set("spark.sql.session.timeZone", before)

    assert len(found) == 1


def test_rows_that_differ_in_bytes_that_are_no_utf8_are_not_equal(spark):
    cells = [bytearray(each) for each in (b"\xff", b"\xfe", b"\xff", "\ufffd".encode(), b"")] + [None]
    raw = spark.createDataFrame([(cell,) for cell in cells], "raw binary").select(F.col("raw").cast("string"))

    found = [row.id for row in raw.select(identify(raw, id_column="")[0].alias("id")).collect()]

    assert found[0] == found[2]
    assert len({*found}) == 5


@pytest.mark.parametrize(
    "nested",
    [
        "array(text, null)",
        "named_struct('a b', named_struct('B', text, 'b', raw))",
        "map(1, array(text))",
        "map(text, 1)",
        "array(map(raw, 1))",
    ],
)
def test_rows_that_differ_in_bytes_within_nested_values_are_not_equal(spark, nested):
    cells = [bytearray(each) for each in (b"\xff", b"\xfe", b"\xff", "\ufffd".encode(), "\ufffdFF".encode(), b"")]
    raw = spark.createDataFrame([(cell,) for cell in cells], "raw binary")
    corpus = raw.selectExpr("raw", "cast(raw as string) as text").selectExpr(f"{nested} as note", "'x' as other")

    found = [row.id for row in corpus.select(identify(corpus, id_column="")[0].alias("id")).collect()]

    assert found[0] == found[2]
    assert len({*found}) == 5


@pytest.mark.parametrize(
    "note",
    [
        "map(array(raw), text)",
        "map(named_struct('a b', text, 'c.d', raw), 1)",
        "array(named_struct('a b', map(array(raw, null), map(array(text), 1))), null)",
    ],
)
def test_rows_are_told_by_keys_that_are_lists_or_structs(spark, note, tmp_path):
    texts = (
        spark.range(4).selectExpr("cast(id % 2 as string) as text").selectExpr("text", "cast(text as binary) as raw")
    )
    texts.selectExpr(f"{note} as note", "'x' as other").write.parquet(str(tmp_path / "in"))
    corpus = spark.read.parquet(str(tmp_path / "in"))

    with restored(spark, WHOLE_STAGE, FACTORY):
        # As Spark has them by default: then keys come as they were read, in objects without a text of their own.
        spark.conf.set(WHOLE_STAGE, "true")
        spark.conf.set(FACTORY, "FALLBACK")
        found = [
            [row.id for row in corpus.select(identify(corpus, id_column="")[0].alias("id")).collect()] for _ in "ab"
        ]

    assert found[0] == found[1]
    assert [*Counter(found[0]).values()] == [2, 2]


def test_rows_a_microsecond_apart_are_not_equal(spark):
    moments = [(datetime(2024, 1, 1, microsecond=number, tzinfo=UTC), "") for number in (0, 1)]
    corpus = spark.createDataFrame(moments, "at timestamp, text string")

    assert len({doc_id for doc_id, _, _ in read(corpus)}) == 2


@pytest.mark.parametrize(
    ("id_column", "text_column", "message"),
    [
        ("", "body", "input.text_column: must be the name of one column of the input (got 'body', the input has id, "),
        ("key", "text", "input.id_column: must be the name of one column of the input (got 'key', the input has id, "),
        ("", "n.text", "input.text_column: must be the name of one column of the input (got 'n.text', "),
        ("", "id", "input.text_column: column 'id' must be a string (got double)"),
        ("id", "text", "input.id_column: column 'id' must be an integer or a string (got double)"),
        ("", "n", "input.text_column: column 'n' must be a string (got struct<text:string>)"),
    ],
)
def test_a_wrong_column_is_answered_with_what_there_is(spark, id_column, text_column, message):
    corpus = spark.createDataFrame([], "id double, text string, `odd name` int, n struct<text: string>")

    with pytest.raises(SchemaError) as caught:
        read_documents(corpus, id_column=id_column, text_columns=[text_column])

    assert str(caught.value).startswith(message)
    if "the input has" in message:
        assert str(caught.value).endswith("the input has id, text, odd name, n)")


def test_a_column_named_twice_is_refused(spark):
    corpus = spark.createDataFrame([("a", "b")], T.StructType().add("text", "string").add("text", "string"))

    with pytest.raises(SchemaError, match=r"name of one column .* the input has text, text\)"):
        read_documents(corpus, id_column="", text_columns=["text"])


def refuse(spark, ids, **changes):
    with pytest.raises(DataError) as caught:
        check(spark, ids, **changes)
    return str(caught.value)


def test_null_ids_are_counted_and_shown_by_their_texts(spark):
    orphans = [f"orphan {number}\n{'x' * 99}".encode() for number in range(SHOWN + 2)]
    texts = [(1, "a", b"has an id"), *[(None, None, text) for text in orphans]]
    documents = Rows(documents=spark.createDataFrame(texts, "doc_id long, id string, text binary"))

    check_null(documents, 0, id_column="name")
    with pytest.raises(DataError) as caught:
        check_null(documents, 1234, id_column="name")

    message = str(caught.value)
    assert "column 'name' must not be null (got 1,234 nulls; their texts begin 'orphan " in message
    assert message.count("orphan") == SHOWN
    assert "has an id" not in message
    assert "x" * 41 not in message
    assert "\n" not in message


def test_repeated_ids_are_counted_and_some_are_shown(spark):
    names = [f"id {number}" for number in range(SHOWN + 2)]
    ids = [(hash_id(name), name) for name in names for _ in range(3)] + [(hash_id("alone"), "alone")]

    message = refuse(spark, ids)

    assert f"column 'name' must be unique (got {SHOWN + 2} repeated ids: 'id 0' (3 rows), 'id 1' (3 rows), " in message
    assert message.count("(3 rows)") == SHOWN
    assert "alone" not in message
    assert "10 (2 rows)" in refuse(spark, [(10, 10), (10, 10)], id_type=pa.int64())


def test_ids_of_one_hash_get_document_ids_of_their_own(spark):
    ids = [(number, f"twice {number}") for number in range(20)] * 2 + [(77, "left"), (77, "right"), (77, "right")]
    register = make_register(spark, ids, pa.string())
    repeated = spark.createDataFrame([(number, 2) for number in (*range(20), 77)], "doc_id long, copies long")

    renamed = find_renamed(register, repeated)

    assert list(renamed) == ["right"]
    found = exchange_ids(register, renamed)
    assert found.schema == register.schema
    expected = [(renamed.get(name, doc_id), name) for doc_id, name in ids]
    assert rows(found.select("doc_id", "id")) == sorted(expected, key=repr)
    with pytest.raises(DataError, match="id 'right' has the 64-bit hash of another id"):
        Rows(documents=register).rename(renamed)


def test_what_is_left_is_noted_where_ansi_reserves_words(spark):
    register = make_register(spark, [(1, "a"), (2, "b")], pa.string())
    gone = spark.createDataFrame([(1,)], "doc_id long")
    cut = spark.createDataFrame([(2, 3, 5)], "doc_id long, `begin` long, `end` long")

    with settings(spark, **dict.fromkeys(("spark.sql.ansi.enabled", "spark.sql.ansi.enforceReservedKeywords"), "true")):
        left = Rows(documents=register).leave(register, gone, cut)

    assert rows(left) == [(1, True, []), (2, False, [(3, 5)])]


def test_equal_rows_are_no_fault_without_an_id_column(spark):
    check(spark, [(1, "a"), (1, "a"), (2, "b")], id_column="")


def test_integer_ids_of_another_corpus_may_be_wider(spark):
    own = read_documents(
        spark.createDataFrame([(7, "x")], "id tinyint, text string"), id_column="id", text_columns=["text"]
    )
    wide = spark.createDataFrame([(2**40, "x"), (-(2**63), "y")], "id bigint, text string")

    found = add_foreign(own, [read_documents(wide, id_column="id", text_columns=["text"])])

    ids = [7, -1 - 2**40, 2**63 - 1]
    assert sorted((row.id, row.doc_id, row.leads) for row in found.collect()) == sorted(
        (each, each, float(each == 7)) for each in ids
    )


def test_values_that_are_read_along_are_texts_of_their_own_types_in_each_corpus(spark):
    of_id = {"id_column": "id", "text_columns": ["text"], "noted": (("keep.merge", "k"),)}
    corpora = [
        spark.sql(f"SELECT {number} AS id, 'x' AS text, {k} AS k") for number, k in enumerate(["1", "'z'", "2.5D"])
    ]

    own, *others = (read_documents(each, **of_id) for each in corpora)
    whole = add_foreign(own, others)

    found = pa.Table.from_batches(read_rows(whole.toArrow().to_batches(), (), 1))
    assert dict(zip(found["id"].to_pylist(), found["merged"].to_pylist(), strict=True)) == {
        0: ["1"],
        -2: ["z"],
        -3: ["2.5"],
    }


def test_vectors_may_have_a_type_of_their_own_in_each_corpus(spark):
    of_id = {"id_column": "id", "text_columns": ["text"], "vector": "v"}
    vectors = ["array(1F, 0.5F)", "array(1D, 0.5D)", "X'0000803f0000003f'", "array(1.0, 0.5)", "CAST(null AS binary)"]
    corpora = [spark.sql(f"SELECT {number} AS id, 'x' AS text, {v} AS v") for number, v in enumerate(vectors)]

    own, *others = (read_documents(each, **of_id) for each in corpora)
    whole = add_foreign(own, others)

    found = pa.Table.from_batches(read_rows(whole.toArrow().to_batches(), (), 0))
    same = bytes.fromhex("0000803f0000003f")
    assert dict(zip(found["id"].to_pylist(), found["vector"].to_pylist(), strict=True)) == {
        0: same,
        -2: same,
        -3: same,
        -4: same,
        -5: None,
    }


@pytest.mark.parametrize(
    ("kind", "values", "sources"),
    [
        ("string", ["a feed", None, ""], ["a feed", None, ""]),
        ("int", [3, None, -1], ["3", None, "-1"]),
        ("boolean", [True, None, False], ["true", None, "false"]),
    ],
)
def test_a_source_is_a_string(spark, kind, values, sources):
    corpus = spark.createDataFrame(
        [(number, "x", each) for number, each in enumerate(values)], f"id int, text string, f {kind}"
    )
    documents = read_documents(corpus, id_column="id", text_columns=["text"], source_column="f")

    assert [row.source for row in documents.orderBy("id").collect()] == sources


def test_a_source_that_is_none_is_refused(spark):
    corpus = spark.createDataFrame([(1, "x", 0.5)], "id int, text string, f double")

    with pytest.raises(
        SchemaError, match=r"input\.source_column: column 'f' must be an integer, a string, a date or a b"
    ):
        read_documents(corpus, id_column="id", text_columns=["text"], source_column="f")


def test_a_text_that_would_take_all_memory_ends_the_job_by_its_id(spark):
    corpus = spark.createDataFrame([("a", "x" * 10), ("b", "ü" * 6)], "id string, text string")
    documents = read_documents(corpus, id_column="id", text_columns=["text"], max_text_bytes=11)

    with pytest.raises(PySparkException) as caught:
        documents.collect()
    assert str(recognise(caught.value)).startswith(
        "input.max_text_bytes: a text must be of at most 11 bytes (got 12 of id b); take it out"
    )
    assert read_documents(corpus, id_column="id", text_columns=["text"], max_text_bytes=12).count() == 2


@pytest.mark.classic
def test_a_plan_that_looks_at_lengths_is_no_text_too_long(spark):
    documents = read_documents(
        spark.createDataFrame([("a", "x")], "id string, text string"),
        id_column="id",
        text_columns=["text"],
        max_text_bytes=11,
    )

    with pytest.raises(PySparkException, match=r"input\.max_text_bytes: a text must be of at most 11 bytes") as caught:
        documents.select("none")
    assert recognise(caught.value) is None


def test_a_column_that_is_read_along_is_refused_by_the_setting_that_names_it(spark):
    corpus = spark.createDataFrame([(1, "a")], "id long, text string")

    with pytest.raises(SchemaError, match=r"^url\.column: must be the name of one column of the input \(got 'uri'"):
        read_documents(corpus, id_column="id", text_columns=["text"], noted=(("url.column", "uri"),))


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_the_text_of_a_time_does_not_tell_the_zone_of_the_session(zone):
    times = pa.array([datetime(2024, 11, 3, 5, 30, tzinfo=UTC), None], pa.timestamp("us", zone))
    batch = pa.record_batch({"text": ["a", "b"], "merge0": times, "merge1": times.cast(pa.timestamp("us"))})

    [found] = read_rows([batch], (), 2)

    moment = "2024-11-03 05:30:00.000000"
    assert found["merged"].to_pylist() == [[f"{moment}Z", moment], [None, None]]


def test_bytes_that_are_no_utf8_are_read_as_those_of_files_are():
    texts = pa.array([b"end \xff", b"end \xfe\xfe", None], pa.binary())

    [found] = read_rows([pa.record_batch({"text": texts})], (("longest", ""),), 0)

    assert found["text"].to_pylist() == ["end \ufffd", "end \ufffd\ufffd", None]
    assert found["text_bytes"].to_pylist() == [7, 10, 0]
    assert found["order_keys"].to_pylist() == [[-7], [-10], [0]]

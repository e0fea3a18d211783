"""Which copy stays, and what the others pass on to it, from files to files on either engine."""

import json
import math
from dataclasses import replace
from datetime import UTC, date, datetime
from operator import itemgetter
from random import Random

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from pyspark.sql import functions as F

from dedup.api import deduplicate
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.files.orders import join_keys, join_texts, to_keys
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config

WORDS = [f"w{number}" for number in range(40)]
COPY = " ".join(WORDS)
ROWS = [
    # One document in four versions, and another in two.
    {"id": 1, "text": COPY, "date": "2024-03-01", "quality": 0.5, "site": "b", "url": "u1"},
    {"id": 2, "text": COPY + " more", "date": "2026-01-31", "quality": None, "site": "c", "url": "u2"},
    {"id": 3, "text": COPY + " of it all", "date": None, "quality": 2.0, "site": None, "url": None},
    {"id": 4, "text": COPY.upper(), "date": "2026-01-31", "quality": -1.0, "site": "a", "url": "u1"},
    {"id": 5, "text": "else " * 9 + COPY[:40], "date": None, "quality": None, "site": "a", "url": "u5"},
    {"id": 6, "text": "else " * 9 + COPY[:40], "date": None, "quality": None, "site": "a", "url": "u6"},
    {"id": 7, "text": "something of its own", "date": "1999-01-01", "quality": 9.0, "site": "z", "url": "u7"},
]
KINDS = pa.schema([("id", pa.int64()), ("date", pa.string()), ("quality", pa.float64())])


def write(folder, kind, rows=ROWS):
    path = folder / f"in.{kind}"
    table = pa.Table.from_pylist(rows)
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "csv":
        pcsv.write_csv(table, path)
    elif kind == "arrow":
        feather.write_feather(table, path, compression="uncompressed")
    else:
        pq.write_table(table, path)
    return str(path)


def keep(tmp_path, *, kind="parquet", rows=ROWS, mode="filter", **settings):
    chosen = {f"keep.{name}": value for name, value in settings.items()} | {"output.mode": mode}
    config = load_config(
        settings={"input.id_column": "id", "input.source_column": "site", "engine": "memory", **chosen}
    )
    output = tmp_path / "out"
    report = run_in_memory(Job(inputs=[write(tmp_path, kind, rows)], output=str(output), config=config))
    return report, output


def kept_of(output, **options):
    return [int(each) for each in ds.dataset(output / "kept", **options).to_table()["id"].to_pylist()]


@pytest.mark.parametrize(
    ("order", "kept", "decided"),
    [
        (["smallest_id"], [1, 5, 7], {"smallest_id": 2}),
        ([], [1, 5, 7], {"smallest_id": 2}),
        (["longest"], [3, 5, 7], {"longest": 1, "smallest_id": 1}),
        (["latest:date"], [2, 5, 7], {"smallest_id": 2}),
        (["latest:date", "shortest"], [4, 5, 7], {"shortest": 1, "smallest_id": 1}),
        (["earliest:date"], [1, 5, 7], {"earliest:date": 1, "smallest_id": 1}),
        (["highest:quality"], [3, 5, 7], {"highest:quality": 1, "smallest_id": 1}),
        (["lowest:quality", "longest"], [4, 5, 7], {"lowest:quality": 1, "smallest_id": 1}),
        (["source:c,b,a"], [2, 5, 7], {"source:c,b,a": 1, "smallest_id": 1}),
        (["source:x"], [1, 5, 7], {"smallest_id": 2}),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv", "arrow"])
def test_the_first_by_the_order_stays_and_the_report_says_by_which_rule(tmp_path, kind, order, kept, decided):
    report, output = keep(tmp_path, kind=kind, order=order)

    assert kept_of(output, format={"jsonl": "json"}.get(kind, kind)) == kept
    assert report["decided"] == decided


SIZED = {2: lambda size: min(size, 2), "log2": int.bit_length, "sqrt": math.isqrt}
"""Documents that stay of a cluster, by `keep.copies`."""


@pytest.mark.parametrize(
    ("settings", "kept", "first"),
    [
        ({"copies": 2}, [1, 2, 5, 6, 7], [1]),
        ({"copies": "log2"}, [1, 2, 3, 5, 6, 7], [1]),
        ({"copies": "sqrt"}, [1, 2, 5, 7], [1, 5]),
        ({"copies": 2, "order": ["longest"]}, [2, 3, 5, 6, 7], [3]),
    ],
)
def test_the_first_of_a_cluster_stay_and_the_others_go_in_favour_of_the_very_first(tmp_path, settings, kept, first):
    report, output = keep(tmp_path, **settings)
    duplicates = ds.dataset(output / "duplicates").to_table()

    assert kept_of(output) == kept
    assert report["kept"] == len(kept) == 7 - duplicates.num_rows
    assert sorted({*duplicates["representative_id"].to_pylist()}) == first


@pytest.mark.parametrize("copies", [1, *SIZED])
def test_weights_of_a_cluster_add_up_to_what_would_stay_of_it(tmp_path, copies):
    counted = SIZED.get(copies, lambda _: 1)
    report, output = keep(tmp_path, copies=copies, mode="weights")

    found = ds.dataset(output / "weights").to_table().sort_by("id").to_pylist()
    clusters = {1: ([1, 2, 3, 4], 4), 5: ([5, 6], 1), 7: ([7], 1)}
    assert found == [
        {
            "id": one,
            "representative_id": first,
            "documents": len(members),
            "sources": sources,
            "weight": counted(len(members)) / len(members),
        }
        for first, (members, sources) in clusters.items()
        for one in members
    ]
    assert (report["documents"], report["kept"]) == (7, 3)
    assert not (output / "kept").exists()
    told = explain(PublishedOutput(str(output)), "7")
    assert (told.fate, told.notes) == ("kept", ('texts are not compared: they are not in an output of mode "weights"',))


CHAIN = [
    {"id": number, "text": " ".join([*WORDS[number:], *(f"x{other}" for other in range(number))]), "site": "a"}
    for number in range(12)
]


def test_a_chain_removes_only_what_resembles_a_document_that_stays(tmp_path):
    outputs = {}
    for linkage in ("component", "representative"):
        (tmp_path / linkage).mkdir()
        config = load_config(settings={"cluster.linkage": linkage, "input.id_column": "id", "shingles.shingle_size": 1})
        job = Job(
            inputs=[write(tmp_path / linkage, "parquet", CHAIN)], output=str(tmp_path / linkage / "out"), config=config
        )
        outputs[linkage] = run_in_memory(job)

    chained, strict = outputs["component"], outputs["representative"]
    assert (chained["kept"], chained["chained"], strict["chained"]) == (1, 7, 0)
    assert chained["least_similarity"] == 29 / 51 < 0.8 <= strict["least_similarity"]
    assert kept_of(tmp_path / "representative" / "out") == [0, 5, 10]


@pytest.mark.parametrize(("limit", "kept", "relinked"), [(0, 1, 0), (12, 1, 0), (11, 3, 1)])
def test_a_giant_component_is_taken_apart_and_counted(tmp_path, limit, kept, relinked):
    settings = {"cluster.max_component": limit, "input.id_column": "id", "shingles.shingle_size": 1}
    job = Job(
        inputs=[write(tmp_path, "parquet", CHAIN)], output=str(tmp_path / "out"), config=load_config(settings=settings)
    )
    report = run_in_memory(job)

    assert (report["kept"], report["relinked"]) == (kept, relinked)


MERGE = ["count", "urls:url", "first:date", "last:date", "sites:site"]
MERGED = [
    {"dedup_count": 4, "dedup_urls": ["u1", "u2"], "dedup_first_date": "2024-03-01", "dedup_last_date": "2026-01-31",
     "dedup_sites": ["a", "b", "c"]},
    {"dedup_count": 2, "dedup_urls": ["u5", "u6"], "dedup_first_date": None, "dedup_last_date": None,
     "dedup_sites": ["a"]},
    {"dedup_count": 1, "dedup_urls": None, "dedup_first_date": None, "dedup_last_date": None, "dedup_sites": None},
]  # fmt: skip


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "arrow"])
def test_what_the_removed_knew_goes_to_the_one_kept(tmp_path, kind):
    _, output = keep(tmp_path, kind=kind, merge=MERGE)

    own = [row for row in ROWS if row["id"] in {1, 5, 7}]
    found = [*map(json.loads, (output / "kept/in.jsonl").read_text().splitlines())] if kind == "jsonl" else None
    found = found or ds.dataset(output / "kept", format=kind).to_table().to_pylist()
    assert found == [row | more for row, more in zip(own, MERGED, strict=True)]
    assert kept_of(output.parent / "out", format={"jsonl": "json"}.get(kind, kind)) == [1, 5, 7]
    removed = ds.dataset(output / "removed", format={"jsonl": "json"}.get(kind, kind)).to_table()
    assert "dedup_count" not in removed.column_names


def test_equal_rows_are_counted_each(tmp_path):
    rows = [{"text": COPY, "site": "a"}] * 3 + [{"text": "own", "site": "b"}]
    config = load_config(settings={"keep.merge": ["count", "sites:site"], "engine": "memory"})
    run_in_memory(Job(inputs=[write(tmp_path, "parquet", rows)], output=str(tmp_path / "out"), config=config))

    found = ds.dataset(tmp_path / "out/kept").to_table()
    assert (found["dedup_count"].to_pylist(), found["dedup_sites"].to_pylist()) == ([3, 1], [["a"], None])


def test_equal_rows_that_all_stay_are_told_of_what_goes_for_them(tmp_path):
    rows = [{"text": COPY, "site": "a"}] * 2 + [{"text": f"{COPY} more", "site": "b"}]
    settings = {"keep.merge": ["count"], "layers": ["passages"], "passages.tokens": 10, "keep.order": ["shortest"]}
    job = Job(
        inputs=[write(tmp_path, "parquet", rows)], output=str(tmp_path / "out"), config=load_config(settings=settings)
    )
    run_in_memory(job)

    assert ds.dataset(tmp_path / "out/kept").to_table()["dedup_count"].to_pylist() == [2, 2]


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        ("parquet", {"keep.order": ["latest:day"]}, SchemaError, "keep.order latest: must be the name of one column"),
        ("jsonl", {"keep.order": ["latest:day"]}, SchemaError, "keep.order latest: must be the name of one column"),
        ("csv", {"keep.order": ["highest:url"]}, DataError, "keep.order: highest:url must find numbers"),
        ("parquet", {"keep.order": ["latest:url"]}, DataError, "latest:url must find dates by ISO 8601"),
        ("parquet", {"keep.order": ["sql:length(url)"]}, ConfigError, "(or orc, json, csv) in place of --input"),
        ("parquet", {"keep.order": ["source:a"]}, ConfigError, "source:... needs input.source_column"),
        ("csv", {"keep.merge": ["count"]}, ConfigError, "must be empty where the output is csv"),
        ("parquet", {"keep.merge": ["count"], "output.mode": "ids"}, ConfigError, 'needs output.mode = "filter"'),
        ("parquet", {"keep.merge": ["count"], "output.files": 2}, ConfigError, "keeps the input's files"),
        ("parquet", {"keep.merge": ["count"], "output.mode": "weights"}, ConfigError, 'needs output.mode = "filter"'),
        ("parquet", {"keep.copies": 2, "layers": ["exact"]}, ConfigError, "keep.copies: needs the layer near"),
        (
            "parquet",
            {"keep.drop": "all", "layers": ["lines", "semantic"]},
            ConfigError,
            '"all" needs one of the layers',
        ),
        ("parquet", {"limits.per_source": 2}, ConfigError, "limits.per_source: needs input.source_column"),
        ("parquet", {"keep.merge": ["urls:link"]}, SchemaError, "keep.merge: must be the name of one column"),
    ],
)
def test_what_cannot_be_is_refused_before_work_is_done(tmp_path, kind, settings, error, message):
    config = load_config(settings={"input.id_column": "id", **settings})
    with pytest.raises(error) as caught:
        run_in_memory(Job(inputs=[write(tmp_path, kind)], output=str(tmp_path / "out"), config=config))

    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_column_of_the_name_of_a_further_one_is_refused(tmp_path):
    rows = [row | {"Dedup_Count": 1} for row in ROWS]
    with pytest.raises(SchemaError, match=r"keep\.merge adds the column 'Dedup_Count'"):
        keep(tmp_path, rows=rows, merge=["count"])


@pytest.mark.parametrize("entry", ["", "urls", "urls:", "Urls:url", "first:", "count:url"])
def test_an_entry_of_merge_that_is_none_is_refused(entry):
    with pytest.raises(ConfigError, match=r"keep\.merge: must have entries of count, first:COLUMN"):
        load_config(settings={"keep.merge": ["count", entry]})


@pytest.mark.parametrize("name", ["kept", "representative_id", "component_id", "kind", "jaccard"])
def test_an_entry_of_merge_named_as_a_note_is_refused(name):
    with pytest.raises(ConfigError, match=rf'keep\.merge: must give no column of output.mode "annotate" .*_{name}\)'):
        load_config(settings={"keep.merge": ["count", f"{name}:url"]})


@pytest.mark.parametrize(
    ("values", "rule", "expected"),
    [
        (pa.array([1, None, -3]), "lowest", [1, None, -3]),
        (pa.array([1.5, float("nan")]), "highest", [-1.5, None]),
        (pa.array([True, None]), "highest", [-1, None]),
        (pa.array(["1e3", " 2 ", ""]), "lowest", [1000, 2, None]),
        (pa.array([date(1970, 1, 2), None]), "earliest", [86400e6, None]),
        (pa.array([datetime(1970, 1, 1, 1, tzinfo=UTC)], pa.timestamp("us")), "latest", [-3600e6]),
        (pa.array([datetime(1970, 1, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "Europe/Berlin")), "earliest", [3600e6]),
        (
            pa.array(["1970-01-02", "1970-01-01T01:00:00+01:00", "1970-01-01 00:00:01.5Z"]),
            "earliest",
            [86400e6, 0, 15e5],
        ),
        (pa.array(["1970-01-02"]).dictionary_encode(), "earliest", [86400e6]),
        (pa.nulls(2), "latest", [None, None]),
    ],
)
def test_a_value_becomes_a_number_less_being_better(values, rule, expected):
    found = to_keys([values], [(rule, "x")])[0].to_pylist()

    assert [None if math.isnan(each) else each for each in found] == expected


MOMENTS = [
    *("T10:00Z", "2023-W52-7", "2024", "2024-W05", "2024-01-31T09:59:59", "2024-01-31T10:00:00.123456788Z"),
    *(
        "2024-01-31T11:00:00.123456789+01",
        "20240131T24",
        "2024-032T00:00:00.000000001",
        "2300-01-01T00:00:00.0000000005",
    ),
    *("2300-01-01T00:00:00.000000001", "9999-12-31T23:59:59.999999998", "9999-12-31T23:59:59.999999999", None),
]
"""Each later than the one before, the last none."""


def pair_moments():
    """Return documents of which each of two moments that follow one another has the smaller id once."""
    rows = []
    for number in range(len(MOMENTS) - 1):
        for text, moments in (("one", MOMENTS[number : number + 2]), ("other", MOMENTS[number : number + 2][::-1])):
            rows += [{"text": f"{text} {number}" + " word" * 9, "date": moment} for moment in moments]
    return [{"id": number, **row} for number, row in enumerate(rows)]


def expect_kept(rule):
    """Return the ids of those that stay: nulls are last."""
    last = len(MOMENTS) - 2
    later = {number: rule == "latest" and number != last for number in range(last + 1)}
    return [4 * number + place for number, flag in later.items() for place in ((1, 2) if flag else (0, 3))]


@pytest.mark.parametrize("rule", ["latest", "earliest"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv", "arrow"])
def test_every_reader_tells_moments_apart_to_the_nanosecond(tmp_path, kind, rule):
    _, output = keep(tmp_path, kind=kind, rows=[row | {"site": "a"} for row in pair_moments()], order=[f"{rule}:date"])

    assert kept_of(output, format={"jsonl": "json"}.get(kind, kind)) == expect_kept(rule)


def test_spark_tells_moments_apart_to_the_nanosecond_whoever_reads(spark, tmp_path):
    config = load_config(settings={"input.id_column": "id", "keep.order": ["latest:date"], "layers": ["exact"]})
    (tmp_path / "in").mkdir()
    source = write(tmp_path / "in", "parquet", pair_moments())
    # Of rows the search is by tasks, which files would ask once more.
    by_driver = replace(config, driver=replace(config.driver, search_bytes=10**9))
    run(spark, Job(inputs=[source], output=str(tmp_path / "out"), config=by_driver))
    table = deduplicate(spark.read.parquet(source), tmp_path / "table", config=config)

    assert sorted(kept_of(tmp_path / "out")) == expect_kept("latest")
    assert sorted(row["id"] for row in table.kept.collect()) == expect_kept("latest")


def test_both_engines_order_and_merge_alike(spark, tmp_path):
    chance = Random(5)
    rows = []
    for number in range(60):
        words = [f"{number % 7}{word}" for word in WORDS[chance.randrange(4) :]]
        day = chance.choice(["2024-01-01", "2025-05-05T10:00:00Z", None])
        rows.append({"id": number, "text": " ".join(words), "date": day, "site": chance.choice("ab")})
    (tmp_path / "in").mkdir()
    merge = ["count", "sites:site", "last:date"]
    settings = {"keep.order": ["latest:date", "longest"], "keep.merge": merge, "keep.copies": "log2"}
    config = load_config(settings={"input.id_column": "id", "input.source_column": "site", **settings})
    source = write(tmp_path / "in", "parquet", rows)
    job = [Job(inputs=[source], output=str(tmp_path / name), config=config) for name in ("memory", "spark")]
    # Who writes is asked of files, and who searches of the table.
    by_driver = replace(config, driver=replace(config.driver, search_bytes=10**9))
    reports = run_in_memory(job[0]), run(spark, replace(job[1], config=by_driver))

    kept = [ds.dataset(tmp_path / name / "kept").to_table() for name in ("memory", "spark")]
    assert kept[0] == kept[1]
    assert reports[0]["decided"] == reports[1]["decided"]
    # Of a table an expression can say what "longest" does.
    longest = "sql:length(text) + int(site = 'c')"
    settings |= {"keep.order": ["latest:date", longest], "input.table": f"parquet.`{source}`"}
    config = load_config(settings={"input.id_column": "id", "input.source_column": "site", **settings})
    report = run(spark, Job(inputs=[], output=str(tmp_path / "table"), config=config))
    found = {row["id"]: row for row in ds.dataset(tmp_path / "table" / "kept").to_table().to_pylist()}
    assert found == {row["id"]: row for row in kept[0].to_pylist()}
    removed = [ds.dataset(tmp_path / name / "removed").to_table() for name in ("memory", "table")]
    assert sorted(removed[1].to_pylist(), key=itemgetter("id")) == sorted(removed[0].to_pylist(), key=itemgetter("id"))
    assert (report["kept"], report["removed"]) == (kept[0].num_rows, removed[0].num_rows)
    assert report["reader"] == "spark"
    assert report["decided"] == {{"longest": longest}.get(rule, rule): n for rule, n in reports[0]["decided"].items()}
    assert longest in report["decided"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("none", "UNRESOLVED_COLUMN"),
        ("id +", "PARSE_SYNTAX_ERROR"),
        ("max(id)", "MISSING_GROUP_BY"),
        ("explode(array(1, 2))", "UNSUPPORTED_GENERATOR"),
        ("date'2026-01-31'", "DATATYPE_MISMATCH"),
        ("rand()", "such as rand"),
        ("monotonically_increasing_id()", "such as rand"),
    ],
)
def test_what_is_no_expression_of_a_row_is_refused_before_work(spark, tmp_path, expression, words):
    table = spark.createDataFrame([(1, COPY), (2, COPY)], "id int, text string")

    with pytest.raises(ConfigError) as caught:
        deduplicate(table, tmp_path / "out", id_column="id", keep__order=[f"sql:{expression}"])

    assert str(caught.value).startswith(f"keep.order: sql:{expression} must be an expression of Spark SQL")
    assert words in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_faults_of_a_table_are_not_those_of_an_expression(spark, tmp_path):
    table = spark.createDataFrame([(1, COPY), (2, COPY)], "id int, text string")

    for odd, words in (
        (table.withColumn("share", F.rand()), r"^input: must give the same rows each time"),
        (table.withColumns({"s": F.lit(1), "t": F.lit(2)}).toDF("id", "text", "s", "S"), r"^input: columns must have"),
    ):
        with pytest.raises((DataError, SchemaError), match=words):
            deduplicate(
                odd, tmp_path / "out", id_column="id", keep__order=["sql:s" if "s" in odd.columns else "sql:id"]
            )


def test_an_expression_that_has_no_value_in_a_row_ends_the_job_in_a_line(spark, tmp_path):
    table = spark.createDataFrame([(1, COPY), (2, "")], "id int, text string")

    with pytest.raises(DataError, match=r"^--table: Spark must find a value in every row, .*\[DIVIDE_BY_ZERO\]"):
        deduplicate(table, tmp_path / "out", id_column="id", keep__order=["sql:1 / length(text)"])


@pytest.mark.parametrize("join", [join_keys, join_texts])
def test_a_document_without_values_has_an_empty_list_which_spark_measures_at_once(join):
    """Lists that are null made a layer of Spark twice as slow."""
    assert join([], 3).to_pylist() == [[], [], []]

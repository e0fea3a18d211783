"""Rows in memory as input, by what people have in a notebook, and the result shown there."""

import html
import re
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dedup
from dedup.keywords import Keywords, Options
from dedup.settings.files import find_field, list_settings, name_setting
from dedup.settings.rules import Records, Texts

WORDS = " ".join(f"word{number}" for number in range(40))
ROWS = [
    {"id": 1, "text": WORDS, "day": "2026-01-01"},
    {"id": 2, "text": WORDS + " end", "day": None},
    {"id": 3, "text": "something else entirely", "day": "2026-01-03"},
]


def find_duplicates(given, **options):
    return dedup.deduplicate(given, id_column="id", engine="memory", **options)


def make_pandas():
    frame = pd.DataFrame({"id": [1, 2, 3], "text": [row["text"] for row in ROWS]}, index=["x", "y", "z"])
    return frame.assign(share=pd.array([1, None, 3], dtype="Int64"), at=pd.to_datetime(["2026-01-01"] * 3))


def test_a_frame_of_pandas_comes_back_with_its_types_and_labels():
    frame = make_pandas()
    result = find_duplicates(frame)

    pd.testing.assert_frame_equal(result.kept, frame.loc[["x", "z"]])
    pd.testing.assert_frame_equal(result.removed, frame.loc[["y"]])
    assert result.duplicates[["id", "representative_id"]].to_numpy().tolist() == [[2, 1]]
    assert isinstance(result.edges, pd.DataFrame)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pd.ArrowDtype(pa.list_(pa.int8())), [[1], None, []]),
        (pd.ArrowDtype(pa.struct({"a": pa.int8()})), [{"a": 1}, None, {"a": None}]),
        (pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())), ["a", None, "b"]),
        (pd.ArrowDtype(pa.decimal128(5, 2)), [1, None, 3]),
        (pd.StringDtype("pyarrow"), ["a", None, "b"]),
        (pd.StringDtype(na_value=np.nan), ["a", None, "b"]),
    ],
    ids=str,
)
def test_types_that_pandas_does_not_know_by_name_come_back(kind, values):
    frame = make_pandas().assign(kind=pd.array(values, dtype=kind))
    result = find_duplicates(frame)

    pd.testing.assert_frame_equal(result.kept, frame.loc[["x", "z"]])
    assert result.duplicates["kind"].tolist() == ["near"]


def test_objects_beside_types_of_arrow_keep_their_own_nulls():
    of_arrow = pd.array(["a", None, "b"], dtype=pd.ArrowDtype(pa.string()))
    frame = make_pandas().assign(kind=of_arrow, note=pd.Series(["a", None, "b"], ["x", "y", "z"], dtype=object))
    frame.loc["x", "note"] = None

    assert find_duplicates(frame).kept["note"].tolist() == [None, "b"]


def test_names_and_labels_of_any_type_come_back(tmp_path):
    frame = make_pandas().rename(columns={"share": 7, "at": ("a", 1)}).convert_dtypes(dtype_backend="pyarrow")
    frame = frame.set_index(pd.Index(pd.array(["x", "y", "z"], dtype=pd.ArrowDtype(pa.string())), name=8))
    frame = frame.assign(note=["a", None, "b"]).rename_axis(columns=9)

    pd.testing.assert_frame_equal(find_duplicates(frame).kept, frame.loc[["x", "z"]])

    numbered = frame.set_axis(range(5), axis="columns")
    marked = dedup.deduplicate(
        numbered, tmp_path / "out", id_column="0", text_column="1", output__mode="annotate", engine="memory"
    ).kept
    pd.testing.assert_frame_equal(marked[[*range(5)]], numbered.loc[["x", "z"]], check_column_type=False)
    assert marked.columns[5] == "dedup_kept"


@pytest.mark.parametrize("nulls", [False, True])
def test_labels_of_several_levels_come_back_with_types_of_arrow(nulls):
    numbers = pd.array([1, None if nulls else 2, 1], dtype=pd.ArrowDtype(pa.int8()))
    words = pd.array(["x", "y", None if nulls else "z"], dtype=pd.ArrowDtype(pa.string()))
    levels = pd.MultiIndex.from_arrays([numbers, ["u", "v", "w"], words], names=["a", 8, "a"])
    frame = make_pandas().set_index(levels)

    kept = find_duplicates(frame).kept

    pd.testing.assert_frame_equal(kept, frame.iloc[[0, 2]])
    assert kept.index.dtypes.tolist() == levels.dtypes.tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.rename(columns={"share": None}),
        lambda frame: frame.rename(columns={"share": float("nan")}),
        lambda frame: frame.set_axis(frame.columns.astype("string"), axis="columns"),
        lambda frame: frame.set_axis(pd.CategoricalIndex(frame.columns), axis="columns"),
        lambda frame: frame.set_axis(pd.MultiIndex.from_product([[*frame], [""]], names=["a", None]), axis="columns"),
        lambda frame: pd.concat({"a": frame.reset_index(drop=True)}),
        lambda frame: frame.set_index(pd.Index([1, None, 3], dtype="Int64")),
        lambda frame: frame.set_index(pd.Index(["x", None, "z"], dtype="string")),
    ],
    ids=[
        "none",
        "nan",
        "strings",
        "categories",
        "levels",
        "row numbers in levels",
        "integers with nulls",
        "strings with nulls",
    ],
)
@pytest.mark.parametrize("mode", ["filter", "annotate"])
def test_indexes_of_any_kind_come_back(tmp_path, change, mode):
    frame = change(make_pandas())
    named = {"id_column": str(frame.columns[0]), "text_column": str(frame.columns[1])}
    kept = dedup.deduplicate(frame, tmp_path / "out", **named, output__mode=mode, engine="memory").kept

    assert [*kept.columns[4:]][:1] == ([] if mode == "filter" else ["dedup_kept"])
    own = kept if mode == "filter" else kept.iloc[:, :4].set_axis(frame.columns, axis="columns")
    pd.testing.assert_frame_equal(own, frame.iloc[[0, 2]])


def test_a_class_derived_from_that_of_pandas_comes_back_as_that():
    class Named(pd.DataFrame):
        pass

    assert type(find_duplicates(Named(ROWS)).kept) is pd.DataFrame


def test_a_frame_of_polars_comes_back_with_its_types():
    frame = pl.DataFrame(ROWS, schema_overrides={"id": pl.UInt16}).with_columns(pl.col("day").cast(pl.Categorical))
    result = find_duplicates(frame)

    assert result.kept.equals(frame.filter(pl.col("id") != 2))
    assert result.kept.schema == frame.schema
    assert result.duplicates["id"].to_list() == [2]


def test_objects_of_polars_are_refused_as_nothing_can_give_them_back():
    frame = pl.DataFrame(ROWS).with_columns(pl.Series("what", [object()] * 3, dtype=pl.Object))

    with pytest.raises(dedup.ConfigError, match=r"columns that Arrow knows \(got Object of Polars in 'what'\)"):
        find_duplicates(frame)


def test_tables_of_arrow_come_back_as_tables():
    table = pa.Table.from_pylist(ROWS).cast(
        pa.schema([("id", pa.int16()), ("text", pa.large_string()), ("day", pa.string_view())])
    )
    for given in (table, table.to_batches()[0], table.to_reader()):
        kept = find_duplicates(given).kept
        assert kept.equals(pa.concat_tables([table.slice(0, 1), table.slice(2)]))


def test_chunks_of_several_dictionaries_come_back():
    chunks = [pa.array(words).dictionary_encode() for words in (["x", "y"], ["z"])]
    table = pa.Table.from_pylist(ROWS).append_column("of", pa.chunked_array(chunks))
    kept = find_duplicates(table).kept

    assert (kept.schema, kept["of"].to_pylist()) == (table.schema, ["x", "z"])


def test_dictionaries_too_large_together_are_refused_and_leave_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    halves = [pa.array([f"{half}{number}" for number in range(100)]) for half in "ab"]
    chunks = [pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), half) for half in halves]

    with pytest.raises(dedup.ConfigError, match="input: must be rows of columns that Arrow writes"):
        find_duplicates(pa.table({"id": range(200), "text": pa.chunked_array(chunks)}))
    assert list(tmp_path.iterdir()) == []


def test_a_relation_of_duckdb_comes_back_as_one():
    table = pa.Table.from_pylist(ROWS)
    relation = duckdb.from_arrow(table).filter("id < 3")
    result = find_duplicates(relation)

    assert isinstance(result.kept, duckdb.DuckDBPyRelation)
    assert result.kept.select("id, day").fetchall() == [(1, "2026-01-01")]


def test_dictionaries_come_back_as_dictionaries_with_what_only_some_have():
    result = find_duplicates([{"id": 1, "text": WORDS}, *ROWS[1:]])

    assert result.kept == [{"id": 1, "text": WORDS, "day": None}, ROWS[2]]
    assert [row["id"] for row in result.duplicates] == [2]


@pytest.mark.parametrize("mode", ["filter", "annotate", "ids"])
def test_an_output_of_rows_is_one_as_of_files(tmp_path, mode):
    result = find_duplicates(ROWS, output=tmp_path / "out", output__mode=mode, input__format="csv", name_filter="*.csv")

    assert [row["id"] for row in result.kept] == [1, 3]
    assert (tmp_path / "out" / "report.html").exists()
    assert (result.report.documents, result.report.removed) == (3, 1)


def test_nothing_is_left_of_rows_that_were_written_for_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = find_duplicates(ROWS, output=str(tmp_path / "out"))
    assert [row["id"] for row in result.kept] == [1, 3]
    with pytest.raises(dedup.SchemaError, match="must be the name of one column"):
        find_duplicates(ROWS, text_column="body")
    del result

    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([{"id": 1, "text": ["a"]}, {"id": 2, "text": 3}], "input: must be rows of columns that Arrow knows"),
        ([{"id": 2**64, "text": "a"}], "input: must be rows of columns that Arrow knows"),
        (
            pa.table([[1], ["a"], [2], [3]], ["id", "text", "x", "x"]),
            r"input: must be rows of columns of different names \(got id, text, x, x\)",
        ),
        (pl.Series([1, 2]), "input: must be rows of columns that Arrow knows"),
        (pl.LazyFrame({"id": [1]}), r"must be a path, .* or a list of dictionaries \(got LazyFrame\)"),
        (np.zeros(3), r"\(got ndarray\)"),
        ([{"id": 1}, "a.jsonl"], r"\(got list of dict, str\)"),
    ],
)
def test_what_is_no_table_is_refused(given, said):
    with pytest.raises(dedup.ConfigError, match=said):
        find_duplicates(given)


def test_rows_in_memory_and_a_session_are_refused():
    with pytest.raises(dedup.ConfigError, match=r"spark: must be None where the input is rows in memory \(got list\)"):
        find_duplicates(ROWS, spark=object())


def test_a_result_shows_its_numbers_and_a_link_to_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = find_duplicates(ROWS, output="a 'b' #1")._repr_html_()
    assert "<tr><th>removed</th><td>1</td></tr>" in shown
    assert re.findall(r'href="([^"]*)"', shown) == ["a%20%27b%27%20%231/report.html"]

    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    result = find_duplicates(ROWS, output=tmp_path / "c")
    [link] = re.findall(r'href="([^"]*)"', result._repr_html_())
    assert html.unescape(link) == (tmp_path / "c" / "report.html").as_uri()
    assert Path(link.removeprefix("file://")).exists()
    elsewhere = dedup.Result(output="s3://user:secret@bucket/out", report=result.report, read=result.read)
    assert "href" not in elsewhere._repr_html_()
    assert "secret" not in elsewhere._repr_html_()


def test_keywords_are_typed_as_the_settings_are():
    def name(key):
        last = key.rpartition(".")[2]
        return last if name_setting(last) == key else key.replace(".", "__")

    fields = {name(key): find_field(key).type for key in list_settings()}
    typed = Keywords.__annotations__
    assert list(typed) == list(fields)
    for keyword, kind in fields.items():
        if kind not in (Texts, Records):
            assert typed[keyword] == kind, keyword
    others = {"config", "preset", "settings", "overwrite", "progress", "store", "batch", "reelect"}
    assert others == Options.__annotations__.keys() - typed.keys()


TYPED = """
import pandas as pd
import pyarrow.dataset as ds
from dedup import Result, deduplicate

frame = pd.DataFrame()
kept: pd.DataFrame = deduplicate(frame, threshold=0.7, layers=["exact"], progress=False).kept
rows: list[dict[str, object]] = deduplicate([{"id": 1}], id_column="id").kept
files: ds.Dataset = deduplicate("a.jsonl", "out", preset="code").kept

def show(result: Result) -> None:
    print(result.kept)

deduplicate("a.jsonl", treshold=0.7)
deduplicate("a.jsonl", engine="sparc")
"""


def test_a_type_checker_finds_wrong_settings_and_knows_what_comes_back(tmp_path):
    from mypy import api  # noqa: PLC0415 - takes a second

    path = tmp_path / "typed.py"
    path.write_text(TYPED)
    root = Path(sys.modules["dedup"].__file__).parents[1]
    # Other options than those of scripts/test would check all of the package anew, and again the next time there.
    said, _, _ = api.run([f"--config-file={root / 'pyproject.toml'}", f"--cache-dir={root / '.mypy_cache'}", str(path)])
    wrong = {int(number) for number in re.findall(r"typed\.py:(\d+): error", said)}

    lines = TYPED.splitlines()
    assert [lines[number - 1] for number in sorted(wrong)] == lines[-2:]

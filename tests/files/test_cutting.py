"""Texts written without spans: whatever the format, only the texts change, and only where they are cut."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from dedup.files.delete_spans import Cuts, delete_spans
from dedup.files.formats.csv import delete_from_record
from dedup.files.formats.json_line import delete_from_line
from dedup.files.listing import list_files
from dedup.files.remaining import Remaining
from dedup.files.sink import write
from dedup.files.source import open_source
from dedup.files.splits import split_files
from dedup.kernels.runs.span_offsets import move_back, unite_spans

TEXTS = ["one two three", "\u00e9l\u00e8ve \U0001f600 fin", "nothing goes", "", 'quo"ted, "cells"\nof two lines']
SPANS = {0: [(4, 8)], 1: [(0, 2), (6, 8)], 4: [(3, 4), (9, 20)]}
SHORT = [delete_spans(text, *zip(*SPANS[n], strict=True)) if n in SPANS else text for n, text in enumerate(TEXTS)]
SIZES = pa.array([1, None, 3, 4, 5], pa.uint16())
KINDS = [
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())),
]


def cut_file(path, tmp_path, **columns):
    """Write the file of TEXTS without SPANS, and return where."""
    source = open_source(list_files([str(path)]), **{"id_column": "id", "text_column": "text", **columns})
    [split] = split_files(source.listing, 1 << 20)
    rows = np.concatenate([piece.batch["row"].to_numpy() for piece in source.read(split)])
    listed = [(rows[row], *span) for row, spans in SPANS.items() for span in spans if row < rows.size]
    cuts = Cuts.of(*(np.array(column, np.int64) for column in zip(*listed, strict=True)))
    none = np.empty(0, np.int64)
    write(source, 0, none, kept_folder=str(tmp_path / "kept"), cuts=cuts)
    read = [each for piece in Remaining(cuts={0: cuts}).read(source, split) for each in piece.batch["text"].to_pylist()]
    assert [text or "" for text in read] == SHORT[: rows.size]
    return tmp_path / "kept" / path.name


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_column_keeps_its_type_and_the_others_all(tmp_path, kind):
    encode = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    values = [text.encode() if encode else text for text in TEXTS]
    table = pa.table({"id": range(5), "text": pa.array(values).cast(kind), "size": SIZES}).replace_schema_metadata(
        {"a": "b"}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = pq.read_table(cut_file(tmp_path / "a.parquet", tmp_path))

    assert found.schema.equals(pq.read_schema(tmp_path / "a.parquet"), check_metadata=True)
    assert found.drop_columns(["text"]) == pq.read_table(tmp_path / "a.parquet").drop_columns(["text"])
    assert found["text"].to_pylist() == [text.encode() if encode else text for text in SHORT]


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("of", [pa.string(), pa.string_view()], ids=str)
def test_categories_of_pandas_and_polars_are_cut(tmp_path, of, rows):
    kind = pa.dictionary(pa.uint32(), of)
    values = pa.DictionaryArray.from_arrays(pa.array(range(5), pa.uint32()), pa.array(TEXTS, of))
    batch = pa.record_batch([pa.array(range(5)), values], ["id", "text"])
    with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema([("id", pa.int64()), ("text", kind)])) as writer:
        # A file has one dictionary, which a later batch may only extend.
        for begin in range(0, 5, rows):
            writer.write_batch(batch.slice(begin, rows))

    found = pa.ipc.open_file(cut_file(tmp_path / "a.arrow", tmp_path)).read_all()["text"]
    assert (found.type, found.to_pylist()) == (kind, SHORT)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_binary()])
def test_texts_that_are_no_utf8_are_cut_as_they_are_read_and_others_stay(tmp_path, kind):
    contents = [TEXTS[0].encode(), b"\xff" + TEXTS[1].encode()[2:], b"\xff stays \xfe", b""]
    table = pa.table({"id": range(4), "text": pa.array(contents, pa.binary()).cast(kind, safe=False)})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_source(list_files([str(tmp_path / "a.parquet")]), id_column="id", text_column="text")
    cuts = Cuts(*(np.array(each, np.int64) for each in ((0, 1), (4, 0), (8, 2))))
    write(source, 0, np.empty(0, np.int64), kept_folder=str(tmp_path / "kept"), cuts=cuts)

    found = pq.read_table(tmp_path / "kept" / "a.parquet")["text"].cast(pa.binary()).to_pylist()
    assert found == [SHORT[0].encode(), contents[1].decode("utf-8", "replace")[2:].encode(), *contents[2:]]


def test_a_field_of_structs_is_cut_where_it_is(tmp_path):
    bodies = [{"body": {"text": text, "n": number}, "k": None} for number, text in enumerate(TEXTS)]
    pq.write_table(pa.table({"id": range(5), "doc": bodies}), tmp_path / "a.parquet")
    found = pq.read_table(cut_file(tmp_path / "a.parquet", tmp_path, text_column="doc.body.text"))

    assert found["doc"].to_pylist() == [
        {"body": {"text": text, "n": number}, "k": None} for number, text in enumerate(SHORT)
    ]


@pytest.mark.parametrize("name", ["a.arrow", "a.orc"])
def test_other_tables_are_cut_as_well(tmp_path, name):
    table = pa.table({"id": range(5), "text": TEXTS, "more": TEXTS})
    if name == "a.orc":
        orc.write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_file(tmp_path / name, table.schema) as writer:
            writer.write_table(table)
    written = cut_file(tmp_path / name, tmp_path)
    found = orc.read_table(written) if name == "a.orc" else pa.ipc.open_file(written).read_all()

    assert found.to_pydict() == {"id": [*range(5)], "text": SHORT, "more": TEXTS}


def test_lines_keep_every_byte_but_of_the_text(tmp_path):
    lines = [
        rb'{"id": 0,"z":[{"text":"in a list"}], "text" : "one two three", "n": 1.0}' + b"\r\n\n",
        rb'{"text":"\u00e9l\u00e8ve \ud83d\ude00 fin","id":1}' + b"\n",
        rb'  {"id":2,"text":"nothing goes","text2":"x"}' + b"\n",
        rb'{"id":3,"text":""}' + b"\n",
        rb'{"text":"first of two", "id":4,"a":{"text":"y"},"text":"quo\"ted, \"cells\"\nof two lines","t":"\u00e9"}',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    written = cut_file(tmp_path / "a.jsonl", tmp_path).read_bytes()

    expected = [line.replace(b'"one two three"', b'"one three"') for line in lines]
    expected[1] = rb'{"text":"\u00e8ve fin","id":1}' + b"\n"
    expected[4] = lines[4].replace(rb'"quo\"ted, \"cells\"\nof two lines"', json.dumps(SHORT[4]).encode())
    assert written == b"".join(expected)


def test_cells_keep_every_byte_but_of_the_text(tmp_path):
    quoted = '"' + TEXTS[4].replace('"', '""') + '"'
    content = "id,text,n\r\n" + f"0,one two three,a\r\n1,{TEXTS[1]},\r\n2,nothing goes,\r\n3,,x\r\n4,{quoted},last"
    (tmp_path / "a.csv").write_bytes(content.encode())
    written = cut_file(tmp_path / "a.csv", tmp_path).read_bytes().decode()

    expected = f"id,text,n\r\n0,one three,a\r\n1,{SHORT[1]},\r\n2,nothing goes,\r\n3,,x\r\n"
    assert written == expected + '4,"' + SHORT[4].replace('"', '""') + '",last'


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_text_is_compressed_as_it_was(ending, tmp_path):
    (tmp_path / f"a.txt{ending}").write_bytes(gzip.compress(TEXTS[0].encode()) if ending else TEXTS[0].encode())
    written = cut_file(tmp_path / f"a.txt{ending}", tmp_path, id_column="").read_bytes()

    assert (gzip.decompress(written) if ending else written).decode() == SHORT[0]


@given(text=st.text(), key=st.text(), ends=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_any_text_of_a_line_is_cut_as_python_cuts_it(text, key, ends):
    begin, end = sorted(min(each, len(text)) for each in ends)
    record = {key: [text, {"text": text}], "text": text, "last": key}
    for is_ascii in (True, False):
        written = json.dumps(record, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        found = json.loads(delete_from_line(written, "text", [begin], [end]).decode("utf-8", "surrogatepass"))
        assert found == record | {"text": text[:begin] + text[end:]}


def test_a_record_is_cut_behind_a_byte_order_mark_and_quotes():
    assert delete_from_record(b'\xef\xbb\xbf"a","b c",d\n', 1, [1], [2]) == b'\xef\xbb\xbf"a","bc",d\n'
    assert delete_from_record(b'a,"x,""y""",d', 1, [2], [5]) == b'a,"x,",d'


def test_a_record_of_one_cell_that_is_cut_whole_stays_a_record(tmp_path):
    (tmp_path / "a.csv").write_text("text\r\nall of it\r\nlast")
    source = open_source(list_files([str(tmp_path / "a.csv")]), id_column="", text_column="text")
    cuts = Cuts.of(*(np.array(each, np.int64) for each in ([0, 1], [0, 0], [9, 2])))

    write(source, 0, np.empty(0, np.int64), kept_folder=str(tmp_path / "kept"), cuts=cuts)

    assert (tmp_path / "kept" / "a.csv").read_bytes() == b'text\r\n""\r\nst'


@given(
    lost=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 4)), max_size=4),
    span=st.tuples(st.integers(0, 20), st.integers(1, 6)),
)
def test_a_span_of_what_is_left_is_found_again_in_the_whole_text(lost, span):
    whole = "".join(chr(97 + number) for number in range(26))
    listed = np.array([(begin, begin + size) for begin, size in lost], np.int64).reshape(-1, 2)
    cuts = unite_spans(listed[:, 0], listed[:, 1])
    left = delete_spans(whole, cuts[0].tolist(), cuts[1].tolist())
    begin, end = min(span[0], len(left) - 1), min(sum(span), len(left))
    [first], [last] = move_back(np.array([begin]), np.array([end]), cuts)

    moved = set(whole[first:last])
    assert set(left[begin:end]) <= moved
    assert (whole[first], whole[last - 1]) == (left[begin], left[end - 1])
    assert moved - set(left[begin:end]) <= set(whole) - set(left)

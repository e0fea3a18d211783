"""What is read: the same documents from every format, in splits of any size, and errors that name the place."""

import csv
import io
import json
import pickle
import threading
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from dedup.errors import DataError, SchemaError
from dedup.files.formats import csv as cells
from dedup.files.formats import jsonl, records
from dedup.files.listing import COMPRESSIONS, Listing, list_files
from dedup.files.source import open_source
from dedup.files.splits import MOST_SHARES, split_files
from dedup.run.local import list_splits

COUNT = 120
TEXTS = [
    None if row % 11 == 0 else ("é" if row % 7 else "") + f'word {row}, "q"\r\n' * (row % 30) for row in range(COUNT)
]
TABLE = pa.table(
    {
        "id": range(COUNT),
        "text": TEXTS,
        "meta": [{"body": text} for text in TEXTS],
        "src": [f"s{row % 3}" for row in range(COUNT)],
    }
)
NAMES = ["a.parquet", "a.arrow", "a.arrows", "a.orc", "a.jsonl", *(f"a.jsonl.{each}" for each in COMPRESSIONS), "a.csv"]


def place(folder, name):
    """Write TABLE as a file of this name."""
    path = folder / name
    if name == "a.parquet":
        pq.write_table(TABLE, path, row_group_size=20)
    elif name == "a.orc":
        orc.write_table(TABLE, path, stripe_size=1000)
    elif name.startswith("a.arrow"):
        opener = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        with opener(str(path), TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=20)
    elif name == "a.csv":
        with path.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "text", "meta.body", "src"])
            writer.writerows([row["id"], row["text"], row["text"], row["src"]] for row in TABLE.to_pylist())
    else:
        codec = COMPRESSIONS.get(name.rpartition(".")[2])
        with pa.CompressedOutputStream(str(path), codec) if codec else path.open("wb") as stream:
            stream.write(b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist()))
    return path


def read(path, split_bytes=1 << 20, rows=None, **columns):
    listing = list_files([str(path)])
    source = pickle.loads(pickle.dumps(open_source(listing, **{"id_column": "id", "text_column": "text", **columns})))  # noqa: S301
    return [piece for split in split_files(listing, split_bytes) for piece in source.read(split, rows)]


def column(pieces, name):
    return [value for piece in pieces for value in piece.batch.column(name).to_pylist()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["text", "meta.body"])
def test_every_format_gives_the_same_documents_in_splits_of_any_size(tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(records, "BLOCK_BYTES", 1000)
    path = place(tmp_path, name)
    first = None
    for split_bytes in (100, 5000, 1 << 30):
        pieces = read(path, split_bytes, text_column=text, source_column="src")
        found = [column(pieces, each) for each in ("id", "text", "source", "row")]
        expected = [text or None for text in TEXTS] if name == "a.csv" else TEXTS
        assert list(map(int, found[0])) == list(range(COUNT))
        assert found[1:3] == [expected, TABLE["src"].to_pylist()]
        assert found[3] == sorted(set(found[3]))
        first = first or found
        assert found == first


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("cores", range(1, 7))
def test_splits_share_the_rows_of_a_group_that_is_more_than_the_part_of_a_core(tmp_path, groups, cores):
    table = pa.table({"id": range(COUNT), "text": [f"{row:0200}" for row in range(COUNT)]})
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=COUNT // groups, **options)
    listing = list_files([str(tmp_path)])
    source = open_source(listing, id_column="id", text_column="text")

    splits = split_files(listing, 100, cores)
    assert len(splits) == groups * min(-(-cores // groups), MOST_SHARES)
    for rows in (None, np.array([0, 59, 60, 61, COUNT - 1])):
        read = [[*source.read(split, None if rows is None else {0: rows})] for split in splits]
        for name in ("row", "id"):
            found = [value for pieces in read for value in column(pieces, name)]
            assert found == list(range(COUNT) if rows is None else rows)
        # Shares are alike, so that no core waits for another.
        sizes = [sum(piece.batch.num_rows for piece in pieces) for pieces in read]
        assert rows is not None or max(sizes) - min(sizes) <= 1
    [kind] = {file.format for file in listing.every}
    numbers = [
        number for split in splits for each, _ in kind.read_rows(listing.every[0], split.parts[0]) for number in each
    ]
    assert numbers == list(range(COUNT))


def test_a_search_in_this_process_shares_a_group(tmp_path):
    write = partial(pq.write_table, pa.table({"text": [f"{row:010000}" for row in range(200)]}), compression="none")
    write(tmp_path / "a.parquet", use_dictionary=False)
    listing = list_files([str(tmp_path)])

    for cores in (1, 2):
        splits = list_splits(listing, cores, asks_all=False)
        assert [split.parts[0].share for split in splits] == [(number, cores) for number in range(cores)]


def test_a_group_of_no_more_than_the_part_of_a_core_stays_whole(tmp_path):
    for name in ("a", "b"):
        pq.write_table(TABLE, tmp_path / f"{name}.parquet")
    splits = split_files(list_files([str(tmp_path / f"{name}.parquet") for name in ("a", "b")]), 100, 2)

    assert [part.share for split in splits for part in split.parts] == [(0, 1), (0, 1)]


def test_no_split_has_files_of_the_input_and_others(tmp_path):
    for name, rows in (("own", 2), ("large", TABLE.num_rows), ("small", 2)):
        pq.write_table(TABLE.slice(0, rows), tmp_path / f"{name}.parquet", row_group_size=50)
    own, *others = (list_files([str(tmp_path / f"{name}.parquet")]).files[0] for name in ("own", "large", "small"))

    splits = split_files(Listing(files=(own,), foreign=tuple(others)), max(own.size, others[1].size) * 3)

    assert [{part.file for part in split.parts} for split in splits[:1] + splits[-1:]] == [{0}, {2}]
    assert len(splits) > 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("split_bytes", [100, 1 << 30])
def test_chosen_rows_are_read_alone(tmp_path, monkeypatch, name, split_bytes):
    monkeypatch.setattr(records, "BLOCK_BYTES", 1000)
    path = place(tmp_path, name)
    pieces = read(path)
    texts = dict(zip(column(pieces, "row"), column(pieces, "text"), strict=True))
    chosen = np.array(sorted(texts))[[0, 1, 77, 78, 100, COUNT - 1]]

    found = read(path, split_bytes, {0: chosen})

    assert column(found, "row") == chosen.tolist()
    assert column(found, "text") == [texts[row] for row in chosen.tolist()]
    assert read(path, split_bytes, {}) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.arrows"])
def test_chosen_rows_of_string_views_are_read_alone(tmp_path, name):
    """Pyarrow takes none by their places, and joins no batches where there is none."""
    table = pa.table({"id": range(600), "text": pa.array([f"text {n}" for n in range(600)], pa.string_view())})
    if name == "a.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_stream(str(tmp_path / name), table.schema) as writer:
            writer.write_table(table, max_chunksize=100)

    found = read(tmp_path / name, rows={0: np.array([150, 151, 599])})

    assert column(found, "text") == ["text 150", "text 151", "text 599"]
    assert column(read(tmp_path / name, rows={0: np.array([0])}), "text") == ["text 0"]


@pytest.mark.parametrize("name", NAMES[:-1])
def test_without_an_id_column_equal_rows_have_one_id_in_every_format(tmp_path, name):
    digests = column(read(place(tmp_path, name), id_column=""), "id")

    assert digests == column(read(place(tmp_path, "a.parquet"), id_column=""), "id")
    assert len(set(digests)) == COUNT
    assert {len(each) for each in digests} == {32}


def test_integers_of_any_width_tell_rows_apart(tmp_path):
    wide = [f'{{"text": "", "n": {sign}{18446744073709551620 + n}}}' for n in range(3) for sign in ("", "-")]
    nested = ['{"text": "", "n": [{"a": 1e30}]}', '{"text": "", "n": [{"a": 1000000000000000000000000000000}]}']
    (tmp_path / "a.jsonl").write_text("\n".join([*wide, *nested]))

    assert len({*column(read(tmp_path, id_column=""), "id")}) == len(wide) + len(nested)


LINES = st.lists(st.sampled_from([b'{"id":1,"text":"a"}', b"", b"  ", b'{"text":"bcd","id":2}', b" {}"]), max_size=8)

ENDS = [(b"\n", True), (b"\n", False), (b"\r\n", True), (b"\r\n", False)]


@settings(deadline=None)
@given(lines=LINES, block=st.integers(1, 50), size=st.integers(1, 60), end=st.sampled_from(ENDS))
def test_lines_are_cut_where_they_end(tmp_path_factory, lines, block, size, end):
    newline, is_ended = end
    content = newline.join(lines) + newline * is_ended
    expected, begin = [], 0
    for line in content.split(b"\n"):
        if line.strip():
            expected.append((begin, line.strip()))
        begin += len(line) + 1
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_BYTES", block)
        found = []
        for begin in range(0, max(len(content), 1), size):
            with path.open("rb") as stream:
                stream.seek(max(begin - 1, 0))
                for each in jsonl.read_lines(stream, begin, min(begin + size, len(content))):
                    numbers = zip(each.rows.tolist(), each.lines(), strict=True)
                    found.extend((row, line.strip()) for row, line in numbers)
    assert found == expected


# A byte order mark that begins no file is a character.
CELL = st.text(st.sampled_from('ab",\r\n é\ufeff'), max_size=5)


@settings(deadline=None)
@given(rows=st.lists(st.lists(CELL, min_size=2, max_size=2), min_size=1, max_size=6), block=st.integers(1, 40))
def test_cells_are_those_that_python_writes(tmp_path_factory, rows, block):
    path = tmp_path_factory.mktemp("cells") / "a.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([["id", "text"], *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "BLOCK_BYTES", block)
        pieces = read(path)
    assert column(pieces, "id") == [row[0] or None for row in rows]
    assert column(pieces, "text") == [row[1] or None for row in rows]
    assert column(pieces, "row") == list(range(len(rows)))


@pytest.mark.parametrize("content", [b"\n\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b" \r\n"])
def test_a_file_of_cells_without_any_has_no_row(tmp_path, content):
    (tmp_path / "a.csv").write_text("id,text\n1,one\n")
    (tmp_path / "b.csv").write_bytes(content)

    assert column(read(tmp_path), "text") == ["one"]


@pytest.mark.parametrize("block", [4, 1000])
def test_of_one_column_spaces_are_a_value_and_of_several_a_blank_line(tmp_path, monkeypatch, block):
    monkeypatch.setattr(records, "BLOCK_BYTES", block)
    (tmp_path / "one.csv").write_text(" \ntext\na b\n  \n\nc\n \n")
    (tmp_path / "comma.csv").write_text('"a,b"\na b\n  \n')
    (tmp_path / "two.csv").write_text(" \nid,text\n1,a b\n  \n\n2,c\n")

    assert column(read(tmp_path / "one.csv", id_column=""), "text") == ["a b", "  ", "c", " "]
    assert column(read(tmp_path / "comma.csv", id_column="", text_column="a,b"), "text") == ["a b", "  "]
    assert column(read(tmp_path / "two.csv"), "text") == ["a b", "c"]


def test_a_header_may_come_after_more_blank_lines_than_are_read_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "BLOCK_BYTES", 4)
    (tmp_path / "a.csv").write_text("\ufeff" + 9 * "\n" + "id,text\n1,one\n")
    [file] = list_files([str(tmp_path / "a.csv")]).files

    assert file.format.list_columns(file) == ["id", "text"]
    with pytest.raises(SchemaError, match=r"input.text_column"):
        read(tmp_path, text_column="body")


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\xef\xbb\xbf \r\n{}"])
def test_a_mark_alone_is_no_line(tmp_path, content):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "one"}')
    (tmp_path / "b.jsonl").write_bytes(content.replace(b"{}", b'{"id": 2, "text": "two"}'))

    assert column(read(tmp_path), "text") == ["one", "two"][: 1 + content.endswith(b"}")]


@settings(deadline=None)
@given(content=st.text(st.sampled_from('ab",\n'), max_size=30))
def test_stray_quotes_part_cells_as_in_python(content):
    blocks = list(cells.read_cells(io.BytesIO(content.encode()), count_commas=True))
    found = [int(count) + 1 for block in blocks for count in block.commas if count >= 0]
    expected = [len(row) for row in csv.reader(content.splitlines(keepends=True)) if row]

    if all(count >= 0 for block in blocks for count in block.commas):
        assert found == expected
    assert "".join(block.data.decode() for block in blocks) == content


ODD = [
    (b'{"id": 1, "text": "a", "text": "b"}', "b"),
    (b'{"id": 1, "text": "a", "Text": "b", "z": NaN, "y": 1e999}', "a"),
    (b'{"id": 1, "text": "\\ud800 half"}', "\ufffd half"),
    (b'{"id": 1, "text": "\xff broken"}', "\ufffd broken"),
    (b'{"id": 1, "text": "nul\\u0000", "z": 123456789012345678901234567890}', "nul\0"),
    (b'\xef\xbb\xbf{"id": 1, "text": "mark"}\r', "mark"),
    (b'  {"id": 1, "text": null}  ', None),
    (b'{"id": 1}', None),
]


@pytest.mark.parametrize(("line", "text"), ODD)
@pytest.mark.parametrize("end", [b"\n", b""])
def test_odd_lines_are_read_exactly(tmp_path, line, text, end):
    (tmp_path / "b.jsonl").write_bytes(b'{"id": 0, "text": "first"}')
    (tmp_path / "a.jsonl").write_bytes(line + end)

    pieces = read(tmp_path)

    assert (column(pieces, "id"), column(pieces, "text")) == ([1, 0], [text, "first"])


ONE = b'{"id": 1, "text": "a"}'
WHOLE = b'{"id": 0, "text": "a"}\n'
BROKEN = [b'{"id": 7, "text": "cut sho', b"no json", b'"a string"', b'{"id": 8} }}', b"[" * 100_000, b"[1]"]


@pytest.mark.parametrize("line", BROKEN)
@pytest.mark.parametrize("split_bytes", [10, 1 << 20])
def test_a_line_that_is_no_object_is_named_or_set_aside(tmp_path, line, split_bytes):
    path = tmp_path / "a.jsonl"
    path.write_bytes(WHOLE * 2 + b"\n" + line + b"\n" + WHOLE)

    with pytest.raises(DataError, match=r"every record must be whole .* in .*/a\.jsonl, line 4\); mend them"):
        read(path, split_bytes)
    pieces = read(path, split_bytes, on_bad_record="quarantine")

    [rejected] = [each for piece in pieces for each in piece.rejected]
    assert (rejected.file, rejected.row) == (str(path), 2 * len(WHOLE) + 1)
    assert (rejected.reason, rejected.record) == ("no JSON object", line.decode())
    assert column(pieces, "id") == [0, 0, 0]


def test_records_of_more_or_fewer_cells_are_named_or_set_aside(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,text\n1,"a\ntext"\n2\n3,"another, quoted"\n4,too,many\n5,"never closed\n')

    with pytest.raises(DataError, match=r"\(got more or fewer cells than the header: '2' in .*/a\.csv, line 4\)"):
        read(path)
    pieces = read(path, on_bad_record="quarantine")

    rejected = [(each.row, each.record) for piece in pieces for each in piece.rejected]
    assert rejected == [(1, "2"), (3, "4,too,many"), (4, '5,"never closed')]
    assert column(pieces, "row") == [0, 2]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [b'{"id": 1, "text": "a"}'] * 200 + [b'{"id": "x", "text": "a"}'],
            r"'id' must be an integer .*\"x\".*line 201",
        ),
        ([ONE, b'{"id": "x", "text": "a"}'], r"'id' must be a string, .*got 1 .*line 1\)"),
        ([b'{"id": 9223372036854775808, "text": "a"}'], r"'id' must be an integer of 64 bits, .*line 1\)"),
        (
            [b'{"id": 1, "text": "a"}', b'{"id": 2, "text": ["a"]}'],
            r"'text' must be a string \(got \[\"a\"\].*line 2\)",
        ),
    ],
)
def test_values_of_another_type_are_named(tmp_path, lines, message):
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))

    with pytest.raises(DataError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.orc", *(f"a.jsonl.{each}" for each in COMPRESSIONS)])
def test_a_file_cut_short_is_named(tmp_path, name):
    path = place(tmp_path, name)
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(DataError, match=rf"{name} cannot be read|every record must be whole .*{name}"):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1], "text": [["a", "b"]]}, r"column 'text' must be a string \(got list<"),
        ({"id": [1.5], "text": ["a"]}, r"column 'id' must be an integer or a string \(got double in .*a\.parquet\)"),
        ({"id": [1], "body": ["a"]}, r"must be the name of one column of the input \(got 'text', .* has id, body\)"),
        ({"id;text": ["1;a"]}, r"got 'id', .* has id;text; cells of csv are divided by commas\)"),
    ],
)
def test_columns_that_cannot_serve_are_refused_by_name(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")

    with pytest.raises(SchemaError, match=message):
        read(tmp_path)


def test_ids_of_two_types_are_refused(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["x"], "text": ["a"]}), tmp_path / "b.parquet")

    with pytest.raises(SchemaError, match=r"must be alike in all files \(got string in .*b\.parquet, int64"):
        read(tmp_path)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())])
def test_texts_of_every_string_type_serve(tmp_path, kind):
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), pa.schema([("text", kind), ("id", kind)])) as writer:
        writer.write_batch(pa.record_batch([pa.array(["a", None], kind), pa.array(["x", "y"], kind)], ["text", "id"]))

    pieces = read(tmp_path)

    assert (column(pieces, "id"), column(pieces, "text")) == (["x", "y"], ["a", None])


def test_bytes_are_read_as_utf8_with_replacement(tmp_path):
    texts = [b"\xff\xfe broken \xc3(", b"nul\0 within", None, "é".encode()]
    pq.write_table(pa.table({"id": range(4), "text": pa.array(texts, pa.binary())}), tmp_path / "a.parquet")

    found = column(read(tmp_path), "text")

    assert found == [None if each is None else each.decode("utf-8", "replace") for each in texts]


def test_a_column_of_the_very_name_goes_before_a_field(tmp_path):
    rows = {"id": [1], "a.b": ["whole"], "a": [{"b": "field"}]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert column(read(tmp_path, text_column="a.b"), "text") == ["whole"]

    pq.write_table(pa.table(rows).drop(["a.b"]), tmp_path / "a.parquet")
    assert column(read(tmp_path, text_column="a.b"), "text") == ["field"]


def test_a_text_file_is_a_document_and_its_path_the_id(tmp_path):
    names = ["a+b 100%.txt", "deep/ü.txt", "empty.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"" if "empty" in name else f"{name}\r\n".encode())

    pieces = read(tmp_path, id_column="")

    assert column(pieces, "id") == [str(tmp_path / name) for name in names]
    assert column(pieces, "text") == ["a+b 100%.txt\r\n", "deep/ü.txt\r\n", ""]
    assert len(split_files(list_files([str(tmp_path)]), 1 << 20)) == 1


def meet(work, barrier):
    """Return a function that waits until another thread does the same."""

    def act(*given):
        barrier.wait(timeout=10)
        return work(*given)

    return act


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv"])
def test_files_that_a_store_gives_are_looked_at_side_by_side(tmp_path, monkeypatch, name):
    for number in range(4):
        place(tmp_path, name).rename(tmp_path / f"{number}-{name}")
    listing = list_files([str(tmp_path)])
    found = open_source(listing, id_column="id", text_column="text"), split_files(listing, 1000)
    monkeypatch.setattr("dedup.files.formats.format.is_local", lambda _: False)
    barrier, kind = threading.Barrier(2), type(listing.format)
    for owner, step in ((kind, "split"), (jsonl, "_peek") if kind is jsonl.JsonlFormat else (kind, "schemas")):
        monkeypatch.setattr(owner, step, meet(getattr(owner, step), barrier))

    assert (open_source(listing, id_column="id", text_column="text"), split_files(listing, 1000)) == found


def test_the_first_of_several_files_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    for number in range(40):
        (tmp_path / f"{number:02}.csv").write_bytes(b"id,text\n" if number % 9 else b"id,\xff\n")
    monkeypatch.setattr("dedup.files.formats.format.is_local", lambda _: False)

    with pytest.raises((DataError, SchemaError), match=r"/00\.csv"):
        open_source(list_files([str(tmp_path)]), id_column="id", text_column="text")

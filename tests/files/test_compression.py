"""Files of bzip2 of several streams."""

import bz2
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup import deduplicate
from dedup.errors import DataError
from dedup.files import compression
from tests.strategies import runs

EMPTY = bz2.compress(b"")


@runs(100)
@given(
    parts=st.lists(st.integers(0, 40).map(lambda size: Random(size).randbytes(size)), max_size=5),
    sizes=st.integers(1, 50),
    read=st.integers(1, 200),
)
def test_streams_are_read_as_one_whichever_are_empty(parts, sizes, read):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "READ_BYTES", read)
        stream = compression.Bzip2Stream(pa.BufferReader(b"".join(map(bz2.compress, parts))))
        found = [*iter(lambda: stream.read(sizes), b"")]

    assert b"".join(found) == b"".join(parts)
    assert all(len(each) == sizes for each in found[:-1])


@pytest.mark.parametrize("behind", [b"garbage", b"\0", b"BZh", EMPTY + b"\n", EMPTY[:-1], EMPTY + EMPTY[:5]])
def test_what_is_no_stream_is_refused_and_not_left_out(tmp_path, behind):
    lines = b'{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}\n'
    (tmp_path / "a.jsonl.bz2").write_bytes(bz2.compress(lines) + EMPTY + bz2.compress(b'{"id": 3, "text": "A"}\n'))
    result = deduplicate(str(tmp_path / "a.jsonl.bz2"), str(tmp_path / "out"), id_column="id", engine="memory")
    assert result.kept.to_table()["id"].to_pylist() == [1, 2]

    (tmp_path / "b.jsonl.bz2").write_bytes(bz2.compress(lines) + behind)
    with pytest.raises(DataError, match=r"b\.jsonl\.bz2 cannot be read as jsonl"):
        deduplicate(str(tmp_path / "b.jsonl.bz2"), str(tmp_path / "bad"), id_column="id", engine="memory")

"""What files are likely to hold, from a few of them."""

import gzip
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.files.listing import list_files

TEXTS = [f"document number {number} of a corpus, " * 10 for number in range(300)]


def guess(folder):
    listing = list_files([str(folder)])
    return listing.format.guess(listing.files, "text")


def write(folder, kind, texts):
    if kind == "parquet":
        pq.write_table(pa.table({"text": texts, "n": range(len(texts))}), folder / "a.parquet", compression="zstd")
    elif kind == "txt":
        for number, text in enumerate(texts):
            (folder / f"{number}.txt").write_text(text)
    else:
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
        (folder / f"a.{kind}").write_bytes(gzip.compress(lines, 1) if kind == "jsonl.gz" else lines)


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "txt"])
def test_documents_and_text_are_guessed_within_a_tenth(tmp_path, kind):
    write(tmp_path, kind, TEXTS)

    found = guess(tmp_path)

    assert found.documents == pytest.approx(len(TEXTS), rel=0.1)
    assert found.text_bytes >= sum(map(len, TEXTS)) * 0.9


@pytest.mark.parametrize(
    # Of text that repeats itself, zstd makes less than gzip does.
    ("texts", "most"),
    [(TEXTS, 5), ([random.Random(n).randbytes(200).hex() for n in range(300)], 1.5)],
)
def test_of_compressed_lines_length_and_size_are_known(tmp_path, texts, most):
    write(tmp_path, "jsonl.gz", texts)

    found = guess(tmp_path)

    line = len(json.dumps({"text": texts[0]}))
    assert found.text_bytes / found.documents == pytest.approx(line, rel=0.1)
    assert line * len(texts) <= found.text_bytes * 1.02 < most * line * len(texts)


def test_files_of_no_bytes_hold_nothing(tmp_path):
    (tmp_path / "a.jsonl").touch()

    assert guess(tmp_path).documents == 0

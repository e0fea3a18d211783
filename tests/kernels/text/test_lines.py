"""Lines and paragraphs, held against their definition in Python."""

from hashlib import blake2b
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text.lines import read_lines
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.oracles import token_hash, tokens

TEXTS = st.lists(
    st.none() | st.text(max_size=9) | st.text("aé漢😀.\n\r \t\u2028\u3000\x85", max_size=40),
    max_size=5,
)


def cut(text, by_paragraph):
    """Return the lines of a text, or its paragraphs, as they stand there."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    lines = lines if lines[-1] else lines[:-1]
    if not by_paragraph:
        return lines
    # Runs of blank lines belong to what stands before them.
    found = []
    for is_blank, run in groupby(lines, lambda line: not line.strip()):
        joined = "".join(run)
        if is_blank and found:
            found[-1] += joined
        else:
            found.append(joined)
    return found


def expect(text, *, key=b"", by_paragraph, by_tokens, least):
    """Return where the lines that count begin and end, and their digests."""
    found, begin = [], 0
    for line in cut(text or "", by_paragraph):
        said = line.strip()
        hashes = [token_hash(token, 1) for token in tokens(said)]
        content = np.array(hashes, dtype="<u8").tobytes() if by_tokens else said.encode()
        if len(said) >= least and (hashes or not by_tokens):
            high, low = np.frombuffer(blake2b(content, digest_size=16, key=key).digest(), np.int64).tolist()
            found.append((begin, begin + len(line), high, low))
        begin += len(line)
    return found


def read(texts, key=b"", least=1, **options):
    found = read_lines(pa.array(texts, pa.string()), UnicodeWords(key=key), min_characters=least, **options)
    rows = list(zip(*(column.tolist() for column in found[1:5]), strict=True))
    assert len(rows) == found.offsets[-1]
    # Equal digests have one number, and others another.
    numbered = set(zip(found.numbers.tolist(), (row[2:] for row in rows), strict=True))
    assert len(numbered) == len({row[2:] for row in rows}) == len(set(found.numbers.tolist()))
    return [rows[begin:end] for begin, end in zip(found.offsets, found.offsets[1:], strict=False)]


@given(TEXTS, st.booleans(), st.booleans(), st.integers(0, 5))
def test_lines_are_those_of_the_definition(texts, by_paragraph, by_tokens, least):
    options = {"by_paragraph": by_paragraph, "by_tokens": by_tokens, "least": least}
    expected = [expect(text, **options | {"least": max(least, 1)}) for text in texts]
    assert read(texts, **options) == expected


@pytest.mark.parametrize("by_paragraph", [False, True])
def test_white_space_is_what_python_takes_for_it(by_paragraph):
    spaces = [char for char in map(chr, range(0x110000)) if char.isspace()]
    texts = [f"{char}a{char}\n{char}\nb{char}c" for char in map(chr, range(0x3100))] + spaces + ["".join(spaces) + "a"]
    options = {"by_paragraph": by_paragraph, "by_tokens": False}
    assert len(spaces) == 29
    assert read(texts, **options) == [expect(text, least=1, **options) for text in texts]


def test_a_key_changes_digests_and_slices_change_nothing():
    texts = ["left out\nsame", "one\ntwo\n\none", None, "one"]
    array = pa.array(texts, pa.large_string()).slice(1)
    options = {"by_paragraph": False, "by_tokens": False}
    found = read_lines(array, UnicodeWords(key=b"k" * 16), min_characters=1, **options)
    expected = [row for text in texts[1:] for row in expect(text, key=b"k" * 16, least=1, **options)]
    assert list(zip(*(column.tolist() for column in found[1:5]), strict=True)) == expected
    assert found.offsets.tolist() == [0, 3, 3, 4]

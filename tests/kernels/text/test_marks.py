"""NFKC of long runs of marks: the same as from the Unicode database, in time that grows with their number."""

import time
import unicodedata
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text import marks
from dedup.kernels.text.marks import to_nfkc

CHARACTERS = [char for char in map(chr, range(0x110000)) if not "\ud800" <= char < "\ue000"]


@cache
def list_marks():
    return [char for char in CHARACTERS if unicodedata.combining(unicodedata.normalize("NFKD", char)[0])]


# No worker but the one of these tests looks for them.
RUNS = st.text(
    st.deferred(lambda: st.sampled_from(list_marks())) | st.sampled_from("\u0301\u0323\u0327\u0344\u0f73\uff9e"),
    max_size=80,
)
TEXTS = st.lists(st.tuples(RUNS, st.text(max_size=3) | st.sampled_from("aé각ΣİｶA\n")), max_size=4)


def test_all_that_unicode_tests_has_its_form(monkeypatch):
    # The cases of NormalizationTest.txt, by the data of the Python at work: every character by itself, and every mark
    # behind and before marks of other classes. Line feeds part the cases.
    monkeypatch.setattr(marks, "SHORT", 0)
    around = [f"a\u0315\u0300\u05ae{mark}b\na{mark}\u0315\u0300\u05aeb" for mark in list_marks()]
    text = "\n".join([*CHARACTERS, *around])
    assert len(list_marks()) > 900
    assert to_nfkc(text) == unicodedata.normalize("NFKC", text)
    decomposed = unicodedata.normalize("NFKD", text)
    assert to_nfkc(decomposed) == unicodedata.normalize("NFKC", text)


@given(TEXTS, st.sampled_from([0, 1, marks.SHORT]))
def test_runs_have_the_form_that_insertion_gives_them(parts, short):
    text = "".join(run + between for run, between in parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "SHORT", short)
        assert to_nfkc(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize("pool", ["\u0301\u0323\u0327\u0345\u05b0", "\u0344\u0323", "\u0f73\u0f72"])
def test_a_megabyte_of_marks_takes_no_square(pool):
    # By insertion the first takes a quarter of an hour.
    text = "a" + pool * 100_000
    begin = time.process_time()
    normal = to_nfkc(text)
    assert time.process_time() - begin < 10
    assert normal[1:3] in unicodedata.normalize("NFKC", "a" + pool * 9)

"""Where tokens stand, held against tokenising what stands there."""
# ruff: noqa: RUF001 - letters that look alike are wanted

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.places import locate
from dedup.kernels.text import Contract, tokenise
from tests import oracles
from tests.strategies import documents

CONTRACTS = st.builds(
    Contract,
    case=st.sampled_from(["lower", "keep"]),
    accents=st.sampled_from(["keep", "drop"]),
    digits=st.sampled_from(["keep", "zero"]),
    tokens=st.sampled_from(["words", "punctuation", "whitespace"]),
)


@given(texts=documents(), contract=CONTRACTS)
def test_every_token_that_is_hashed_has_a_place(texts, contract):
    array = pa.array(texts, pa.string())
    found = locate(array, contract)
    assert found.offsets.tolist() == tokenise(array, contract)[1].tolist()
    for number, text in enumerate(texts):
        own = slice(found.offsets[number], found.offsets[number + 1])
        begins, ends = found.begins[own].tolist(), found.ends[own].tolist()
        assert begins == sorted(begins)
        assert ends == sorted(ends)
        assert all(0 <= begin < end <= len(text) for begin, end in zip(begins, ends, strict=True))
        rules = {name: getattr(contract, name) for name in ("case", "accents", "digits", "tokens")}
        for token, begin, end in zip(oracles.tokens(text, **rules), begins, ends, strict=True):
            said = oracles.tokens(text[begin:end], **rules)
            assert token.replace("ς", "σ") in [each.replace("ς", "σ") for each in said]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Ab, cd", ["Ab", "cd"]),
        ("«e\u0301té»", ["e\u0301té"]),
        ("漢字x", ["漢", "字", "x"]),
        ("㍿a", ["㍿", "㍿", "㍿", "㍿", "a"]),
        ("ΟΔΟΣ ΟΔ", ["ΟΔΟΣ", "ΟΔ"]),
        ("\u1112\u1161\u11ab x", ["\u1112\u1161\u11ab", "x"]),
        ("ﬁne\n １２", ["ﬁne", "１２"]),
    ],
)
def test_a_place_is_what_is_written(text, places):
    found = locate(pa.array([text, None]), Contract())
    spans = zip(found.begins.tolist(), found.ends.tolist(), strict=True)
    assert [text[begin:end] for begin, end in spans] == places

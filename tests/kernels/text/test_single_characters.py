"""Characters as tokens: those of the oracle, and where they stand."""

from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, pairwise

import pyarrow as pa
from hypothesis import example, given

from dedup.kernels.text.single_characters import SingleCharacters
from tests import oracles, strategies
from tests.kernels import unragged


@given(strategies.documents(), strategies.word_settings)
@example(["a — b\u2014c", "x", " \u0301a", "ΟΔΟΣ ", "ﬁ ½\u2003", "漢 字漢", "\u00a0!a!\t!"], {})
@example(["a — b\u2014c", "=x==y", "ﬁ½\u2003\u2003x", "\u00a0!a!\t! é"], {"tokens": "punctuation"})
def test_characters_are_those_of_the_oracle_and_stand_where_they_are_told_to(texts, chosen):
    tokenizer, array = SingleCharacters(**chosen), pa.array(texts, pa.string())
    expected = [oracles.characters(text, **chosen) for text in texts]

    hashes, offsets = tokenizer.hash(array)
    assert unragged(hashes, offsets) == [[oracles.token_hash(char, 1) for char in each] for each in expected]
    keyed, _ = replace(tokenizer, key=b"key").hash(array)
    salted = partial(blake2b, digest_size=8, key=b"key", salt=(1).to_bytes(16, "little"))
    digests = [salted(char.encode()).digest() for char in chain.from_iterable(expected)]
    assert keyed.tolist() == [int.from_bytes(each, "little") for each in digests]

    places = tokenizer.locate(array)
    assert places.offsets.tolist() == offsets.tolist()
    assert places.digested.tobytes().decode() == "".join(map("".join, expected))
    assert [end - begin for begin, end in pairwise(places.widths.tolist())] == [
        len(char.encode()) for each in expected for char in each
    ]
    for text, own, begins, ends in zip(
        texts, expected, *(unragged(each, offsets) for each in (places.begins, places.ends)), strict=True
    ):
        for char, begin, end in zip(own, begins, ends, strict=True):
            assert 0 <= begin < end <= len(text)
            # What a character is made of has it; a space is made of anything that is none.
            alone = oracles.characters(text[begin:end], **chosen)
            assert char in alone or char == " " or "Σ" in text

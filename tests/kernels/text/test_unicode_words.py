"""The text contract, version 1: which tokens a text has and how they are hashed."""
# ruff: noqa: RUF001 - letters that look alike are what the contract must tell apart

import unicodedata
from dataclasses import replace
from hashlib import blake2b
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from dedup.kernels.hashing import expand, key_fingerprint, mix
from dedup.kernels.text import characters
from dedup.kernels.text.unicode_words import UnicodeWords
from tests import oracles, strategies
from tests.kernels import oracles as numpy_oracles
from tests.kernels import unragged

PUBLISHED = [404782839792581534, 8464380478030331170, 4490210150949542640]
"""Of the tokens "deduplication", "文" and "a" with seed 1, in version 1 of the hash specification."""
TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def tokens_of(array, seed=1, **options):
    """Return the token hashes of every document as lists."""
    hashes, offsets = UnicodeWords(seed=seed, **options).hash(array)
    assert (hashes.dtype, offsets.dtype) == (np.uint64, np.int64)
    return unragged(hashes, offsets)


def hashes_of(texts, seed=1):
    return [[oracles.token_hash(token, seed) for token in oracles.tokens(each)] for each in texts]


@strategies.several(4)
@given(strategies.documents(), strategies.seeds)
def test_tokens_are_those_of_the_contract(documents, seed):
    assert tokens_of(pa.array(documents, pa.string()), seed) == hashes_of(documents, seed)


@strategies.several(2)
@given(strategies.cells())
def test_bytes_that_are_not_utf8_separate_and_null_is_empty(cells):
    assert tokens_of(pa.array(cells, pa.binary())) == hashes_of(cells)


@strategies.several(3)
@given(strategies.documents(), strategies.word_settings)
def test_what_counts_can_be_chosen(documents, chosen):
    expected = [[oracles.token_hash(token, 1) for token in oracles.tokens(each, **chosen)] for each in documents]

    assert tokens_of(pa.array(documents, pa.string()), **chosen) == expected


@pytest.mark.parametrize(
    ("content", "chosen", "expected"),
    [
        ("The END", {"case": "keep"}, ["The", "END"]),
        ("É Ü École", {"case": "keep", "accents": "drop"}, ["E", "U", "Ecole"]),
        ("crème brûlée, हिन्दी", {"accents": "drop"}, ["creme", "brulee", "हिन्दी"]),
        ("v1.25 ٣", {"digits": "zero"}, ["v0", "00", "0"]),
        ("f(x)=x_1!", {"tokens": "punctuation"}, ["f", "(", "x", ")", "=", "x_1", "!"]),
        ("日本、a…b", {"tokens": "punctuation"}, ["日", "本", "、", "a", ".", ".", ".", "b"]),
        ("f(x) =\tx_1!\x00日本", {"tokens": "whitespace"}, ["f(x)", "=", "x_1!", "日本"]),
    ],
)
@pytest.mark.parametrize("key", [b"", b"sixteen bytes at least"])
def test_choices_by_example(content, chosen, expected, key):
    def hash_(token):
        if key:
            found = blake2b(token.encode(), digest_size=8, key=key, salt=(1).to_bytes(16, "little"))
            return int.from_bytes(found.digest(), "little")
        return oracles.token_hash(token, 1)

    assert tokens_of(pa.array([content]), key=key, **chosen) == [[hash_(token) for token in expected]]


@pytest.mark.parametrize("beyond", ["", "é"])
@pytest.mark.parametrize(
    "chosen", [{}, {"case": "keep"}, {"digits": "zero"}, {"tokens": "whitespace"}, {"tokens": "punctuation"}]
)
def test_every_character_of_ascii_is_folded_in_runs_of_any_length(beyond, chosen):
    """A loop takes eight bytes of ASCII at once, but the first and the last of a run."""
    texts = [f"{char * width}{beyond}|x {char}" for char in map(chr, range(0x80)) for width in (1, 8, 33, 80)]
    expected = [[oracles.token_hash(token, 1) for token in oracles.tokens(each, **chosen)] for each in texts]

    assert tokens_of(pa.array(texts), **chosen) == expected


@given(strategies.cells(), strategies.word_settings)
def test_a_key_changes_every_hash_and_no_token(cells, chosen):
    array = pa.array(cells, pa.binary())
    plain, one, other = (tokens_of(array, key=key, **chosen) for key in (b"", b"a" * 16, b"b" * 16))

    assert [*map(len, plain)] == [*map(len, one)] == [*map(len, other)]
    hashes = {*zip(*(chain.from_iterable(each) for each in (plain, one, other)), strict=True)}
    for three in hashes:
        assert len({*three}) == 3
    for same in zip(*hashes, strict=True):
        assert len({*same}) == len(hashes)


def test_a_key_is_known_by_a_fingerprint_that_does_not_show_it():
    assert key_fingerprint(b"") == ""
    assert (
        key_fingerprint(b"a" * 16) == blake2b(b"fingerprint", digest_size=8, key=b"a" * 16, person=b"dedup").hexdigest()
    )
    assert "aaaa" not in repr(UnicodeWords(key=b"a" * 16))


@given(strategies.documents())
def test_tokens_do_not_depend_on_the_neighbours(documents):
    together = tokens_of(pa.array(documents, pa.string()))

    assert together == [tokens_of(pa.array([document], pa.string()))[0] for document in documents]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("It's a_b-c 3.14", ["it", "s", "a_b", "c", "3", "14"]),
        ("ÉCOLE ﬁn ½", ["école", "fin", "1", "2"]),
        ("e\u0301cole", ["école"]),
        ("q\u0301\u20dd", ["q\u0301\u20dd"]),
        ("ΟΔΟΣ Σ ΣΑ", ["οδος", "σ", "σα"]),
        ("İİ", ["i\u0307i\u0307"]),
        ("漢字kana かな", ["漢", "字", "kana", "か", "な"]),
        ("abc漢def", ["abc", "漢", "def"]),
        ("ｶﾞ", ["ガ"]),
        ("กิ่a", ["กิ่", "a"]),
        ("a\u0e34\u0e48b", ["a", "\u0e34\u0e48", "b"]),
        ("漢\u0301\u0301x\u0301", ["漢\u0301\u0301", "x\u0301"]),
        (" \u0301a", ["\u0301a"]),
        ("\u0301漢", ["\u0301", "漢"]),
        ("a\0b", ["a", "b"]),
        ("a\u00adb\u200bc\ufeffd", ["a", "b", "c", "d"]),
        ("\ufdfa", ["صلى", "الله", "عليه", "وسلم"]),
        ("한국어 말", ["한국어", "말"]),
        ("हिन्दी", ["हिन्दी"]),
        ("😀 !? ", []),
    ],
)
def test_tokens_of_known_texts(content, expected):
    assert oracles.tokens(content) == expected
    assert tokens_of(pa.array([content])) == [[oracles.token_hash(token, 1) for token in expected]]


def test_every_ascii_character_is_kept_folded_or_separates_as_the_contract_says():
    documents = [f"a{chr(byte)}B" for byte in range(128)]

    assert tokens_of(pa.array(documents)) == hashes_of(documents)
    # The same documents by the path of the others.
    assert tokens_of(pa.array([document + " é" for document in documents])) == hashes_of(
        [document + " é" for document in documents]
    )


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_nulls_and_slices_change_nothing(kind):
    documents = ["left out é", "one two", None, "", "trois é 漢字", "\0", "four", None, "left out"]
    array = pa.array(documents).cast(kind)

    assert tokens_of(array.slice(1, 7)) == hashes_of(documents[1:8])
    assert tokens_of(array.slice(5, 1)) == [[]]
    assert tokens_of(array.slice(2, 2)) == [[], []]
    assert tokens_of(array.slice(9)) == []
    assert tokens_of(pa.array([], kind)) == []
    assert tokens_of(pa.nulls(2, kind)) == [[], []]


def test_what_lies_under_a_null_is_not_read():
    buffers = pa.array(["seen", "hidden", "é"]).buffers()
    array = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), *buffers[1:]])

    assert array.to_pylist() == ["seen", None, "é"]
    assert tokens_of(array) == hashes_of(["seen", None, "é"])


@pytest.mark.parametrize("byte", [0x80, 0xBF, 0xC0, 0xFF])
def test_a_stray_byte_separates_even_where_it_is_the_only_one_that_is_not_ascii(byte):
    assert tokens_of(pa.array([b"a" + bytes([byte]) + b"b", b"c"])) == hashes_of(["a b", "c"])


def test_documents_part_at_the_right_byte_whatever_the_width_of_their_characters():
    # The first and the last letters that UTF-8 writes in two, three and four bytes.
    documents = ["ª", "\u07fa", "\u0800", "\ua9e0", "\uabed", "\ud7fb", "\U00010000", "\U000323af"] * 2

    assert all(len(oracles.tokens(document)) == 1 for document in documents)
    assert tokens_of(pa.array(documents)) == hashes_of(documents)


def test_a_character_cut_by_a_document_boundary_is_not_joined():
    cells = [b"a\xe3\x81", b"\x82b", "あ".encode()]

    assert tokens_of(pa.array(cells, pa.binary())) == hashes_of(["a", "b", "あ"])


@pytest.mark.parametrize("character", ["a", "é", "漢", "\U00010400"])
@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17, 50_000])
def test_one_token_of_any_length_is_hashed_whole(character, length):
    token = character * length
    documents = ["x", token, token + "b", ""]

    assert tokens_of(pa.array(documents)) == hashes_of(documents)


def test_a_changed_byte_anywhere_in_a_token_changes_its_hash():
    token = "abcdefgh" * 4
    changed = {token[:place] + "X" + token[place + 1 :] for place in range(len(token))}
    swapped = token[:8][::-1] + token[8:], token + token[:8]

    hashes = tokens_of(pa.array([token, *changed, *swapped]))

    assert len({only for (only,) in hashes}) == 1 + 32 + 2


def test_a_token_keeps_its_published_hash():
    hashes, _ = UnicodeWords().hash(pa.array(["deduplication 文 a"]))

    assert hashes.tolist() == PUBLISHED


def test_expansion_is_splitmix64():
    # The first values of the generator's reference implementation, seed 1234567 (Vigna, prng.di.unimi.it).
    assert expand(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(strategies.seeds)
def test_mix_and_expand_are_those_of_plain_integers(seed):
    assert expand(seed, 5).tolist() == oracles.expand(seed, 5)
    assert mix(np.array([0, seed, 2**64 - 1], dtype=np.uint64)).tolist() == [*map(oracles.mix, (0, seed, 2**64 - 1))]


def test_mix_leaves_its_argument_alone():
    values = np.arange(3, dtype=np.uint64)
    mix(values)

    assert values.tolist() == [0, 1, 2]


def test_the_frozen_classes_are_unicodes():
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    everything = "".join(map(chr, points))
    classes = characters.unicode_classes()[points]
    expected = np.zeros(len(points), dtype=np.uint8)
    unspaced = oracles.UNSPACED
    for pattern, number in (
        (r"[\p{L}\p{N}_]+", characters.WORD),
        (r"\p{M}+", characters.MARK),
        (rf"[{unspaced}]+", characters.UNSPACED),
        (rf"(?:(?=[{unspaced}])\p{{M}})+", characters.UNSPACED_MARK),
    ):
        for run in regex.finditer(pattern, everything):
            expected[run.start() : run.end()] = number
    assigned = np.ones(len(points), dtype=bool)
    for run in regex.finditer(r"\p{Cn}+", everything):
        # A later Unicode assigns some of these; the table may know them before the module does.
        assigned[run.start() : run.end()] = False

    assert assigned.sum() > 280_000
    assert [hex(points[index]) for index in np.flatnonzero((classes != expected) & assigned)] == []


def test_surrogates_have_no_class():
    assert not characters.unicode_classes()[0xD800:0xE000].any()


@strategies.several(4)
@given(strategies.documents(), strategies.words)
@example(["ΟΔΟΣ ΣΑΣ", "a\u0301b e\u0301", "\u1100\u1161\u11a8각"], UnicodeWords())
def test_the_characters_of_tokens_are_those_tokens(texts, tokenizer):
    def hash_alone(text):
        return tokenizer.hash(pa.array([text]))[0].tolist()

    places = tokenizer.locate(pa.array(texts, pa.string()))

    hashes, offsets = tokenizer.hash(pa.array(texts, pa.string()))
    assert places.offsets.tolist() == offsets.tolist()
    rows = zip(texts, *(unragged(each, offsets) for each in (hashes, places.begins, places.ends)), strict=True)
    for text, expected, begins, ends in rows:
        assert all(0 <= begin < end <= len(text) for begin, end in zip(begins, ends, strict=True))
        # Between two tokens that share no character, the text may be cut, and each side keeps its tokens.
        for number, (end, begin) in enumerate(zip(ends, begins[1:], strict=False), 1):
            assert end <= begin or set(range(begin, end)) <= set(range(begins[number - 1], ends[number]))
            if end <= begin:
                alone = hash_alone(text[:end])
                # The lower case of a sigma is another where a word ends.
                assert len(alone) == number
                assert "Σ" in text or alone == expected[:number]
                assert len(hash_alone(text[begin:])) == len(expected) - number


@given(strategies.documents())
@example(["x\u0301 a\u200d\u0301b", "a\u200db", ".\u0301", "e\ufe0f!"])
def test_no_mark_is_parted_from_what_it_stands_on(texts):
    places = UnicodeWords().locate(pa.array(texts, pa.string()))

    for text, begins, ends in zip(
        texts, unragged(places.begins, places.offsets), unragged(places.ends, places.offsets), strict=True
    ):
        for place in {*begins, *ends} - {0, len(text)}:
            assert not unicodedata.combining(text[place])
            assert text[place] != "\u200d" != text[place - 1]


@given(st.lists(strategies.texts(), min_size=2, max_size=2))
def test_equal_tokens_have_equal_digests_wherever_they_stand(texts):
    joined = [f"{texts[0]} {texts[1]}", texts[1].upper().lower(), texts[1]]
    places = UnicodeWords().locate(pa.array(joined))
    hashes, offsets = UnicodeWords().hash(pa.array(joined))

    count = offsets[3] - offsets[2]
    begins, ends = np.append(offsets[:-1], offsets[1] - count), np.append(offsets[1:], offsets[1])
    _, second, third, last = places.digest(begins, ends, b"").tolist()
    tokens = unragged(hashes, offsets)
    assert (second == third) == (tokens[1] == tokens[2])
    assert (last == third) == (tokens[0][len(tokens[0]) - count :] == tokens[2])


def test_a_digest_minds_where_tokens_end_and_the_key():
    places = UnicodeWords().locate(pa.array(["ab c", "a bc"]))

    begins, ends = np.array([0, 2, 0, 0]), np.array([2, 4, 2, 2])
    plain, keyed = (places.digest(begins, ends, key).tolist() for key in (b"", b"key"))
    assert plain[0] == plain[2] == plain[3] != plain[1] != keyed[1]


def check_loops(texts, tokenizer):
    """Hash and locate texts, and compare with the oracle in NumPy."""
    array = pa.array(texts, pa.string())
    folded, _, starts, ends = numpy_oracles.find_tokens(array, tokenizer)
    tokens = [folded[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    expected, bounds = numpy_oracles.hash_tokens(array, tokenizer)
    places = tokenizer.locate(array)

    for found, offsets in (tokenizer.hash(array), replace(tokenizer, key=b"key").hash(array)):
        assert offsets.tolist() == bounds.tolist()
        assert found.size == expected.size
    assert tokenizer.hash(array)[0].tolist() == expected.tolist()
    assert (places.offsets.tolist(), places.digested.tobytes()) == (bounds.tolist(), b"".join(tokens))
    assert np.diff(places.widths).tolist() == [*map(len, tokens)]


@strategies.several(3)
@given(strategies.documents(), strategies.words)
def test_the_loops_find_the_tokens_of_the_oracle_in_numpy(texts, tokenizer):
    check_loops(texts, tokenizer)


def test_every_character_parts_and_joins_tokens_as_in_numpy():
    points = [chr(each) for each in range(0x110000) if unicodedata.category(chr(each)) not in {"Cn", "Co", "Cs"}]

    check_loops([f"a{each}b {each}漢{each}ก{each}" for each in points[:: len(points) // 9000]], UnicodeWords())

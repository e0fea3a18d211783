"""The layer of passages, on an engine of a few lines, against a search that compares every place with all."""
# ruff: noqa: RUF001 - letters that look alike are wanted

import random
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dedup.files.delete_spans import delete_spans
from dedup.kernels.text.passages import gram_size
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers import repeats
from dedup.layers.passages import Passages, PassagesLayer
from tests import oracles
from tests.conftest import PROFILE
from tests.layers.tiny import TinyEngine

LENGTH = 10
WORDS = ["the", "cat", "漢", "Ünï", "Σ"]
words = st.integers(0, len(WORDS) - 1)
periodic = st.tuples(st.lists(words, min_size=1, max_size=4), st.integers(3, 20)).map(lambda t: t[0] * t[1])
corpora = st.lists(st.one_of(st.lists(st.integers(0, 1), max_size=40), periodic), min_size=1, max_size=5)


def search(texts, *, seed=0, rules=(), id_type=None, size=3, keys=None, **options):
    """Return what the layer finds in the texts, whose ids are their numbers or given, and the engine."""
    rows = list(texts.items()) if isinstance(texts, dict) else list(enumerate(texts))
    engine = TinyEngine(rows, id_type or pa.int64(), keys or {}, seed, size, rules=rules)
    settings = Passages(**({"tokens": LENGTH, "min_tokens_left": 0} | options))
    return PassagesLayer(settings=settings, tokenizer=UnicodeWords(), rules=rules).find(engine), engine


def spans_of(found):
    """Return begin and end of the spans of each document, pieces that touch as one."""
    told = {}
    for row in sorted(found.spans.to_pylist(), key=lambda row: (row["doc_id"], row["begin"])):
        spans = told.setdefault(row["doc_id"], [])
        if spans and spans[-1][1] == row["begin"]:
            spans[-1] = spans[-1][0], row["end"]
        else:
            spans.append((row["begin"], row["end"]))
    return told


def cut(text, spans):
    return delete_spans(text, [begin for begin, _ in spans], [end for _, end in spans])


def expect(texts, length, keep_first):
    """Return which tokens of every text are left."""
    tokens = [tokens_of(text) for text in texts]
    places = {}
    for number, of in enumerate(tokens):
        for begin in range(len(of) - length + 1):
            places.setdefault(tuple(of[begin : begin + length]), []).append((number, begin))
    repeated = [same for same in places.values() if len(same) > 1]
    gone = cover([place for same in repeated for place in same[keep_first:]], length)
    gone -= cover([same[0] for same in repeated if keep_first], length)
    left = []
    for number, of in enumerate(tokens):
        runs = groupby(range(len(of)), key=lambda token: (number, token) in gone)
        kept = [(goes, list(run)) for goes, run in runs]
        left.append([of[token] for goes, run in kept if not goes or len(run) < length for token in run])
    return left


def cover(places, length):
    return {(number, token) for number, begin in places for token in range(begin, begin + length)}


def tokens_of(text):
    # The lower case of a sigma depends on where a word ends.
    return [token.replace("ς", "σ") for token in oracles.tokens(text)]


@given(corpora, st.booleans(), st.integers(0, 99))
@settings(max_examples=settings().max_examples if PROFILE == "full" else 20)
@example([[0] * 1000], True, 0)
@example([[0, 1] * 30, [0] * 10 + [1] * 10, [1] * 9], True, 0)
@example([[0] * 9, [0] * 9, [1] * 10, [1] * 10], False, 0)
def test_what_is_left_is_all_that_is_not_repeated(corpus, keep_first, seed):
    texts = [" ".join(WORDS[word] for word in of) for of in corpus]
    found, _ = search(texts, keep_first=keep_first, seed=seed)

    spans = spans_of(found)
    left = [cut(text, spans.get(number, [])) for number, text in enumerate(texts)]
    assert [tokens_of(text) for text in left] == expect(texts, LENGTH, keep_first)
    for row in found.spans.to_pylist():
        assert row["begin"] < row["end"]
        assert row["tokens"] == len(oracles.tokens(texts[row["doc_id"]][row["begin"] : row["end"]]))
        if keep_first:
            kept = texts[row["kept_doc_id"]][row["kept_begin"] : row["kept_end"]]
            assert tokens_of(kept) == tokens_of(texts[row["doc_id"]][row["begin"] : row["end"]])
            there = spans.get(row["kept_doc_id"], [])
            assert all(end <= row["kept_begin"] or row["kept_end"] <= begin for begin, end in there)
        else:
            assert (row["kept_doc_id"], row["kept_begin"], row["kept_end"]) == (None, None, None)


SHARING = ["a ", "b ", "a\u200d", "b\u200d", "\u337f ", "e\u0301\u200d"]
"""Words, some of which share characters with the next, and a sign that is four."""


def is_part(tokens, of):
    return any(of[begin : begin + len(tokens)] == tokens for begin in range(len(of) - len(tokens) + 1))


@given(st.lists(st.lists(st.sampled_from(SHARING), max_size=40), min_size=2, max_size=4))
@example([[*"abcdefghij", "a\u200d"], ["b ", *"klmnopqrst"], [*"abcdefghij", "a\u200d", "b ", *"klmnopqrst"]])
def test_a_span_says_how_many_tokens_it_is_and_where_they_stay(corpus):
    texts = ["".join(word if word in SHARING else f"{word} " for word in of) for of in corpus]
    found, _ = search(texts)

    for number, text in enumerate(texts):
        rows = [row for row in found.spans.to_pylist() if row["doc_id"] == number]
        for row in rows:
            taken = oracles.tokens(text[row["begin"] : row["end"]])
            assert row["tokens"] == len(taken)
            assert is_part(taken, oracles.tokens(texts[row["kept_doc_id"]][row["kept_begin"] : row["kept_end"]]))
        left = cut(text, [(row["begin"], row["end"]) for row in sorted(rows, key=lambda row: row["begin"])])
        assert len(oracles.tokens(left)) == len(oracles.tokens(text)) - sum(row["tokens"] for row in rows)


@given(corpora, st.sampled_from(["token", "sentence"]))
def test_texts_come_back_from_what_is_left_and_the_spans(corpus, ends):
    marks = [" ", ". ", ", ", "\n", "! "]
    texts = ["".join(WORDS[word] + marks[(word + n * n) % 5] for n, word in enumerate(of)) for of in corpus]
    found, _ = search(texts, ends=ends)

    for number, spans in spans_of(found).items():
        assert all(end < begin for (_, end), (begin, _) in pairwise(spans))
        shorter, taken = cut(texts[number], spans), [texts[number][begin:end] for begin, end in spans]
        for (begin, _), part in zip(spans, taken, strict=True):
            shorter = shorter[:begin] + part + shorter[begin:]
        assert shorter == texts[number]


@given(corpora, st.integers(1, 9), st.sampled_from(["cut", "drop", "mark"]), st.booleans())
@settings(max_examples=settings().max_examples if PROFILE == "full" else 10)
def test_one_answer_for_any_partitions_and_order(corpus, seed, action, keep_first):
    texts = {f"id {n}": " ".join(WORDS[word] for word in of) for n, of in enumerate(corpus)}

    def tell(seed, size):
        options = {"action": action, "keep_first": keep_first, "min_tokens_left": 12, "id_type": pa.string()}
        found, _ = search(texts, seed=seed, size=size, **options)
        tables = [[] if each is None else each.to_pylist() for each in (found.removals, found.spans)]
        return [sorted(each, key=repr) for each in tables], found.details, found.effect

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "CELL_BYTES", 100)
        parted = tell(seed, 20)
    assert tell(seed, 2) == tell(0, 1000) == parted


def passage(seed, count=12):
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefghij", k=5)) for _ in range(count))


@pytest.mark.parametrize(("count", "cuts"), [(LENGTH - 1, 0), (LENGTH, 1)])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("So ", ""), ("", " end"), ("So ", " end")])
def test_a_span_of_all_but_one_of_the_tokens_is_none(count, cuts, before, after):
    shared = passage(1, count)
    texts = [f"A {shared} b.", f"{before}{shared}{after}"]

    found, _ = search(texts)

    assert found.spans.num_rows == cuts
    if cuts:
        [row] = found.spans.to_pylist()
        assert texts[1][row["begin"] : row["end"]] == shared
        assert texts[0][row["kept_begin"] : row["kept_end"]] == shared


def test_case_punctuation_width_and_scripts_without_spaces_hide_no_copy():
    chinese = "我们在这里写了一段很长的文字"
    texts = [
        f"x {passage(1)} {chinese} y",
        "z " + passage(1).upper().replace(" ", ", ") + " w",
        "前" + "".join(f"{sign} " for sign in chinese) + "後",
        passage(1).translate({ord(letter): chr(ord(letter) + 0xFEE0) for letter in "abcdefghij"}),
    ]

    found, _ = search(texts)

    assert [cut(text, spans_of(found).get(n, [])) for n, text in enumerate(texts)] == [texts[0], "z  w", "前 後", ""]


def test_a_passage_stays_in_the_document_that_is_first_by_the_order():
    texts = {"b": f"{passage(1)} long {passage(2)}", "a": passage(1), "c": f"{passage(2)} and"}

    def kept(*rules, keys=None):
        found, _ = search(texts, rules=rules, id_type=pa.string(), keys=keys)
        ids = dict(zip(found.documents["doc_id"].to_pylist(), found.documents["id"].to_pylist(), strict=True))
        return sorted((ids[row["doc_id"]], ids[row["kept_doc_id"]]) for row in found.spans.to_pylist())

    assert kept() == [("b", "a"), ("c", "b")]
    assert kept(("longest", "")) == [("a", "b"), ("c", "b")]
    assert kept(("shortest", "")) == [("b", "a"), ("b", "c")]
    assert kept(("highest", "x"), keys={"a": [2.0], "b": [1.0], "c": [0.0]}) == [("a", "b"), ("b", "c")]


def test_equal_rows_are_one_document():
    found, _ = search({1: f"{passage(1)} a", 2: f"{passage(1)} b"})
    twice = TinyEngine([(1, f"{passage(1)} a"), (2, f"{passage(1)} b"), (1, f"{passage(1)} a"), (2, f"{passage(1)} b")])
    layer = PassagesLayer(settings=Passages(tokens=LENGTH, min_tokens_left=0), tokenizer=UnicodeWords(), rules=())

    again = layer.find(twice)

    assert found.spans.to_pylist() == again.spans.to_pylist() != []
    alone = TinyEngine([(1, passage(1)), (1, passage(1))])
    assert layer.find(alone).spans.num_rows == 0


def test_documents_of_which_too_little_is_left_go():
    texts = [passage(1), f"{passage(1)} one two three", f"{passage(1)} four five six seven"]

    found, _ = search(texts, min_tokens_left=4)

    assert spans_of(found) == {2: [(0, len(passage(1)))]}
    [gone] = found.removals.to_pylist()
    assert (gone["id"], gone["representative_id"], gone["layer"], gone["kind"], gone["component_id"]) == (
        *(1, 0),
        *("passages", "tokens_left", 0),
    )


@pytest.mark.parametrize(("share", "gone"), [(0.75, [1]), (0.6, [1, 2]), (0.76, [])])
def test_documents_go_whole_by_the_share_that_is_repeated(share, gone):
    texts = [passage(1), f"{passage(1)} one two three four", f"{passage(1)} {passage(2, 8)}", passage(3)]

    found, _ = search(texts, action="drop", drop_share=share)

    assert found.spans is None
    assert sorted(found.removals["id"].to_pylist()) == gone
    assert {*found.removals["kind"].to_pylist()} <= {"repeated_share"}
    assert {*found.removals["representative_id"].to_pylist()} <= {0}


@pytest.mark.parametrize("percent", [14, 28, 55, 56, 70])
def test_a_share_is_reached_where_it_is_met_exactly(percent):
    quoted = [f"q{number}" for number in range(percent)]
    texts = [
        " ".join([*quoted, *(f"{n}x{number}" for number in range(size))]) for n, size in ((0, 900), (1, 100 - percent))
    ]

    for share, gone in ((percent / 100, [1]), (percent / 100 + 1e-9, [])):
        found, _ = search(texts, action="drop", drop_share=share)

        assert found.removals["id"].to_pylist() == gone


def test_no_document_goes_for_one_that_goes_itself():
    texts = [passage(1), f"{passage(1)} {passage(2)}", passage(2)]

    found, _ = search(texts, action="drop", drop_share=0.5)

    named = zip(*(found.removals[name].to_pylist() for name in ("id", "representative_id")), strict=True)
    assert sorted(named) == [(1, 0), (2, None)]


def test_what_is_marked_changes_nothing():
    found, _ = search([passage(1), passage(1)], action="mark", min_tokens_left=100)

    assert (found.effect, found.removals, found.spans.num_rows) == ("mark", None, 1)


def test_a_span_ends_with_a_sentence():
    shared = f"{passage(1, 2)}. {passage(2, 12)}. {passage(3, 2)}"
    texts = [f"One {shared} two", f"Three {shared} four"]

    found, _ = search(texts, ends="sentence")

    [(begin, end)] = spans_of(found)[1]
    assert texts[1][begin:end] == f"{passage(2, 12)}. "


def test_where_hashes_collide_nothing_is_taken_out_that_stands_nowhere_else(monkeypatch):
    texts = [f"{passage(n)} {passage(n % 3 + 100)}" for n in range(12)]
    whole = search(texts)[0].spans
    monkeypatch.setattr(repeats, "roll", lambda tokens, *_: tokens & np.uint64(3))
    monkeypatch.setattr(repeats, "select_grams", select_all)

    found, engine = search(texts)

    assert engine.emitted["verified"] > engine.counted["verified"].num_rows > 0
    for row in found.spans.to_pylist():
        kept = texts[row["kept_doc_id"]][row["kept_begin"] : row["kept_end"]]
        assert texts[row["doc_id"]][row["begin"] : row["end"]] == kept
    assert whole.num_rows == 9


def select_all(_tokens, offsets, length, _tokenizer):
    """Select every gram, all of one hash."""
    counts = np.diff(offsets) - gram_size(length) + 1
    bounds = np.concatenate(([0], np.cumsum(counts)))
    places = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    return np.zeros(places.size, dtype=np.uint64), places, bounds


def test_what_stands_in_every_document_costs_a_row_for_each():
    def travelled(count):
        _, engine = search([f"{passage(n + 100)} {passage(1, 20)}" for n in range(count)], size=100)
        return {name: engine.emitted[name] for name in ("occurrences", "pieces", "ranges", "verified", "spans")}

    few, many = travelled(20), travelled(80)

    assert many["pieces"] == 80 * 11
    assert all(many[name] <= 4 * few[name] + 8 for name in few)


def test_the_report_is_told_what_was_repeated():
    texts = [f"{passage(1, 20)} {passage(2)}", passage(1, 20), f"x {passage(1, 20)}", f"{passage(2)} {passage(3)}", ""]

    found, _ = search(texts, min_tokens_left=1)

    details = dict(found.details)
    assert details.pop("passages") == [
        {"id": 0, "begin": 0, "end": len(passage(1, 20)), "tokens": 20, "occurrences": 3, "text": passage(1, 20)},
        {
            "id": 0,
            "begin": len(passage(1, 20)) + 1,
            "end": len(texts[0]),
            "tokens": 12,
            "occurrences": 2,
            "text": passage(2),
        },
    ]
    assert details.pop("losing_most") == [
        {"id": 1, "repeated_tokens": 20, "tokens": 20},
        {"id": 2, "repeated_tokens": 20, "tokens": 21},
        {"id": 3, "repeated_tokens": 12, "tokens": 24},
    ]
    assert details == {
        "documents": 5,
        "tokens": 97,
        "touched_documents": 3,
        "repeated_tokens": 52,
        "removed_documents": 1,
        "touched_share": 0.6,
        "repeated_share": 52 / 97,
        "spans": 3,
        "occurrences": {"2": 14},
        "span_tokens": {"8": 1, "16": 2},
    }

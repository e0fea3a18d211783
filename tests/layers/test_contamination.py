"""The layer of contamination, held against comparing every document with every prompt."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.contamination import Contamination, ContaminationLayer
from dedup.layers.prompts import Prompts
from tests.layers.tiny import apply_spans, run

WORDS = st.lists(st.sampled_from("abc"), max_size=12)


def make_prompts(**sets):
    texts = [(number, item, text) for number, own in enumerate(sets.values()) for item, text in enumerate(own)]
    return Prompts(
        names=[*sets],
        sets=np.array([number for number, *_ in texts], dtype=np.int64),
        items=np.array([item for _, item, _ in texts], dtype=np.int64),
        texts=pa.array([text for *_, text in texts], pa.string()),
    )


def find(texts, prompts, broadcast=1 << 20, ids=None, **settings):
    layer = ContaminationLayer(
        settings=Contamination(**settings),
        tokenizer=UnicodeWords(),
        prompts=make_prompts(**prompts),
        broadcast=broadcast,
    )
    return run(layer, texts, ids=ids)


def list_spans(found):
    return sorted((row["doc_id"], row["begin"], row["end"], row["kind"]) for row in found.spans.to_pylist())


def list_removed(found):
    return sorted(found.removals["id"].to_pylist())


def compare_all(documents, prompts, size, margin):
    """Return the spans in tokens, by the definition."""
    spans = []
    for number, words in enumerate(documents):
        # Twice the places, so that spans that touch are one and those with a token between them are two.
        covered = set()
        for prompt in prompts:
            run = min(size, len(prompt))
            for place in range(len(prompt) - run + 1 if run else 0):
                for begin in range(len(words) - run + 1):
                    if words[begin : begin + run] == prompt[place : place + run]:
                        covered |= set(range(2 * (begin - margin), 2 * (begin + run + margin) + 1))
        begins = sorted(point // 2 for point in covered if point - 1 not in covered)
        ends = sorted(point // 2 for point in covered if point + 1 not in covered)
        spans += [(number, max(begin, 0), min(end, len(words))) for begin, end in zip(begins, ends, strict=True)]
    return spans


@given(
    prompts=st.lists(WORDS, max_size=4),
    documents=st.lists(WORDS, max_size=5),
    size=st.integers(1, 5),
    margin=st.integers(0, 2),
    broadcast=st.sampled_from([0, 1 << 20]),
)
def test_spans_are_what_comparing_all_with_all_finds(prompts, documents, size, margin, broadcast):
    joined = {"a": map(" ".join, prompts[:2]), "b": map(" ".join, prompts[2:])}
    texts = [f"({', '.join(words)})" for words in documents]
    settings = {"match_tokens": size, "action": "cut", "margin": margin}
    found = find(texts, {name: [*own] for name, own in joined.items()}, broadcast, **settings)
    expected = []
    for number, begin, end in compare_all(documents, prompts, size, margin):
        places = [*re.finditer(r"\w+", texts[number])]
        expected.append((number, places[begin].start(), places[end - 1].end()))
    assert sorted(span[:3] for span in list_spans(found)) == expected
    assert found.effect == "cut"
    assert found.removals is None
    assert found.details["documents"] == len({number for number, *_ in expected})


QUESTION = "What is the boiling point of water at the sea level in degrees Celsius"
UPPER = QUESTION.upper()
WIDE = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in QUESTION)
POINTED = QUESTION.replace(" ", " -- ") + "?!"


@pytest.mark.parametrize("planted", [QUESTION, UPPER, WIDE, POINTED])
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("It was é asked: ", ""), ("", " and 漢字 so on"), ("x ", " y")]
)
def test_neither_case_nor_width_nor_punctuation_nor_an_end_hides_a_prompt(planted, before, after):
    found = find([before + planted + after, "nothing of it"], {"trivia": ["other", QUESTION]})
    assert list_removed(found) == [0]
    [(_, begin, end, kind)] = list_spans(found)
    assert (before + planted + after)[begin:end] == planted.rstrip("?!")
    assert kind == "trivia:1"
    assert found.effect == "mark"


@pytest.mark.parametrize("cut", [slice(0, 12), slice(2, None)])
def test_a_run_of_fewer_tokens_is_no_match(cut):
    words = QUESTION.split()
    assert len(words) == 14
    assert list_removed(find([" ".join(words[cut])], {"trivia": [QUESTION]})) == []
    assert list_removed(find([" ".join(words[cut])], {"trivia": [QUESTION]}, match_tokens=12)) == [0]


def test_a_shorter_prompt_matches_whole():
    found = find(["he said two plus two!", "two plus"], {"sums": ["Two plus two?", "", "..."]})
    assert list_removed(found) == [0]
    told = found.details["sets"]["sums"]
    assert (told["items"], told["items_empty"], told["items_short"], told["items_matched"]) == (3, 2, 1, 1)


def test_scripts_without_spaces_match_by_character():
    prompt = "水の沸点は海面で摂氏何度ですか"
    assert list_removed(find([f"前{prompt}後", prompt[2:]], {"water": [prompt]})) == [0, 1]
    assert list_removed(find([prompt[3:]], {"water": [prompt]})) == []


def test_a_margin_reaches_no_further_than_the_document():
    texts = ["one two a b c three four", "a b c", "one a b c x a b c y"]
    found = find(texts, {"s": ["a b c"]}, action="cut", margin=1)
    assert apply_spans(texts, found.spans) == ["one  four", "", ""]
    assert found.spans.sort_by("doc_id")["tokens"].to_pylist() == [5, 3, 9]


def test_a_common_phrase_removes_nothing_and_is_listed_apart():
    phrase = "all of the above"
    texts = [f"{n} {phrase}" for n in range(3)] + [f"the sky is blue {phrase}"]
    prompts = {"s": [phrase, f"none {phrase}", "the sky is blue"]}
    found = find(texts, prompts, match_tokens=4, common=3)
    assert list_removed(found) == [3]
    assert found.details["common_count"] == 1
    assert found.details["common"] == [{"text": phrase, "documents": 4, "items": 2, "item": "s:0"}]
    assert {kind for *_, kind in list_spans(found)} == {"common", "s:2"}
    assert list_removed(find(texts, prompts, match_tokens=4, common=4)) == [0, 1, 2, 3]
    assert {kind for *_, kind in list_spans(find(texts, prompts, match_tokens=4, common=3, action="cut"))} == {"s:2"}


def test_the_report_says_who_matched_of_each_set():
    texts = ["x a b c", "a b c d e f", "d e f", "none"]
    found = find(texts, {"one": ["a b c", "q r s"], "two": ["d e f", "a b c d"]}, match_tokens=3, action="mark")
    sets = found.details["sets"]
    assert found.details["documents"] == 3
    assert (sets["one"]["documents"], sets["one"]["items_matched"]) == (2, 1)
    assert (sets["two"]["documents"], sets["two"]["items_matched"]) == (3, 2)
    assert sets["one"]["most"] == [{"item": 0, "documents": 2, "id": 0, "text": "a b c"}]
    assert [each["item"] for each in sets["two"]["most"]] == [0, 1]
    assert list_spans(found)[1] == (1, 0, 11, "one:0, two:0, two:1")
    assert (found.removals, found.effect) == (None, "mark")


def test_a_reason_names_few_items():
    found = find(["a b c"], {"s": ["a b c"] * 5})
    assert list_spans(found) == [(0, 0, 5, "s:0, s:1, s:2, 2 more")]


@pytest.mark.parametrize(
    ("item", "text", "span", "tokens", "left"),
    [
        ("一二三", "abc一二三def tail", "一二三def", 4, "abc tail"),
        ("一二三", "abc一二三", "一二三", 3, "abc"),
        ("一二三", "abc一二三四", "一二三", 3, "abc四"),
        ("会", "abc ㍿ def tail", "㍿", 4, "abc  def tail"),
        ("一", "abc一def一ghi", "一def一ghi", 4, "abc"),
    ],
)
def test_a_cut_takes_whole_characters_and_joins_no_words(item, text, span, tokens, left):
    found = find([text], {"q": [item]}, action="cut", match_tokens=1)

    [row] = found.spans.to_pylist()
    assert (text[row["begin"] : row["end"]], row["tokens"]) == (span, tokens)
    assert text[: row["begin"]] + text[row["end"] :] == left
    # What is listed alone is the match.
    marked = find([text], {"q": [item]}, action="mark", match_tokens=1).spans.to_pylist()
    assert {text[each["begin"] : each["end"]] for each in marked} == {span if item == "会" else item}


def test_tokens_of_one_character_make_one_span():
    found = find(["㍿"], {"s": ["株", "社"]}, action="cut")
    assert list_spans(found) == [(0, 0, 1, "s:0, s:1")]


@pytest.mark.parametrize("broadcast", [0, 1 << 20])
def test_equal_rows_of_one_id_are_one_document(broadcast):
    found = find(["a b", "c", "a b"], {"s": ["a b"]}, broadcast, ids=["x", "y", "x"])
    assert list_removed(found) == ["x"]
    assert found.details["sets"]["s"]["most"][0]["documents"] == 1


@pytest.mark.parametrize("broadcast", [0, 1 << 20])
def test_without_a_match_nothing_is_found(broadcast):
    found = find(["a b", ""], {"s": ["c"], "empty": []}, broadcast)
    assert (found.removals.num_rows, found.spans.num_rows, found.details["documents"]) == (0, 0, 0)
    assert found.documents.num_rows == 2

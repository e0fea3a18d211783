"""The layer of lines, held against counting in plain Python."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.lines import Lines, LinesLayer
from tests import oracles
from tests.layers.tiny import apply_spans, run
from tests.strategies import texts

PIECES = st.one_of(
    st.sampled_from(["\n", "\r\n", "\n\n", " \n", "\r", "menu", " Menu ", "\u2028", "é\u3000", "文"]), texts(6)
)
DOCUMENTS = st.lists(st.lists(PIECES, max_size=9).map("".join), max_size=7)


def find(texts, ids=None, **settings):
    layer = LinesLayer(settings=Lines(**{"min_characters": 1} | settings), tokenizer=UnicodeWords())
    return run(layer, texts, ids=ids)


def cut_units(text, unit):
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if unit == "line":
        return lines
    blocks = []
    for line in lines:
        if blocks and not (line.strip() and not blocks[-1][-1].strip()):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return ["".join(block) for block in blocks]


def select_common(texts, settings):
    """Return the spans by the definition."""

    def say(line):
        if settings.compare == "text":
            return tuple(oracles.tokens(line.strip()))
        return line.strip()

    found = {}
    for number, text in enumerate(texts):
        place = 0
        for line in cut_units(text, settings.unit):
            if say(line) and len(line.strip()) >= settings.min_characters:
                found.setdefault(say(line), []).append((number, place, place + len(line)))
            place += len(line)
    return sorted(
        place
        for places in found.values()
        if len({number for number, *_ in places}) > settings.documents
        for place in places
    )


@given(
    texts=DOCUMENTS,
    settings=st.builds(
        Lines,
        unit=st.sampled_from(["line", "paragraph"]),
        compare=st.sampled_from(["bytes", "text"]),
        documents=st.integers(1, 3),
        min_characters=st.integers(1, 5),
    ),
)
def test_spans_are_the_lines_that_enough_documents_have(texts, settings):
    found = run(LinesLayer(settings=settings, tokenizer=UnicodeWords()), texts)
    spans = sorted((row["doc_id"], row["begin"], row["end"]) for row in found.spans.to_pylist())
    expected = select_common(texts, settings)
    assert spans == expected
    assert found.details["occurrences"] == len(expected)
    assert found.details["characters"] == sum(end - begin for _, begin, end in expected)


def test_cutting_leaves_no_blank_line():
    texts = [f"Home | About\n\nstory {n}\nAll rights reserved\nmore\r\n" for n in range(3)]
    spans = find(texts, documents=2).spans
    assert apply_spans(texts, spans) == [f"\nstory {n}\n" for n in range(3)]


def test_a_paragraph_goes_with_the_blank_lines_behind_it():
    texts = [f"story {n}\n\nread\nmore\n \n\nend {n}" for n in range(3)]
    spans = find(texts, documents=2, unit="paragraph").spans
    assert apply_spans(texts, spans) == [f"story {n}\n\nend {n}" for n in range(3)]
    assert set(spans["kind"].to_pylist()) == {"paragraph"}


def test_a_line_twice_in_one_document_is_of_one_document():
    assert find(["a\na\na", "b\na"], documents=2).spans.num_rows == 0
    assert find(["a\na\na", "b\na", "a"], documents=2).spans.num_rows == 5


def test_the_report_shows_the_most_common_lines_as_they_are_written():
    details = find(["A\nb", "A\nb\nA", " A"], documents=1).details
    assert details == {
        "lines": 2,
        "occurrences": 6,
        "characters": 10,
        "most": [{"text": "A", "documents": 3, "occurrences": 4}, {"text": "b", "documents": 2, "occurrences": 2}],
    }


def test_the_most_common_lines_are_those_of_all_batches():
    texts = [f"{n}\n" * (n % 3 + 1) for n in range(50) for _ in range(2 + n % 5)]
    most = find(texts, documents=1).details["most"]
    assert len(most) == 20
    assert [each["documents"] for each in most] == [6] * 10 + [5] * 10
    assert find(["a"], documents=1).details == {"lines": 0, "occurrences": 0, "characters": 0, "most": []}


def test_equal_rows_of_one_id_are_one_document():
    assert find(["a", "b", "a"], ids=["x", "y", "x"], documents=1).spans.num_rows == 0
    found = find(["a", "a", "a"], ids=["x", "y", "x"], documents=1)
    assert (found.spans.num_rows, found.details["most"][0]["documents"]) == (2, 2)


def test_action_is_the_effect():
    assert {find(["a"], action=action).effect for action in ("cut", "ignore", "mark")} == {"cut", "ignore", "mark"}


def test_without_the_key_nobody_knows_the_digests():
    layers = [LinesLayer(settings=Lines(min_characters=1), tokenizer=UnicodeWords(key=key)) for key in (b"", b"secret")]
    highs = [run(layer, ["line"]).documents["high"].to_pylist() for layer in layers]
    assert highs[0] != highs[1]

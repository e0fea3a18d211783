"""Steps of [text] that ask libraries: markup, stems, Arabic marks and simplified characters."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup import deduplicate
from dedup.errors import ConfigError, DedupError
from dedup.kernels.text.markup import READERS
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import load_config
from dedup.settings.hashspec import HashSpec
from tests import oracles, strategies
from tests.kernels import unragged

LONG = " ".join(f"Readers of pages, number {number}, were reading {number * number} words" for number in range(12))
PAGE = f"<html><head><title>Site</title></head><body><p class='a'>{LONG}</p><!-- x --></body></html>"
COPIES = [
    (1, {}, LONG, LONG),
    (2, {"text.markup": "html"}, f"<p>{LONG.replace('number', '<b>number</b>')}</p>", PAGE),
    (3, {"text.markup": "markdown"}, f"# {LONG.replace('words', '**words**')}", f"> {LONG}\n\n![a](b) <i></i>\n"),
    (4, {"text.stemming": "english"}, LONG, LONG.replace("Readers", "Reader").replace("words", "word")),
    (5, {"text.arabic": "drop"}, "كِتَابٌ قَدِيمٌ فِي بَيْتٍ كَبِيرٍ", "كتاب قديم في بيت كـبـيـر"),
    (6, {"text.han": "simplified"}, "漢語與國際關係學院", "汉语与国际关系学院"),
]


@given(
    strategies.documents(), st.sampled_from(["english", "german", "arabic", "turkish"]), st.sampled_from([b"", b"key"])
)
def test_stems_stand_for_their_words_where_these_are(texts, language, key):
    plain, stemmed = UnicodeWords(key=key), UnicodeWords(key=key, stemming=language)
    array = pa.array(texts, pa.string())
    expected = [oracles.tokens(text, stemming=language) for text in texts]

    hashes, offsets = stemmed.hash(array)

    whole, places = plain.locate(array), stemmed.locate(array)
    assert places.begins.tolist() == whole.begins.tolist()
    assert places.ends.tolist() == whole.ends.tolist()
    assert offsets.tolist() == places.offsets.tolist() == whole.offsets.tolist()
    assert places.digested.tobytes().decode() == "".join(map("".join, expected))
    if not key:
        assert unragged(hashes, offsets) == [[oracles.token_hash(token, 1) for token in each] for each in expected]


@pytest.mark.parametrize(
    ("kind", "text", "seen"),
    [
        (
            "html",
            "<p>A<i>b</i> c&amp;d<br>e<script>x</script><style>y</style><!--z--><table><td>f<td>g",
            "Ab c&d e f g",
        ),
        ("html", "no markup, a < b", "no markup, a < b"),
        ("html", "<title>no</title><nav hidden>yes</nav><img alt='no'><h1>yes</h1>", "yes yes"),
        ("html", "", ""),
        (
            "markdown",
            '# A\n\nb *c*d `e*f*`\ng\\*h\n\n```py\ni\n```\n- j\n- k\n\n[l](m "n") <o>',
            "A b cd e*f* g*h i j k l",
        ),
        ("markdown", "<div>\nno\n</div>\n\n> yes  \n> and &lt;", "yes and <"),
        ("markdown", "| a | b |\n|--|--|\n| c | d |", "a b c d"),
    ],
)
def test_what_is_seen_of_markup_is_left(kind, text, seen):
    assert READERS[kind]()(text).split() == seen.split()


@pytest.mark.parametrize(("number", "settings", "one", "other"), COPIES)
def test_each_step_makes_texts_one(tmp_path, number, settings, one, other):
    pq.write_table(pa.table({"id": [1, 2], "text": [one, other]}), tmp_path / "in.parquet")
    kinds = []
    for chosen in (settings, {}):
        options = {"input.id_column": "id", "layers": ["exact"], "exact.compare": "text", **chosen}
        out = str(tmp_path / f"out{len(kinds)}")
        found = deduplicate(str(tmp_path / "in.parquet"), out, engine="memory", settings=options)
        kinds.append(found.report.removed)

    assert kinds == ([1, 1] if number == 1 else [1, 0])
    assert found.kept.to_table()["text"].to_pylist()[0] == one


@pytest.mark.full
def test_tasks_of_spark_read_markup_and_stems_as_memory_does(tmp_path, spark):
    texts = [text for _, _, one, other in COPIES for text in (one, other)]
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), tmp_path / "in.parquet")
    settings = {"text.markup": "html", "text.stemming": "english", "text.arabic": "drop", "text.han": "simplified"}
    settings |= {"input.id_column": "id", "driver.search_bytes": 0, "shingles.shingle_size": 2}
    job = Job(
        inputs=[str(tmp_path / "in.parquet")], output=str(tmp_path / "spark"), config=load_config(settings=settings)
    )
    expected = deduplicate(job.inputs[0], str(tmp_path / "memory"), engine="memory", settings=settings)

    run(spark, job)

    found = pq.read_table(tmp_path / "spark" / "duplicates").sort_by("id").to_pylist()
    assert found == expected.duplicates.to_table().sort_by("id").to_pylist() != []


def test_a_passage_is_cut_where_its_stems_stand(tmp_path):
    texts = [f"One. {LONG}. Two.", f"Three three, {LONG.replace('Readers', 'reader')}; four."]
    pq.write_table(pa.table({"id": [1, 2], "text": texts}), tmp_path / "in.parquet")
    settings = {"input.id_column": "id", "layers": ["passages"], "text.stemming": "english"}
    settings["passages.min_tokens_left"] = 0

    found = deduplicate(str(tmp_path / "in.parquet"), str(tmp_path / "out"), engine="memory", settings=settings)

    assert found.kept.to_table()["text"].to_pylist() == [texts[0], "Three three, ; four."]


@pytest.mark.parametrize("layer", ["passages", "contamination"])
def test_markup_is_refused_where_spans_are_asked_for(tmp_path, layer):
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": PAGE}))
    settings = {"layers": [layer], "text.markup": "html", "contamination.sets": [f"a:text:{tmp_path}/in.jsonl"]}
    message = f'text.markup: must be "keep" with the layer "{layer}", whose spans are places in the text itself'
    with pytest.raises(ConfigError, match=re.escape(message)):
        deduplicate(str(tmp_path / "in.jsonl"), str(tmp_path / "out"), engine="memory", settings=settings)


@pytest.mark.parametrize(
    ("setting", "extra"),
    [
        ("markup=html", "html"),
        ("markup=markdown", "markdown"),
        ("stemming=english", "stemming"),
        ("han=simplified", "chinese"),
    ],
)
def test_versions_are_in_the_specification_and_a_missing_package_is_named(monkeypatch, setting, extra):
    config = load_config(overrides=[f"text.{setting}"])
    specs = []
    for release in ("1.0", "2.0"):
        for module in ("markup", "unicode_words"):
            monkeypatch.setattr(f"dedup.kernels.text.{module}.version", f"{{}}{release}".format)
        specs.append(HashSpec.of(config, load_tokenizer(config)))

    [(name, (mine, theirs))] = specs[0].difference(specs[1]).items()
    assert (name, mine[-3:], theirs[-3:]) == ("basis", "1.0", "2.0")
    plain = HashSpec.of(load_config(), load_tokenizer(load_config()))
    assert setting.partition("=")[0] in plain.difference(specs[0])

    monkeypatch.setattr("dedup.extras.find_spec", lambda _: None)
    with pytest.raises(DedupError, match=rf"text\.{setting.partition('=')[0]}: .* must be installed .*\[{extra}\]"):
        load_tokenizer(config)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["text.stemming=klingon"], "text.stemming: must be one of arabic, armenian, "),
        (["text.stemming=english", "shingles.unit=char"], 'text.stemming: must be empty with shingles.unit = "char"'),
    ],
)
def test_stems_are_of_words_in_languages_that_have_rules(overrides, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_tokenizer(load_config(overrides=overrides))

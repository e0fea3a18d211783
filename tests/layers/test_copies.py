"""The layers of equal texts and of equal addresses, and what a chain makes of them."""

import json

import pyarrow.parquet as pq
import pytest

from dedup import deduplicate
from dedup.cli import run as cli
from dedup.errors import StorageError
from dedup.layers.url import Form

WORDS = " ".join(f"word{number}" for number in range(40))
TRACKING = ("utm_*", "fbclid")


def run(folder, rows, *options):
    """Return the ids kept and, by id, the removals of a run of these rows in memory."""
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    output = folder / "out"
    arguments = ["--input", str(folder / "in.jsonl"), "--output", str(output), "--overwrite"]
    sets = [word for option in ("engine=memory", *options) for word in ("--set", option)]
    assert cli.main([*arguments, *sets]) == 0
    kept = [json.loads(line) for line in (output / "kept" / "in.jsonl").read_text("utf-8").splitlines()]
    removals = pq.read_table(output / "duplicates").to_pylist()
    return kept, removals, json.loads((output / "report.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("HTTP://Example.COM:80/a/../b", "http://example.com/b"),
        ("https://example.com/b/", "http://example.com/b"),
        ("http://example.com", "http://example.com/"),
        ("http://example.com/b?y=1&x=2", "http://example.com/b?x=2&y=1#part"),
        ("http://example.com/b?utm_source=a&x=2&FBCLID=z", "http://example.com/b?x=2"),
        ("http://b\u00fccher.example/", "http://xn--bcher-kva.example/"),
        ("http://user:word@example.com/b", "http://example.com/b"),
        ("http://example.com/%7euser/a%2Eb%5f%41", "http://example.com/~user/a.b_A"),
        ("http://example.com/a%2fb%c3%a9", "http://example.com/a%2Fb\u00e9"),
        ("http://example.com/b?x=%7e%2f&y=a+b", "http://example.com/b?x=~/&y=a%20b"),
        ("http://example.com/b?x", "http://example.com/b?x="),
        ("http://example.com.:80/b", "http://example.com/b"),
        ("http://example.com.:8080/b", "http://example.com:8080/b"),
        ("gopher://Ex%61mple.com./%7e", "gopher://example.com/~"),
        ("http://example.com/b?%E9t%E9=1&%E8=2&utm_%E9=3", "http://example.com/b?%e8=2&%e9t%e9=1"),
    ],
)
def test_addresses_of_one_page_have_one_form(one, other):
    form = Form(tracking=TRACKING)

    assert form.canonicalise(one) == form.canonicalise(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://example.com/B", "http://example.com/b"),
        ("http://example.com/b?x=1", "http://example.com/b?x=2"),
        ("http://example.com/b?x=1&x=2", "http://example.com/b?x=2&x=1"),
        ("http://example.com:8080/", "http://example.com/"),
        ("http://www.example.com/", "http://example.com/"),
        ("ftp://example.com/b", "http://example.com/b"),
        ("http://example.com/a%2Fb", "http://example.com/a/b"),
        ("http://example.com/%257E", "http://example.com/%7E"),
        ("http://example.com/a%21", "http://example.com/a!"),
        ("http://example.com/%b5", "http://example.com/%c2%b5"),
        ("http://example.com/b?x=%26y", "http://example.com/b?x=&y"),
        ("http://example.com/b?%E9=1", "http://example.com/b?%E8=1"),
        ("http://example.com../", "http://example.com/"),
        ("urn:isbn:1", "urn://isbn:1"),
        ("mailto:example.com", "mailto://example.com"),
    ],
)
def test_addresses_of_other_pages_have_others(one, other):
    form = Form(tracking=TRACKING)

    assert form.canonicalise(one) != form.canonicalise(other)


def test_what_counts_of_an_address_is_a_setting():
    strict = Form(tracking=("*",))

    assert strict.canonicalise("http://a.example/?x=1") == strict.canonicalise("http://a.example/?x=2")
    assert [strict.canonicalise(each) for each in (None, "", "no address", "http://")] == [None] * 4


def test_only_a_star_has_a_meaning_in_parameters_of_tracking():
    form = Form(tracking=("sort[by]", "f[*]", "a?c"))

    written = form.canonicalise("http://a.example/?sort[by]=1&f[x]=2&a?c=3&sortb=4&fx=5&abc=6")

    assert written == "//a.example?abc=6&fx=5&sortb=4"


def test_one_document_of_an_address_stays_and_those_without_one_all_do(tmp_path):
    addresses = ["http://a.example/x?utm_id=1", None, "https://A.example/x", None, "none", "none", "http://a.example/y"]
    rows = [{"id": number, "text": f"{WORDS} {number}", "url": url} for number, url in enumerate(addresses)]
    kept, removals, report = run(tmp_path, rows, 'layers=["url"]', "url.column=url", "input.id_column=id")

    assert [row["id"] for row in kept] == [0, 1, 3, 4, 5, 6]
    assert removals == [
        {"id": 2, "layer": "url", "kind": "url", "representative_id": 0, "component_id": 0, "jaccard": None}
    ]
    assert [(step["layer"], step["removed"], step["documents"]) for step in report["layers"]] == [("url", 1, 6)]


@pytest.mark.parametrize(("compare", "kept_ids"), [("bytes", [1, 2, 4, 5]), ("text", [1, 4, 5])])
def test_of_equal_texts_the_first_by_the_order_stays_and_empty_ones_all_do(tmp_path, compare, kept_ids):
    texts = [WORDS, WORDS, WORDS.upper(), WORDS, "", ""]
    rows = [{"id": number, "text": text, "rank": -number % 5} for number, text in enumerate(texts)]
    order = 'keep.order=["highest:rank"]'
    settings = ('layers=["exact"]', f"exact.compare={compare}", "input.id_column=id", order)
    kept, removals, _ = run(tmp_path, rows, *settings)

    assert [row["id"] for row in kept] == kept_ids
    assert {(row["kind"], row["representative_id"], row["jaccard"]) for row in removals} == {("equal", 1, 1.0)}


def test_a_source_answers_for_no_more_equal_texts_of_others_than_the_limit(tmp_path):
    rows = [{"id": 0, "text": WORDS, "source": "thief"}, {"id": 1, "text": WORDS, "source": "thief"}]
    rows += [{"id": number, "text": WORDS, "source": "honest"} for number in range(2, 6)]
    settings = ('layers=["exact"]', "input.id_column=id", "input.source_column=source", "limits.per_source=1")
    kept, removals, _ = run(tmp_path, rows, *settings)

    assert sorted(row["id"] for row in removals) == [1, 2]
    assert [row["id"] for row in kept] == [0, 3, 4, 5]


def test_whoever_is_named_stays_though_a_later_layer_removes_who_was_first(tmp_path):
    near = WORDS.replace("word39", "other")
    rows = [{"id": 1, "text": near}, {"id": 2, "text": WORDS}, {"id": 3, "text": WORDS}]
    kept, removals, report = run(tmp_path, rows, 'layers=["exact","near"]', "input.id_column=id")

    assert [row["id"] for row in kept] == [1]
    assert [(row["id"], row["layer"], row["representative_id"]) for row in removals] == [
        (2, "near", 1),
        (3, "exact", 1),
    ]
    # Documents of one text are as similar to a third.
    assert removals[0]["jaccard"] == removals[1]["jaccard"] < 1
    assert [(step["layer"], step["documents"]) for step in report["layers"]] == [("exact", 2), ("near", 1)]


@pytest.mark.parametrize("layers", ['["near","url"]', '["exact","url"]', '["url","near"]'])
def test_all_that_are_removed_for_one_document_have_one_component(tmp_path, layers):
    urls = ["http://a.example", "http://a.example", "http://b.example", "http://c.example"]
    texts = [f"{WORDS} alone", WORDS, WORDS, "another"]
    rows = [
        {"id": n, "text": text, "url": url, "rank": n % 2}
        for n, (text, url) in enumerate(zip(texts, urls, strict=True))
    ]
    options = ("url.column=url", "input.id_column=id", 'keep.order=["highest:rank"]', "threshold=0.99")
    kept, removals, _ = run(tmp_path, rows, f"layers={layers}", *options)

    assert [row["id"] for row in kept] == [1, 3]
    assert {(row["id"], row["representative_id"]) for row in removals} == {(0, 1), (2, 1)}
    assert len({row["component_id"] for row in removals}) == 1


def test_a_column_of_addresses_that_is_none_is_refused_by_its_own_setting(tmp_path, capfd):
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a"}\n')
    arguments = ["--input", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out"), "--set", "engine=memory"]

    assert cli.main([*arguments, "--set", 'layers=["url"]', "--set", "url.column=uri"]) == 2
    assert "url.column: must be the name of one column of the input (got 'uri'" in capfd.readouterr().err


def test_python_gets_what_was_cut(tmp_path):
    (tmp_path / "in.jsonl").write_text(
        '{"text": "the same long line\\nmine"}\n{"text": "the same long line\\nyours"}\n'
    )
    found = deduplicate(str(tmp_path / "in.jsonl"), layers=["lines"], lines__documents=1, lines__min_characters=5)

    assert found.spans.to_table()["text"].to_pylist() == ["the same long line\n"] * 2
    assert sorted(found.kept.to_table()["text"].to_pylist()) == ["mine", "yours"]
    with pytest.raises(StorageError):
        _ = deduplicate(str(tmp_path / "in.jsonl")).spans


def test_equal_rows_without_an_id_column_are_one_document(tmp_path):
    rows = [{"text": WORDS}, {"text": WORDS}, {"text": WORDS, "more": 1}, {"text": "short"}]
    kept, removals, _ = run(tmp_path, rows, 'layers=["exact"]')

    assert len(kept) == 2
    assert {row["kind"] for row in removals} == {"equal"}
    assert len(removals) == 2


def test_addresses_are_read_from_their_column_whatever_else_is_read_along(tmp_path):
    rows = [{"id": n, "text": f"text {n}", "url": f"http://x.org/{n % 2}", "lang": f"l{n}"} for n in range(4)]
    options = ['layers=["url"]', "url.column=url", "input.id_column=id", "keep.merge=['count', 'first:lang']"]
    options.append('profile=[{ name = "some", when = { lang = ["l0", "l2"] } }]')

    kept, _, _ = run(tmp_path, rows, *options)

    assert [row["id"] for row in kept] == [0, 1]

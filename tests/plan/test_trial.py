"""A search of the documents drawn: what it counts, and how often the ranges of a plan hold."""

import re
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup import deduplicate
from dedup.display import size
from dedup.kernels.sets import shingles
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.plan.answer import answer
from dedup.plan.profile import DrawnDocuments
from dedup.plan.question import PlanQuestion
from dedup.plan.rows import count_rows
from dedup.plan.sample import measure_corpus
from dedup.plan.show import to_text
from dedup.plan.trial import search_drawn
from dedup.settings.files import load_config
from tests.conftest import PROFILE
from tests.corpora import Corpus
from tests.plan.families import make_chains, make_templates

DOCUMENTS = 400 if PROFILE == "full" else 200


def write(path, texts):
    pq.write_table(pa.table({"id": [f"{number:08}" for number in range(len(texts))], "text": texts}), path)
    return str(path)


def draw(texts, total=None):
    tokens, bounds = UnicodeWords().hash(pa.array(texts, pa.large_binary()))
    values, offsets = shingles.shingle(tokens, bounds, 5, UnicodeWords())
    return DrawnDocuments(
        shingles=values, offsets=offsets, tokens=tokens, bounds=bounds, total=total or len(texts), compared=len(texts)
    )


def ask(path, *settings, **options):
    return answer(PlanQuestion(config=load_config(None, None, settings), sample=path, **options))["capacity"]


@pytest.mark.parametrize("make", [make_chains, make_templates])
def test_a_whole_corpus_is_counted_as_a_run_counts_it(tmp_path, make):
    texts = make(900)
    path = write(tmp_path / "a.parquet", texts)
    found = deduplicate(path, output=str(tmp_path / "out"), id_column="id", engine="memory").report.to_dict()
    counted = search_drawn(draw(texts), load_config(), 900, ranges=False).point

    expected = {
        "identical": found["stages"]["identical"]["rows"],
        "removed": found["removed"],
        "members": found["stages"]["components"]["rows"],
        "memberships": found["stages"]["buckets"]["members"],
        "buckets": found["stages"]["buckets"]["rows"],
    }
    assert {name: round(counted[name] * 900) for name in expected} == expected
    # Circles are in the order of ids, which are other ones here, and equal sets are compared once with those kept.
    for name, measured in {
        "pairs": found["pairs"]["in_buckets"],
        "uncompared": found["pairs"]["uncompared"],
        "candidates": found["pairs"]["candidates"],
        "edges": found["edges"],
        "near_misses": found["stages"]["output"]["near_misses"],
        "distant": found["stages"]["representatives"]["distant"],
    }.items():
        assert counted[name] * 900 == pytest.approx(measured, rel=0.1), name


def test_a_choice_of_more_than_twice_the_cheapest_is_not_tried_in_a_sample(tmp_path):
    path = write(tmp_path / "a.parquet", make_chains(200))
    found = answer(PlanQuestion(config=load_config(), sample=path, recall=["0.95@0.8"]))

    least = min(each["core_seconds"] for each in found["choices"])
    tried = [each["core_seconds"] <= 2 * least for each in found["choices"]]
    assert [each["shuffle_bytes"] is not None for each in found["choices"]] == tried
    assert any(tried)
    assert not all(tried)
    shown = re.findall(r"^ +\d+ +\d+ +\d+ +\d+ +(-|\d+) ", to_text(found), re.MULTILINE)
    assert [each != "-" for each in shown] == tried
    assert "more than 2 times its cost is not tried" in " ".join(to_text(found).split())


def measure(path, drawn=DOCUMENTS, **options):
    given = {"text_columns": ["text"], "shingle_size": 5, "tokenizer": UnicodeWords(), "id_bytes": 8, **options}
    return measure_corpus(path, drawn=drawn, **given)


VARIED = ("templates", "candidates", "edges", "all", "pairs")
"""What depends on the seed: bytes that stages shuffle, and pairs; those of representatives differ by a thousandth."""


def list_moved(capacity):
    told = {stage["name"]: (stage["shuffle_bytes"], stage["ranges"]["shuffle_bytes"]) for stage in capacity["stages"]}
    told["all"] = capacity["shuffle_bytes"], capacity["ranges"]["shuffle_bytes"]
    told["pairs"] = capacity["pairs"], capacity["ranges"]["pairs"]
    return {name: told[name] for name in VARIED}


@pytest.mark.full
def test_ranges_over_seeds_hold_for_four_of_five_other_seeds(tmp_path):
    path = write(tmp_path / "a.parquet", make_templates(DOCUMENTS))
    told = [list_moved(ask(path, f"seed={100 * number}", documents=DOCUMENTS)) for number in range(1, 7)]
    held = Counter()
    for number, each in enumerate(told):
        for name, (_, (low, high)) in each.items():
            held[name] += sum(low <= other[name][0] <= high for place, other in enumerate(told) if place != number)

    assert sum(held.values()) == pytest.approx(0.8 * 30 * len(VARIED), rel=0.1), held
    low, high = told[0]["pairs"][1]
    assert high > 1.1 * low


@pytest.mark.full
def test_a_range_of_a_sample_holds_for_eight_of_ten_samples(tmp_path):
    corpus = Corpus(seed=5, mean_tokens=150)
    whole = search_drawn(draw(make_chains(10 * DOCUMENTS, corpus)), load_config(), 0, ranges=False).point
    held = Counter()
    for number in range(10):
        path = write(tmp_path / f"{number}.parquet", make_chains(DOCUMENTS, corpus))
        ranges = ask(path, documents=10 * DOCUMENTS)["ranges"]
        for name in ("pairs", "removed"):
            low, high = ranges[name]
            held[name] += low <= whole[name] * 10 * DOCUMENTS <= high

    assert min(held["pairs"], held["removed"]) >= 8, held


def test_a_sample_drawn_at_random_stands_for_its_corpus(tmp_path):
    config, texts = load_config(), make_templates(1200)
    path = write(tmp_path / "a.parquet", texts)
    found = []
    for drawn in (1200, 400):
        corpus = measure(path, drawn)
        found.append(count_rows(config, corpus, search_drawn(corpus.drawn, config, 1200, ranges=False)))
    whole, part = found

    assert whole["uncompared"] > whole["pairs"] > 50_000
    for name in ("pairs", "uncompared", "candidates", "hot", "hot_shingles"):
        assert part[name] == pytest.approx(whole[name], rel=0.3), name


def test_a_plan_of_a_larger_corpus_grows_with_it(tmp_path):
    path = write(tmp_path / "a.parquet", make_chains(DOCUMENTS))
    one, ten = (ask(path, documents=DOCUMENTS * times) for times in (1, 10))

    for name in ("removed", "pairs"):
        assert ten[name] == pytest.approx(10 * one[name], rel=0.01)
    assert ten["families"] is not one["families"]


def test_a_plan_shows_its_ranges_as_low_to_high(tmp_path):
    path = write(tmp_path / "a.parquet", make_chains(DOCUMENTS))
    found = answer(PlanQuestion(config=load_config(), sample=path, documents=2 * DOCUMENTS))
    shown = to_text(found)
    [edges] = [stage for stage in found["capacity"]["stages"] if stage["name"] == "edges"]

    low, high = edges["ranges"]["shuffle_bytes"]
    assert low < edges["shuffle_bytes"] < high
    [line] = [line for line in shown.splitlines() if re.match(r"edges\s+[\d.]+ [kM]?B\s", line)]
    assert f"{size(edges['shuffle_bytes'])}  {size(low)} to {size(high)}" in re.sub(r"\s{2,}", "  ", line)
    assert re.search(r" removed \([\d,]+ to [\d,]+\)$", shown, re.MULTILINE)
    found["capacity"]["ranges"]["removed"] = [7.0, 7.0]
    assert re.search(r" removed$", to_text(found), re.MULTILINE)
    assert re.search(r"^stage +tables +LOW to HIGH +shuffle +LOW to HIGH +core hours", shown, re.MULTILINE)
    assert "10% to 90% quantiles of searches of the sample with other hash seeds and other families." in shown


def test_without_a_sample_there_is_no_range():
    found = answer(PlanQuestion(config=load_config(), documents=1000))["capacity"]

    assert found["ranges"] is None
    assert {stage["ranges"] for stage in found["stages"]} == {None}


def test_passages_are_counted_in_the_documents_that_near_keeps(tmp_path):
    corpus = Corpus(seed=5, mean_tokens=150)
    texts = make_chains(300, corpus)
    footer = " ".join(corpus.words.take(pa.array(corpus.draw(70))).to_pylist())
    texts = [f"{each} {footer}" if number % 5 == 0 else each for number, each in enumerate(texts)]
    path = write(tmp_path / "a.parquet", texts)
    output = str(tmp_path / "out")
    deduplicate(path, output=output, id_column="id", engine="memory")
    kept = pq.read_table(f"{output}/kept")["text"].to_pylist()
    windows = [tuple(words[begin : begin + 50]) for words in map(str.split, kept) for begin in range(len(words) - 49)]
    occurs = Counter(windows)

    config = load_config(None, None, ['layers=["near", "passages"]'])
    counted = search_drawn(draw(texts), config, 300, ranges=False).point
    assert round(counted["reaching"] * 300) == len(kept)
    assert round(counted["tokens"] * 300) == sum(len(each.split()) for each in kept)
    assert round(counted["repeated_windows"] * 300) == sum(occurs[each] > 1 for each in windows) > 1000
    assert counted["grams"] > counted["shared_grams"] > 0
    assert counted["asked_windows"] >= counted["repeated_windows"]
    # All but the first of each footer at least.
    assert 50 < counted["pieces"] * 300 < 500


def test_a_plan_has_a_stage_of_passages_and_names_layers_that_it_does_not_count(tmp_path):
    path = write(tmp_path / "a.parquet", make_chains(DOCUMENTS))
    layers = 'layers=["lines", "near", "passages"]'
    plain, more, blind = (
        ask(path, documents=2 * DOCUMENTS),
        ask(path, layers, documents=2 * DOCUMENTS),
        ask(None, layers, documents=2 * DOCUMENTS),
    )

    names = [stage["name"] for stage in more["stages"]]
    assert names == [*(stage["name"] for stage in plain["stages"][:-1]), "passages", "output"]
    assert more["shuffle_bytes"] > 1.01 * plain["shuffle_bytes"]
    assert [each["uncounted"] for each in (plain, more, blind)] == [[], ["lines"], ["lines", "passages"]]
    shown = to_text(answer(PlanQuestion(config=load_config(None, None, [layers]), documents=2 * DOCUMENTS)))
    assert "Not in this plan: the layers lines, passages." in shown


def test_a_small_part_of_many_copies_never_has_more_of_them_than_documents(tmp_path):
    copies = [text for number, text in enumerate(make_chains(60)) for _ in range(1 + 20 * (number < 3))]
    found = ask(write(tmp_path / "a.parquet", copies), documents=10**6, sample_of=10**6)

    assert found["removed"] <= found["ranges"]["removed"][1] <= 10**6
    for stage in found["stages"]:
        assert min(low for low, _ in stage["ranges"].values()) >= 0, stage["name"]


def test_a_sample_of_copies_drawn_from_very_many_documents_leaves_no_fewer_pairs_than_none(tmp_path):
    copies = [text for number, text in enumerate(make_chains(60)) for _ in range(1 + 200 * (number < 3))]
    found = ask(write(tmp_path / "a.parquet", copies), documents=10**6, sample_of=10**15)

    for stage in found["stages"]:
        assert all(item["count"] >= 0 for kind in ("tables", "shuffle") for item in stage[kind]), stage["name"]


def test_of_few_pairs_among_those_compared_the_search_knows_how_many_go(tmp_path):
    config, corpus = load_config(), Corpus(seed=4, mean_tokens=150)
    path = write(tmp_path / "a.parquet", corpus.chunk(12_000)[0].to_pylist())
    found = []
    for drawn, compared in ((12_000, 12_000), (4000, 300)):
        profile = measure(path, drawn, compared=compared)
        found.append(count_rows(config, profile, search_drawn(profile.drawn, config, 12_000, ranges=False)))
    whole, part = found

    # Of some 500 in the whole the search sees one in nine, all pairs of 300 documents one in 1,600.
    assert 400 < whole["edges"] < 700
    for name in ("removed", "members", "edges"):
        assert part[name] == pytest.approx(whole[name], rel=0.25), name

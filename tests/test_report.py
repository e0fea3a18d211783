"""The report as numbers, as a table, as metrics and as a page, of made-up runs."""

import html
import io
import json
import re
import zipfile
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from subprocess import run
from sys import executable
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import dedup
from dedup.display import number, size
from dedup.errors import StorageError
from dedup.explain.comparison import compare
from dedup.kernels import frequencies
from dedup.kernels.curve import probability
from dedup.report import figures
from dedup.report.baseline import DRIFT, parse_baseline
from dedup.report.build import rank_tokens, to_json
from dedup.report.decisions import show_doubtful
from dedup.report.details import LONGEST, list_details
from dedup.report.explorer import explore_run
from dedup.report.metrics import METRICS, to_metrics
from dedup.report.page import find_prefix, group_by_power_of_two, to_html
from dedup.report.plots import draw_plots, list_plots
from dedup.report.show import to_table
from dedup.settings.contract import load_tokenizer
from dedup.settings.files import load_config, parse_config, to_dict
from dedup.tables.counts import Layered, Near
from tests.reports import (
    DOUBTFUL,
    HOSTILE,
    LABELED,
    SIMILARITIES,
    WRITTEN,
    make_hostile_report,
    make_near,
    make_report,
    make_stages,
)
from tests.strategies import runs

VOID = {"meta", "link", "br", "img", "input", "hr"}
SOURCES = {"web": {"documents": 9_000, "kept": 7_300}, "books": {"documents": 3_000, "kept": 2_800}}


class Page(HTMLParser):
    """The elements and the text of a page whose elements are all closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.apart = [], Counter(), [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in {"style", "script"}:
            self.text.append(data)
        if self.open and self.open[-1] == "bdi":
            self.apart.append(data)


@pytest.fixture(scope="module")
def plots():
    """Return the plots of the made-up report."""
    return draw_plots(make_report())


@pytest.fixture(scope="module")
def draw_once():
    """Return a function that draws the same numbers once."""
    drawn, draw = {}, figures.draw

    def act(name, title, plot):
        key = f"{name} {plot.keywords}"
        if key not in drawn:
            drawn[key] = draw(name, title, plot)
        return drawn[key]

    return act


def leave(report, *drawn):
    """Return stand-ins for the plots of a report but these: drawn they take a second, and few tests look at them."""
    return {name: "<svg></svg>" for name in list_plots(report) if name not in drawn}


def show(report, drawn=None):
    page = Page(to_html(report, leave(report) if drawn is None else drawn))
    return page, " ".join(" ".join(page.text).split())


def scrape(report, finished=None):
    """Return the metrics by name and labels, as Prometheus reads them."""
    return {
        (sample.name.removeprefix("dedup_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(to_metrics(report, finished))
        for sample in family.samples
    }


# Numbers


def test_the_metrics_have_their_names_and_values():
    report = make_report(survival_by_source=SOURCES, near=make_near(labeled=LABELED))

    named = json.loads(to_json(report))
    assert named["candidate_pairs_per_doc"] == sum(SIMILARITIES) / 12_000
    assert named["bucket_size_p99"] == 40
    assert named["verify_drop_rate"] == 1 - 2_850 / sum(SIMILARITIES)
    assert named["recall_on_labeled_set"] == 0.9
    assert named["signature_bytes"] == 3_700_000
    assert named["index_bytes"] == 16 * 232_596
    assert named["empty_rate"] == 0.002
    assert named["removal_rate"] == 1_900 / 12_000
    assert named["survival_by_source"] == SOURCES
    assert named["stages"]["signatures"]["seconds"] == 4.1
    assert named["text_bytes_removed"] == 2_800_000
    assert named["chained_share"] == 95 / 1_900
    assert named["kept_by_representative"] == 10_100 + 60
    assert named["edges_written"] == 3_750


def test_99_of_100_buckets_have_at_most_the_percentile():
    for sizes in ({2: 99, 50: 1}, {2: 98, 50: 2}, {7: 1}, {2: 1, 3: 1}, {}):
        every = sorted(Counter(sizes).elements())
        expected = np.percentile(every, 99, method="inverted_cdf") if every else 0
        assert make_report(near=make_near(bucketed={"sizes": sizes}))["bucket_size_p99"] == expected


def test_without_a_labelled_set_a_baseline_and_sources_these_are_null():
    report = json.loads(to_json(make_report()))

    for name in ("recall_on_labeled_set", "removal_rate_change", "survival_by_source", *DRIFT):
        assert report[name] is None
    assert "baseline" not in report


def test_the_baseline_is_compared_by_numbers_and_settings():
    earlier = json.loads(to_json(make_report("threshold=0.7", "lsh.bands=30", "lsh.rows=6"))) | {
        "output": "s3a://me:secret@b/old"
    }
    earlier |= {"removal_rate": 0.2, "kept": HOSTILE, "unknown": 3}

    report = make_report(baseline=earlier)

    assert report["removal_rate_change"] == pytest.approx(0.2 - 1_900 / 12_000)
    assert report["baseline"]["output"] == "s3a://b/old"
    assert report["baseline"]["settings"] == {"threshold": [0.7, 0.8], "lsh.bands": [30, 21]}
    assert report["baseline"]["numbers"].keys() <= METRICS.keys() - {"kept"}
    _, text = show(report)
    assert "share removed: dedup_removal_rate 0.158333 0.2 -0.041667" in text
    assert "documents kept: dedup_kept 10,100 unknown unknown" in text
    assert "Since the earlier run Share removed fell from 20.00% to 15.83%. threshold is 0.8; it was 0.7." in text
    assert "lsh.bands is 21; it was 30." in text


def test_what_changed_since_the_earlier_run_is_said_in_sentences():
    earlier = make_report(survival_by_source=SOURCES | {HOSTILE: {"documents": 5, "kept": 5}}) | {"output": "old"}
    earlier |= {"least_similarity": 0.7, "stages": make_stages(seconds=9.0)}
    sources = {"web": {"documents": 9_000, "kept": 8_100}, "books": {"documents": 3_000, "kept": 2_801}}

    assert make_report(survival_by_source=sources, baseline=earlier)["baseline"]["differences"] == [
        "least similarity fell from 0.70 to 0.62",
        "share kept of source 'web' rose from 81.11% to 90.00%",
        "time fell from 1 min to 16 s",
    ]
    assert make_report(baseline=make_report() | {"output": "old"})["baseline"]["differences"] == []


@pytest.mark.parametrize("wrong", [None, HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}, {"kept": [HOSTILE]}, [{}], [[]], 3])
def test_an_earlier_report_that_is_none_of_ours_is_left_out_of_the_plots(monkeypatch, draw_once, wrong):
    monkeypatch.setattr(figures, "draw", draw_once)
    names = set(make_report()) - {"removal_rate", "settings"}
    earlier = make_report() | dict.fromkeys(names, wrong) | {"output": "old", "settings": {"lsh": wrong}}

    report = make_report(baseline=earlier)

    assert draw_plots(report) == draw_plots(make_report())
    assert show(report)


@pytest.mark.parametrize("content", [None, "", "no json", "[]", "{}", '{"removal_rate": "x", "settings": {}}'])
def test_a_baseline_that_is_none_is_refused(content):
    with pytest.raises(StorageError, match=r"^--baseline OUT/: must be the output of an earlier run"):
        parse_baseline("OUT/", content)


def test_a_baseline_is_read_with_its_place():
    report = to_json(make_report())

    assert parse_baseline("OUT/", report) == json.loads(report) | {"output": "OUT/"}


def draw_documents(seed, count):
    """Return documents by doc_id whose tokens follow Zipf's law."""
    chance = np.random.default_rng(seed)
    return [(number, frequencies.shorten(chance.zipf(1.6, 400).astype(np.uint64))) for number in range(count)]


def test_token_slopes_are_fitted_at_the_same_ranks():
    sample = draw_documents(5, 300)
    boilerplate = [(1_000, frequencies.shorten(np.arange(50, dtype=np.uint64)))] * 400

    ranks = rank_tokens({"input": sample + boilerplate, "kept": sample})

    assert ranks["kept"]["tokens"] == 300 * 400
    assert ranks["input"]["tokens"] == 300 * 400 + 400 * 50
    assert ranks["ranks"][0] == 1
    assert len(ranks["ranks"]) == len(ranks["input"]["per_million"]) == len(ranks["kept"]["per_million"])
    tokens = b"".join(tokens for _, tokens in sample)
    counts = Counter(np.frombuffer(tokens, "<u4").tolist()).most_common()
    assert ranks["kept"]["per_million"][0] == pytest.approx(counts[0][1] / 0.12, abs=1e-3)
    # The exponent of frequency over rank is that of the law of frequencies, 1 / (a - 1)... of ranks by value: a.
    assert ranks["kept"]["slope"] == pytest.approx(-1.6, abs=0.1)
    assert rank_tokens({"input": sample[:1], "kept": []}) is None


def test_the_error_of_a_slope_is_that_of_other_samples():
    slopes, errors = [], []
    for seed in range(30):
        sample = draw_documents(seed, 100)
        found = rank_tokens({"input": sample, "kept": [each for each in sample if each[0] % 3]})
        slopes.append(found["input"]["slope"])
        errors.append(found["input"]["error"])
        # Nothing but chance tells a part from all: the change lies within a few errors.
        assert abs(found["change"]) < 4 * found["change_error"]

    assert 0.6 < np.mean(errors) / np.std(slopes) < 1.7


def test_a_slope_that_chance_explains_is_no_change():
    for change, said in (
        (0.03, "goes from -0.980 ± 0.004 to -0.950 ± 0.004"),
        (0.003, "is -0.980 ± 0.004; the sample shows no change"),
    ):
        report = make_report()
        report["token_ranks"]["change"] = change
        assert f"The slope {said}" in show(report)[1]


def test_no_loss_in_a_sample_bounds_the_share_that_is_lost():
    for drawn, lost, bound in ((10_000, 0, 3.0e-4), (10, 0, 0.2589), (100, 5, 0.1023), (7, 7, 1.0), (0, 0, 0.0)):
        made = make_near(lost={"documents": 3, "drawn": drawn, "possible": lost, "verified": lost, "lost": lost})
        # Clopper and Pearson's bounds of one side.
        found = make_report(near=made)["uncompared"]
        assert found["lost_share_at_most"] == pytest.approx(bound, rel=2e-3)
        assert found["documents_lost_at_most"] == (2 if drawn else 0)


def test_of_pairs_that_may_be_lost_a_tenth_verified_weakens_the_bound_tenfold():
    made = make_near(lost={"documents": 10**6, "drawn": 10**6, "possible": 10**5, "verified": 10_000, "lost": 0})
    found = make_report(near=made)["uncompared"]

    assert found["lost_share_at_most"] == pytest.approx(3.0e-5, rel=2e-3)
    assert found["documents_lost_at_most"] == found["lost_at_most"] == 1


def test_no_password_of_a_url_is_told():
    report = make_report(
        "evaluation.labeled_pairs=s3a://me:secret@b/pairs",
        inputs=["s3a://me:secret@b/in"],
        output="s3a://me:secret@b/out",
    )

    assert (report["input"], report["output"]) == (["s3a://b/in"], "s3a://b/out")
    for text in (to_json(report), to_html(report, leave(report)), to_metrics(report), to_table(report)):
        assert "secret" not in text


# Table


def test_the_table_begins_with_alerts():
    assert to_table(make_report()).startswith("documents  ")
    lines = to_table(make_hostile_report("alerts.survival_by_source_below=0.5")).splitlines()
    assert lines[0].startswith("ALERT: survival_by_source of ")
    assert lines[0].isprintable()
    assert lines[1:3] == ["", "documents                 12,000"]


# Metrics


def test_metrics_are_the_numbers_of_the_report():
    limits = ("alerts.removal_rate_above=0.1", "alerts.empty_rate_above=0.5")
    report = make_report(*limits, survival_by_source=SOURCES, near=make_near(labeled=LABELED))

    scraped = scrape(report, finished=1.5e9)

    for name in METRICS.keys() - {"removal_rate_change", *DRIFT}:
        assert scraped[name,] == report[name]
    assert scraped["alerts",] == 1
    assert scraped["alert", "removal_rate_above"] == 1
    assert scraped["alert", "empty_rate_above"] == 0
    assert scraped["run_info", report["settings_digest"], report["versions"]["dedup"]] == 1
    assert scraped["last_success_timestamp_seconds",] == 1.5e9
    assert "last_success_timestamp_seconds" not in to_metrics(report)
    assert scraped["survival_by_source", "web"] == 7_300 / 9_000
    assert scraped["stage_seconds", "edges"] == 2.3
    assert scraped["stage_shuffle_bytes", "edges"] == 1_234_567
    assert scraped["token_slope", "kept"] == -0.95


def test_metrics_have_the_names_that_operators_know_where_bands_were_made():
    report = make_report()
    scraped = scrape(report)

    assert scraped["candidate_pairs_total",] == sum(SIMILARITIES)
    assert scraped["lsh_bucket_max_size",] == 420
    assert scraped["index_memory_bytes",] == scraped["index_bytes",]
    assert scraped["empty_bin_rate",] == 24 / 12_000
    for unknown in ("mode=exact", 'layers=["exact"]'):
        found = {name for name, *_ in scrape(make_report(unknown))}
        assert not found & {"candidate_pairs_total", "lsh_bucket_max_size", "index_memory_bytes", "empty_bin_rate"}
    # No two documents share a bucket.
    assert "lsh_bucket_max_size" not in {
        name for name, *_ in scrape(make_report(near=make_near(bucketed={"sizes": {}})))
    }


def test_effective_tokens_are_of_the_texts_that_are_left():
    assert make_report()["effective_tokens"] == round(2_500_000 * 14.0 / 16.8)
    assert make_report(written=replace(WRITTEN, text_bytes_kept=None))["effective_tokens"] is None
    assert make_report('layers=["exact"]', near=Near.none())["effective_tokens"] is None


def test_drift_is_none_from_the_same_corpus_and_the_share_that_moved_from_another():
    earlier = json.loads(to_json(make_report())) | {"output": "earlier"}
    assert {name: make_report(baseline=earlier)[name] for name in DRIFT} == dict.fromkeys(DRIFT, 0)

    # Half as many tokens a document, a tenth of the pairs elsewhere, and a quarter of the documents in other buckets.
    halved = {"signed": {"tokens": 1_250_000}, "verified": {"similarities": [*[0] * 10, 90, *[0] * 8, 10]}}
    now = make_report(
        near=make_near(**halved, bucketed={"sizes": {2: 10, 3: 20}}),
        baseline=earlier
        | {
            "similarities": [*[0] * 10, 100, *[0] * 9],
            "bucket_sizes": {"2": 10, "4": 10, "5": 4},
        },
    )
    assert now["tokens_per_doc_change"] == pytest.approx(0.5)
    assert now["text_bytes_per_doc_change"] == 0
    assert now["similarity_drift"] == pytest.approx(0.1)
    assert now["bucket_drift"] == pytest.approx(0.25)


@pytest.mark.parametrize("broken", [{"similarities": None}, {"similarities": [1]}, {"bucket_sizes": {"x": 1}}])
def test_drift_from_what_cannot_be_read_is_unknown(broken):
    earlier = json.loads(to_json(make_report())) | {"output": "earlier", "tokens_per_doc": "many"} | broken
    report = make_report(baseline=earlier)
    assert report["tokens_per_doc_change"] is None
    assert None in {report["similarity_drift"], report["bucket_drift"]}


def test_what_is_unknown_is_no_metric():
    stages = make_stages()
    for stage in stages.values():
        del stage["shuffle_bytes"]

    names = {name for name, *_ in scrape(make_report(stages=stages, token_ranks=None))}

    unknown = {
        "recall_on_labeled_set",
        "removal_rate_change",
        *DRIFT,
        "survival_by_source",
        "stage_shuffle_bytes",
        "token_slope",
    }
    assert names & unknown == set()


def test_a_hostile_source_is_one_label_of_metrics_without_control_characters():
    report = make_hostile_report()

    assert to_metrics(report).replace("\n", "").isprintable()
    assert any(labels[0].startswith("<script>") for name, *labels in scrape(report) if name == "survival_by_source")


# Page


def test_a_page_is_whole_and_needs_nothing_else(plots):
    page, text = show(make_report(survival_by_source=SOURCES), plots)

    # Plots, and the explorer.
    assert page.tags["svg"] == page.tags["figcaption"] == 8
    assert (page.tags["script"], page.tags["img"]) == (1, 0)
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")}
    links = [value for name, value in page.attributes if name in {"href", "src", "action"}]
    # An icon of no bytes keeps browsers from asking a server for one.
    assert [link for link in links if not link.startswith("#")] == ["data:,"]
    assert "1,900 of 12,000 documents removed (15.83%)" in text
    assert "text saved 2.8 MB of 16.8 MB" in text
    assert "95 of the removed documents (5.00%) are less similar to the one kept than the threshold" in text
    assert "web 9,000 1,700 18.89%" in text
    assert "web (none) 600" in text
    assert "identical copies removed \u2212900 near-duplicates removed \u22121,000 kept 10,100" in text
    assert "0.7 at least 2,050 17.08% 92.78% 0.75 at least 1,980" in text
    assert "0.8 (this run) 1,900 15.83% 99.83% 0.85 1,600" in text
    assert "about 10,160 documents would be kept instead of 10,100, 60 more" in text
    assert "0.62: page-10 , removed for page-1 Permission is hereby granted, free of charge" in text
    # An id that reads from right to left leaves the words around it in their order.
    assert {"page-10", "page-1"} <= {*page.apart}
    assert "edges has 3,750 rows: these edges, and one for each" in text
    assert "signatures 12,000 4.1 1.23 MB" in text
    assert "At the threshold it is 99.83%." in text
    assert "page-1 340" in text
    assert "One document of each is kept. The components were found by driver." in text
    assert "Permission is hereby granted, free" in text


def test_sections_without_numbers_say_why():
    told = {"sizes": {}, "largest": (), "similarities": (), "doubtful": (), "joined": (), "removers": ()}
    nothing = {"verified": {"similarities": ()}, "bucketed": {"sizes": {}}, "elected": told}
    facts = {"near": make_near(**nothing), "written": replace(WRITTEN, text_bytes_kept=None), "token_ranks": None}
    stages = make_stages()
    for stage in stages.values():
        del stage["shuffle_bytes"]

    page, text = show(make_report("mode=exact", "output.mode=ids", stages=stages, **facts))

    assert page.tags["svg"] == 0
    assert 'The text saved is not measured, as only ids were written: set output.mode to "filter".' in text
    assert "Not compared with an earlier run: give its output by --baseline ." in text
    assert "Not shown: no pair was compared." in text
    assert "Not shown: set input.source_column to the column that says" in text
    assert "Recall on labelled pairs was not measured: set evaluation.labeled_pairs to a file" in text
    assert "Every pair that could reach the threshold was compared" in text
    assert "Similarities of candidates are not shown" in text
    assert "Token frequencies are not shown: there are too few documents" in text
    assert "stage rows seconds signatures 12,000 4.1 identical" in text


def test_hostile_texts_stay_texts():
    report = make_hostile_report()
    page, text = show(report, draw_plots(report))

    assert (page.tags["script"], page.tags["img"]) == (1, 0)
    assert "onerror" not in {name for name, _ in page.attributes}
    # An id and a text of an example, a source, a setting, input, output.
    shown = " ".join(HOSTILE.replace("\x1b", r"\x1b").replace("\0", r"\x00").replace("\u202e", r"\u202e").split())
    assert text.count(shown) >= 6
    assert all(char.isprintable() for char in text)


def test_a_page_begins_with_what_run_it_is_of_and_its_title_tells_two_apart():
    report = make_report(inputs=["/data/crawl/pages.parquet", "more/"], begun=1_790_000_000.0, preset="code")
    page, text = show(report | {"seconds": 75.4})

    assert text.startswith("pages.parquet and 1 more, 2026-09-21: 15.83% of 12,000 documents removed")
    assert (
        "/data/crawl/pages.parquet, more/, 2026-09-21 14:13 UTC , 1 min; engine spark, threshold 0.8, "
        "layers near, preset code." in text
    )
    assert ("datetime", "2026-09-21T14:13:20+00:00") in page.attributes
    assert "no preset" in show(make_report())[1]


def test_the_settings_of_a_page_can_be_pasted():
    report = make_report("threshold=0.7", "layers=exact,near", 'input.text_column="a\u202eb"')
    page = to_html(report, {})
    [pasted] = re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)

    assert to_dict(parse_config("page", html.unescape(pasted))) == report["settings"]


def test_folders_that_all_ids_lie_in_are_left_out():
    def place(number):
        return {"id": f"/data/crawl/2026/{number}.txt", "representative_id": "/data/crawl/2026/1.txt"}

    doubtful = [each | place(number) for number, each in enumerate(DOUBTFUL)]
    _, text = show(make_report(near=make_near(elected={"doubtful": doubtful, "largest": ()})))

    assert "0.62: \u2026/0.txt , removed for \u2026/1.txt" in text
    assert "All ids on this page begin with /data/crawl/2026/" in text
    assert find_prefix(["/data/crawl/a", 3]) == find_prefix(["/data/crawl/a"] * 2) == find_prefix([]) == ""
    assert find_prefix(["a/b", "a/c"]) == ""


def test_no_script_but_that_of_the_tables_runs():
    page = to_html(make_hostile_report(), {})
    [script] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    [allowed] = re.findall(r"script-src '(.*?)'", page)

    assert allowed == f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}"


def test_plots_of_few_bars_are_linear_with_every_size_marked():
    report = make_report(
        near=make_near(
            bucketed={"sizes": {2: 3, 4: 1}},
            elected={"sizes": {2: 2, 3: 1}, "similarities": [*[0] * 16, 1, 0, 2, 4]},
        )
    )
    drawn = draw_plots(report, leave(report, "buckets", "components", "removals"))

    for name, marks in (("buckets", "234"), ("components", "23"), ("removals", "1234")):
        assert {*marks} <= {*re.findall(r">(\d)</text>", drawn[name])}, name
        assert "10" not in re.findall(r">(\d+)</text>", drawn[name])
    # The grid lies behind the bars.
    assert 0 < drawn["removals"].rindex("stroke-opacity: 0.25") < drawn["removals"].index("fill: #1f78c8")


def test_alerts_come_first_and_say_what_became_of_the_output():
    for on_breach, said in (("warn", "published all the same"), ("fail", "nothing was published")):
        settings = ("alerts.removal_rate_above=0.1", f"alerts.on_breach={on_breach}")
        _, text = show(make_report(*settings))
        beginning = text[: text.index(" documents removed (15.83%)")]
        assert f"1 alert: {said} share removed: 15.83%, above the limit of 10.00% (alerts.removal" in beginning


def test_sizes_are_summed_by_powers_of_two():
    assert group_by_power_of_two({2: 1, 3: 5, 4: 7, 5: 1, 1000: 2}) == {
        "2": 1,
        "3 to 4": 12,
        "5 to 8": 1,
        "513 to 1,024": 2,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (999_499, "999 kB"), (999_500, "1 MB"), (16.8e6, "16.8 MB")],
)
def test_bytes_are_written_with_three_digits(value, text):
    assert size(value) == text


def test_numbers_are_written_without_digits_that_say_nothing():
    assert [number(each) for each in (0.1583333333, 3_700_000, 4.0, None)] == ["0.158333", "3,700,000", "4", "unknown"]


# Plots


def test_plots_are_the_same_every_time_and_small(plots):
    first = draw_plots(make_report())

    assert first == plots
    assert first.keys() == {"removals", "dial", "curve", "similarities", "buckets", "components", "tokens"}
    for name, svg in first.items():
        root = ET.fromstring(svg)  # noqa: S314 - our own
        assert root.get("role") == "img"
        assert root.find("title").text
        assert len(svg) < 25_000, name
        assert not re.search(r"<style|<metadata|20\d\d-\d\d|matplotlib", svg)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("curve", ["Jaccard similarity", "probability to be compared", "threshold 0.8", "21 bands of 6 rows"]),
        ("similarities", ["exact Jaccard similarity", "candidates (pairs)", "dropped: 3,120", "edges: 2,850"]),
        ("buckets", ["documents in a bucket, at least", "buckets", "cap 150", "1k"]),
        ("components", ["documents in a component, at least", "components", "100"]),
        (
            "tokens",
            ["rank of the token", "occurrences in a million tokens", "input: slope -0.98", "kept: slope -0.95"],
        ),
    ],
)
def test_axes_and_series_are_named_in_words(plots, name, words):
    root = ET.fromstring(plots[name])  # noqa: S314 - our own
    texts = ["".join(each.itertext()) for each in root.iter("text")]

    assert set(words) <= set(texts)


def test_ids_are_unique_within_a_page(plots):
    ids = re.findall(r' id="([^"]+)"', "".join(plots.values()))

    assert len(ids) == len(set(ids)) > 5


def test_the_bin_that_the_threshold_divides_holds_the_edges_that_no_other_holds():
    for threshold, edges, counted in ((0.8, 2_850, 2_850), (0.77, 3_000, 3_000), (1.0, 10, 10)):
        near = make_near(verified={"rows": edges})
        report = make_report(f"threshold={threshold}", near=near)
        svg = draw_plots(report, leave(report, "similarities"))["similarities"]
        assert f"edges: {counted:,}" in svg
        assert f"dropped: {sum(SIMILARITIES) - counted:,}" in svg


def test_measured_recall_is_drawn_where_known_and_apart_from_the_chance_to_be_compared(plots):
    report = make_report(near=make_near(labeled=LABELED))
    assert "share in one component" in draw_plots(report, leave(report, "labels"))["labels"]
    assert "labels" not in plots


def test_every_plot_shows_the_earlier_run():
    earlier = make_report("threshold=0.7", survival_by_source=SOURCES) | {"output": "old"}
    report = make_report(baseline=earlier, survival_by_source=SOURCES)

    plots = draw_plots(report)
    assert {name for name, svg in plots.items() if "earlier run" in svg} == plots.keys()
    # The bars of sources, stages, pairs and documents.
    ghosts = Page(to_html(report, plots)).attributes.count(("class", "ghost"))
    assert ghosts == len(SOURCES) + len(report["stages"]) + 5 + 1
    assert Page(to_html(make_report(), {**plots})).attributes.count(("class", "ghost")) == 0


def test_the_choice_of_a_cosine_is_drawn():
    point = {"nearest_neighbours": 3, "pairs": 9, "parted_by_guards": 4, "labeled_duplicates": 2, "labeled_others": 1}
    details = {"threshold": 0.83, "curve": [{"cosine": 0.7, **point}, {"cosine": 1.0, **point}]}
    report = make_report()
    report["layers"].append({**report["layers"][-1], "layer": "semantic", "details": details})

    drawn = draw_plots(report, leave(report, "cosines"))

    for word in ("facts differ: 8", "others: 10", "labelled duplicates", "threshold 0.83"):
        assert word in drawn["cosines"]
    assert "sampled documents by the cosine" in to_html(report, drawn)


counts = st.sampled_from([0, 0, 1, 7, 1_000_000_000])
bins = st.lists(counts, min_size=20, max_size=20)
sizes = st.dictionaries(st.sampled_from([2, 3, 10, 5_000_000]), counts.filter(bool))


@runs(1)
@given(data=st.data(), threshold=st.sampled_from([0.01, 0.5, 0.77, 1.0]), mode=st.sampled_from(["lsh", "exact"]))
def test_whatever_a_run_counts_is_drawn(data, threshold, mode):
    def measure():
        """Return what plots are drawn from, of a run of these settings."""
        pairs, tried = data.draw(bins), (threshold / 2, threshold)
        dial = [{"threshold": at, "removed": data.draw(counts), "is_least": at < threshold} for at in tried]
        measured = {"similarities": pairs, "edges": sum(pairs[int(threshold * 20) :]), "dial": dial}
        measured |= {"removal_similarities": data.draw(bins)}
        return measured | {"bucket_sizes": data.draw(sizes), "component_sizes": data.draw(sizes)}

    settings = (f"threshold={threshold}", f"mode={mode}")
    earlier = parse_baseline("old", to_json(make_report(*settings) | measure()))
    for baseline in (None, earlier):
        report = make_report(*settings, baseline=baseline) | measure()
        drawn = draw_plots(report)
        assert [*drawn] == list_plots(report)
        for svg in drawn.values():
            ET.fromstring(svg)  # noqa: S314 - our own
            assert not re.search(r"\b(nan|inf)\b", svg)


def test_plots_drawn_before_are_not_drawn_again():
    report = make_report()
    drawn = leave(report, "removals")
    assert draw_plots(report, drawn).items() >= drawn.items()


def test_a_page_of_a_run_without_the_layer_near_tells_of_no_threshold():
    step = Layered(layer="exact", documents=12_000, text_bytes=16_800_000)
    page, text = show(make_report('layers=["exact"]', near=Near.none(), layers=[step], token_ranks=None))

    assert page.tags["svg"] == 0
    # Removals, other thresholds, pairs and their similarities, buckets, components, tokens.
    assert text.count('near-duplicates were not searched: add "near" to layers .') == 7
    assert "at or above 0.8" not in text
    assert "less similar to the one kept" not in text
    assert "threshold 0.8" not in text
    assert "of all documents" not in text
    assert "The cap on buckets" not in text


def test_sentences_of_a_page_are_set_apart():
    report = make_report(baseline=make_report() | {"output": "earlier"})
    page, _ = show(report | {"spared": 2, "relinked": 2, "decided": {"longest": 2}, "quarantined": 2})

    assert [text for text in page.text if re.search(r"\w\.[A-Z]\w* [a-z]|\.\d were", text)] == []


def test_a_run_without_spark_has_no_version_of_it():
    assert "spark 4.1.4" in show(make_report())[1]
    assert "spark None" not in show(make_report(engine="memory", spark=None))[1]


def test_empty_texts_are_unknown_where_nothing_counted_tokens():
    step = Layered(layer="exact", documents=12_000, text_bytes=16_800_000)
    settings = 'layers=["exact"]', "alerts.empty_rate_above=0.5"
    report = make_report(*settings, near=Near.none(), layers=[step], token_ranks=None)

    assert report["documents_empty"] is report["documents_short"] is report["empty_rate"] is report["tokens"] is None
    assert [(breach["metric"], breach["value"]) for breach in report["alerts"]] == [("empty_rate", None)]
    assert "dedup_empty_rate" not in to_metrics(report)
    assert "always kept" not in show(report)[1]


def test_no_text_is_empty_where_other_layers_have_left_none_to_near():
    steps = [Layered(layer=name, documents=rows, text_bytes=9 * rows) for name, rows in (("exact", 12), ("near", 0))]
    settings = 'layers=["exact", "near"]', "alerts.empty_rate_above=0.5"
    report = make_report(*settings, near=Near.none(), layers=steps, token_ranks=None)

    assert (report["documents_empty"], report["empty_rate"], report["tokens"], report["alerts"]) == (0, 0.0, 0, [])


def test_the_page_of_several_layers_says_what_the_threshold_is_of():
    _, text = show(make_report('layers=["exact", "near"]'))

    assert "Every document that the layer near removed is joined to the one kept by edges" in text


def test_a_page_is_made_from_a_zip_where_no_folder_is_writable(tmp_path):
    """As on a cluster: the package comes as a zip, and matplotlib has no place for its cache."""
    package = Path(dedup.__file__).parent
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*"):
            if path.suffix in {".py", ".j2", ".txt"}:
                file.write(path, path.relative_to(package.parent))
    (tmp_path / "dedup.zip").write_bytes(archive.getvalue())
    (tmp_path / "report.json").write_text(to_json(make_report()))
    program = """
import json, sys
sys.path.insert(0, "dedup.zip")
from dedup.report.page import to_html
from dedup.report.plots import draw_plots
report = json.load(open("report.json"))
for name in ("bucket_sizes", "component_sizes"):
    report[name] = {int(size): count for size, count in report[name].items()}
print(to_html(report, draw_plots(report)).count("<svg"))
"""
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/proc/nowhere", "MPLCONFIGDIR": "/proc/nowhere"}

    done = run([executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout) == ("", "8\n")


# The explorer, and the rows of a pair


def test_an_explorer_has_the_pairs_that_the_bands_of_the_run_must_have_missed():
    explorer = explore_run(make_report())

    assert (explorer["bands"], explorer["rows"], explorer["threshold"]) == (21, 6, 0.8)
    assert explorer["documents"] == 232_596 // 21
    found = sum(pairs * probability(jaccard, 21, 6) for jaccard, pairs in explorer["pairs"])
    assert found == pytest.approx(sum(SIMILARITIES))
    # Of pairs of .25 to .3, of which bands find few, many more were missed than of those above.
    at_low = [pairs for jaccard, pairs in explorer["pairs"] if jaccard < 0.3]
    assert sum(at_low) > 30 * 3
    assert explorer["most"] == {"bands": 100, "rows": 20}


def test_an_explorer_of_exact_search_has_the_pairs_as_they_were_counted():
    explorer = explore_run(make_report("mode=exact"))

    assert explorer["documents"] == 12_000
    assert sum(pairs for _, pairs in explorer["pairs"]) == pytest.approx(sum(SIMILARITIES))


@pytest.mark.parametrize(
    ("setting", "facts"),
    [
        ('layers=["exact"]', {}),
        ("threshold=0.8", {"near": make_near(verified={"similarities": ()})}),
        ('profile=[{name="short", threshold=0.9, when={kind=["a"]}}]', {}),
    ],
)
def test_there_is_no_explorer_without_pairs_of_one_threshold(setting, facts):
    assert explore_run(make_report(setting, **facts)) is None


def test_a_pair_shows_the_rows_that_agree_where_its_texts_are_all_there():
    config = load_config()
    texts = {1: " ".join(f"word{n}" for n in range(60)), 10: " ".join(f"word{n}" for n in range(55))}
    pair = {**DOUBTFUL[0], "jaccard": 51 / 56}

    [shown] = show_doubtful(config, [pair], texts)
    whole = compare(config, load_tokenizer(config), texts[10], texts[1])
    assert shown["rows"] == whole.rows
    assert len(whole.rows) == 21
    assert {len(band) for band in whole.rows} == {6}
    assert whole.bands == tuple(number for number, band in enumerate(whole.rows, 1) if band == "111111")
    cells = "".join(whole.rows)
    near = make_near(elected={"doubtful": [pair]})
    _, text = show(make_report(near=near, texts=texts))
    assert f"{cells.count('1')} of 126 rows agree, and {len(whole.bands)} of 21 bands of 6 rows agree whole" in text

    # A beginning, or what an earlier layer has cut.
    [shown] = show_doubtful(config, [pair], {**texts, 10: texts[10][:100]})
    assert shown["difference"] is not None
    assert shown["rows"] is None
    _, text = show(make_report(near=near, texts={**texts, 10: texts[10][:100]}))
    assert "Rows and bands are not shown" in text


def test_a_run_that_removes_nothing_has_a_page():
    elected = {"near": 0, "removed": 0, "similarities": [0] * 20, "joined": [], "doubtful": []}
    near = make_near(elected=elected, collapsed={"rows": 0})
    report = make_report(near=near, written=replace(WRITTEN, kept=12_000, removed=0, removed_by={}))

    assert "documents removed" in to_html(report, draw_plots(report))


@pytest.mark.parametrize(
    ("setting", "facts", "is_one_kept", "words"),
    [
        ("seed=1", {}, True, "these edges, and one for each document"),
        ('layers=["near","containment"]', {}, True, "these edges, those of the layer containment, and one for each"),
        ("cluster.linkage=representative", {}, False, "these edges, and"),
        ("keep.copies=2", {}, False, "these edges, and"),
        ("keep.drop=all", {}, False, "Not shown: input.without or keep.drop decides which documents"),
        ("seed=1", {"without": {"documents": 9, "removed": 3}}, True, "Not shown: input.without or keep.drop decides"),
    ],
)
def test_a_page_says_of_components_and_edges_what_holds_with_its_settings(setting, facts, is_one_kept, words):
    text = " ".join("".join(Page(to_html(make_report(setting, **facts), {})).text).split())

    assert ("One document of each is kept." in text) == is_one_kept
    assert words in text
    assert "no pair was compared" not in text


def test_a_page_says_which_layer_removed_between_sources():
    removers = [{"source": "web", "by": "books", "documents": 7}]
    for layers, words in (("near", "most removals; rows"), ("exact,near", "most removals by the layer near; rows")):
        report = make_report(
            f"layers={layers}", near=make_near(elected={"removers": removers}), survival_by_source=SOURCES
        )
        report["layers"] = [{**report["layers"][0], "layer": name} for name in layers.split(",")]

        assert words in "".join(Page(to_html(report, {})).text)


def test_what_layers_say_of_themselves_is_in_tables():
    details = {
        "tokens": 1_234_567,
        "touched_share": 0.25,
        "span_tokens": {"64": 3},
        "passages": [{"id": "a", "occurrences": 7, "text": "<b>" + "word " * 100, "in": ["x", "y"]}],
    }
    layers = [
        Layered(layer="near", documents=12_000, text_bytes=1),
        Layered(layer="passages", documents=10_100, text_bytes=1, details=details),
    ]
    [layer] = list_details(make_report(layers=layers))
    tables = {table.title: table.rows for table in layer["tables"]}

    assert layer["name"] == "passages"
    assert tables[""] == [("tokens", "1,234,567"), ("touched share", "0.25")]
    assert tables["span tokens"] == [("64", "3")]
    [[_, occurrences, text]] = tables["passages"]
    assert (occurrences, len(text)) == ("7", LONGEST + 4)
    assert tables["passages, a: in"] == [("0", "x"), ("1", "y")]
    report = make_report(layers=layers)
    page = to_html(report, leave(report))
    assert "What the layer passages found" in page
    assert "<b>" not in page


def test_long_names_leave_the_numbers_of_the_terminal_in_columns():
    report = make_report()
    report["stages"]["a-profile-of-chinese_representatives"] = {"rows": 1_234_567, "seconds": 1.0}
    report["profiles"] = [{"name": "a-profile-of-chinese-pages", "removed": 17}]
    head, stages = to_table(report).split("\n\n")[-2:]

    assert len({len(line) for line in head.splitlines() if not line.startswith("ALERT")}) == 1
    assert len({len(line) for line in stages.splitlines()}) == 1
    assert all("  " in line for line in stages.splitlines()[1:])

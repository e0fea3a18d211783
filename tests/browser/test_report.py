"""The report as people see it: in a browser, on a desk and on a phone, in the light and in the dark, without colour."""

import json

import numpy as np
import pytest

from dedup.kernels.curve import probability
from dedup.plan.answer import DUPLICATION, answer
from dedup.plan.choice import cost
from dedup.plan.profile import assume_corpus
from dedup.plan.question import PlanQuestion
from dedup.plan.rates import Rates
from dedup.plan.show import to_text
from dedup.report.answers import show_plan
from dedup.report.build import BAND_ROW_BYTES
from dedup.report.page import to_html
from dedup.report.plots import draw_plots
from dedup.settings.banding import Banding
from dedup.settings.files import load_config
from tests.browser.chromium import Chromium
from tests.reports import LABELED, make_hostile_report, make_near, make_report

PHONE, DESK = 360, 1200
SOURCES = {
    "crawl": {"documents": 9_000, "kept": 7_300},
    "books": {"documents": 2_500, "kept": 2_450},
    "a source with a very long name that goes on and on/and-on": {"documents": 500, "kept": 350},
}
LIMITS = ("alerts.removal_rate_above=0.1", "alerts.recall_on_labeled_set_below=0.95")

ROWS = ["111111", "110111", *["010110"] * 18, "111111"]


def write(folder, report):
    file = folder / "report.html"
    file.write_text(to_html(report, draw_plots(report)), "utf-8")
    return file


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Chromium(tmp_path_factory.mktemp("chromium") / "profile")
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Return the page of a report in which nothing is missing."""
    earlier = make_report("threshold=0.7") | {"output": "/data/dedup/2026-11-20"}
    facts = {"survival_by_source": SOURCES, "near": make_near(labeled=LABELED), "baseline": earlier}
    report = make_report(*LIMITS, **facts)
    report["doubtful"][0]["rows"] = ROWS
    return write(tmp_path_factory.mktemp("full"), report)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return write(tmp_path_factory.mktemp("hostile"), make_hostile_report())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Return the page of a report in which nothing is known that need not be."""
    told = {"sizes": {}, "largest": (), "similarities": (), "doubtful": (), "joined": (), "removers": ()}
    near = make_near(bucketed={"sizes": {}}, elected=told)
    return write(tmp_path_factory.mktemp("bare"), make_report("mode=exact", near=near, token_ranks=None))


@pytest.mark.parametrize("width", [320, PHONE, 700, DESK])
@pytest.mark.parametrize("name", ["full", "hostile", "bare"])
def test_it_fits_every_screen_and_logs_nothing(browser, request, name, width):
    browser.open(request.getfixturevalue(name), width=width)

    assert browser.complaints() == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.scripts.length + document.images.length") == 1
    # Only what scrolls on its own may be wider than the screen.
    assert (
        browser.evaluate(f"""
        [...document.body.querySelectorAll("*")].filter(each =>
            !each.closest(".scroll table, svg") && each.getBoundingClientRect().right > {width} + 0.5
        ).map(each => each.outerHTML.slice(0, 100))""")
        == []
    )


def test_what_is_hostile_is_shown_as_text(browser, hostile):
    browser.open(hostile, width=DESK)

    assert browser.evaluate("document.querySelectorAll('script, img, [onerror]').length") == 1
    text = browser.evaluate(
        "document.querySelectorAll('details').forEach(each => each.open = true), document.body.innerText"
    )
    assert text.count(r"""<script>alert(1)</script>"'><img src=x onerror=alert(2)> \x1b[31m\x00 \u202egnp.exe""") >= 7
    assert "{{ 7 * 7 }}" in text


def test_an_alert_comes_first(browser, full):
    browser.open(full, width=DESK)

    first = browser.evaluate("document.body.firstElementChild.innerText")
    assert "share removed: 15.83%, above the limit of 10.00% (alerts.removal_rate_above)" in first
    assert "labelled pairs in one component: 90.00%, below the limit of 95.00%" in first


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_plots_are_legible(browser, full, width, dark):
    browser.open(full, width=width, dark=dark)

    plots = browser.evaluate("""
        [...document.querySelectorAll("svg")].map(svg => [...svg.querySelectorAll("text")].map(text => {
            const box = text.getBoundingClientRect(), style = getComputedStyle(text);
            return {text: text.textContent, box: [box.left, box.top, box.right, box.bottom], fill: style.fill,
                    size: parseFloat(style.fontSize) * svg.getScreenCTM().a};
        }))""")
    assert len(plots) == 9
    ink = browser.evaluate("getComputedStyle(document.body).color")
    for plot in plots:
        assert len(plot) > 5
        assert min(text["size"] for text in plot) >= 9
        assert {text["fill"] for text in plot} == {ink}
        for number, text in enumerate(plot):
            assert text["box"][0] >= 0
            assert text["box"][2] <= width
            overlapping = [other["text"] for other in plot[:number] if overlap(text["box"], other["box"])]
            assert overlapping == [], text["text"]


def overlap(one, other):
    """Tell whether two boxes have more than a rim in common; lines of text have white above and below."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide > 1 and high > 4


def test_a_screen_reader_hears_what_each_plot_shows(browser, full):
    browser.open(full, width=DESK)

    names = [name for name in browser.images() if name]
    assert len(names) == 9
    assert "Chance that a pair is compared by its Jaccard similarity, over the numbers of pairs" in names
    assert "Probability that a pair becomes a candidate, by its Jaccard similarity" in names
    assert (
        browser.evaluate("""[...document.querySelectorAll("svg use")].filter(use =>
        !document.querySelector(use.getAttribute("href"))).length""")
        == 0
    )
    ids = browser.evaluate("""[...document.querySelectorAll("[id]")].map(each => each.id)""")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(("width", "dark"), [(PHONE, False), (DESK, False), (DESK, True)])
def test_nothing_is_told_by_colour_alone(browser, full, width, dark, tmp_path):
    """The pictures are for people: pytest --basetemp=FOLDER tests/browser -k colour keeps them."""
    browser.open(full, width=width, dark=dark)
    for grey in (False, True):
        browser.screenshot(tmp_path / f"{width}{'-dark' * dark}{'-grey' * grey}.png", grey=grey)

    # Two series differ in the dashes of their lines, two sorts of bars in their hatches.
    assert browser.evaluate("document.querySelectorAll('svg [style*=stroke-dasharray]').length") >= 4
    assert browser.evaluate("document.querySelectorAll('svg pattern').length") == 2


def test_tables_need_no_scrolling_on_a_phone(browser, full):
    browser.open(full, width=390)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    wide = "[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth + 1)"
    assert browser.evaluate(f"{wide}.map(each => each.getAttribute('aria-label'))") == []


def rows(name):
    """Return the expression of the first column of a table, as shown."""
    table = f"document.querySelector('[aria-label={json.dumps(name)}] table')"
    return f"[...{table}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[0].textContent)"


def test_tables_sort_by_a_click_and_long_ones_are_searched(browser, full):
    browser.open(full, width=DESK)
    head = (
        "document.querySelector('[aria-label=\"Removal and survival by source\"] thead').rows[0].cells[%d].firstChild"
    )
    name = "Removal and survival by source"
    before = browser.evaluate(rows(name))
    browser.evaluate(head % 1 + ".click()")
    assert browser.evaluate(rows(name)) == sorted(SOURCES, key=lambda each: -SOURCES[each]["documents"])
    browser.evaluate(head % 1 + ".click()")
    assert browser.evaluate(rows(name)) == sorted(SOURCES, key=lambda each: SOURCES[each]["documents"])
    assert browser.evaluate(head % 1 + ".parentNode.getAttribute('aria-sort')") == "ascending"
    browser.evaluate(head % 0 + ".click()")
    assert browser.evaluate(rows(name)) == sorted(SOURCES, reverse=True)
    assert sorted(before) == sorted(SOURCES)

    found = browser.evaluate("""(() => {
        const field = document.querySelector('[aria-label="number, this run, earlier run, change"] input');
        field.value = "DEDUP_KEPT";
        field.dispatchEvent(new Event("input"));
    })()""")
    assert found is None
    shown = browser.evaluate(rows("number, this run, earlier run, change"))
    assert [each.rpartition(": ")[2] for each in shown] == ["dedup_kept", "dedup_kept_by_representative"]
    assert browser.complaints() == []


def read_explorer(browser):
    """Return the numbers that the explorer shows."""
    values = "[...document.querySelectorAll('.explorer data')].map(each => [each.dataset.name, Number(each.value)])"
    return dict(browser.evaluate(values))


def slide(browser, **settings):
    for name, value in settings.items():
        browser.evaluate(f"""(() => {{
            const slider = document.querySelector('.explorer input[name="{name}"]');
            slider.value = {value};
            slider.dispatchEvent(new Event("input"));
        }})()""")


def steepest(bands, rows):
    """Return where the curve of the bands is steepest, and its slope there, by small steps."""
    where = np.linspace(0, 1, 200_001)
    slopes = np.diff(probability(where, bands, rows)) * 200_000
    return where[:-1][np.argmax(slopes)], slopes.max()


@pytest.mark.parametrize("banding", [(21, 6), (9, 13), (40, 5), (1, 1), (1, 4), (30, 1), (100, 20)])
def test_an_explorer_tells_what_a_plan_tells(browser, planned, banding):
    file, corpus, documents = planned
    bands, rows = banding
    browser.open(file, width=DESK)
    slide(browser, bands=bands, rows=rows, threshold=0.75)

    shown, choice = read_explorer(browser), cost(Banding(*banding), 0.75, corpus, Rates())
    assert shown["candidates"] == pytest.approx(choice.candidates * documents)
    assert shown["each"] == pytest.approx(choice.candidates)
    assert shown["signatures"] == choice.signature_bytes * documents
    assert shown["keys"] == BAND_ROW_BYTES * bands * documents
    assert shown["chance"] == pytest.approx(probability(0.75, bands, rows))
    jaccard, partners = corpus.similarities.jaccard, corpus.similarities.partners(documents)
    weights = np.where(jaccard >= 0.75, partners, 0)
    assert shown["recall"] == pytest.approx(float(weights @ probability(jaccard, bands, rows)) / weights.sum())
    where, slope = steepest(bands, rows)
    assert shown["slope"] == pytest.approx(slope, rel=1e-3)
    # A curve of one band of one row is as steep everywhere.
    assert banding == (1, 1) or shown["steepest"] == pytest.approx(where, abs=1e-3)
    assert browser.complaints() == []


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Return the page of a plan, and the corpus that it is of."""
    config, documents = load_config(), 2_000_000
    question = PlanQuestion(config=config, documents=documents, recall=["0.99@0.8"])
    found = answer(question)
    file = tmp_path_factory.mktemp("planned") / "plan.html"
    file.write_text(show_plan(found, to_text(found)), "utf-8")
    corpus = assume_corpus(
        documents=documents,
        tokens=found["corpus"]["tokens"],
        text_bytes=question.mean_bytes,
        id_bytes=question.id_bytes,
        duplication=DUPLICATION,
        threshold=0.8,
        shingle_size=config.shingles.shingle_size,
    )
    return file, corpus, documents


def test_an_explorer_begins_with_the_run_and_returns_to_it(browser, full):
    report = make_report()
    browser.open(full, width=DESK)

    before = read_explorer(browser)
    assert before["candidates"] == pytest.approx(sum(report["similarities"]))
    assert before["chance"] == pytest.approx(report["recall_at_threshold"])
    assert before["keys"] == report["index_bytes"]
    slide(browser, bands=9, rows=13, threshold=0.9)
    assert read_explorer(browser)["chance"] == pytest.approx(probability(0.9, 9, 13))
    browser.evaluate("document.querySelector('.explorer button').click()")
    assert read_explorer(browser) == before


def test_an_explorer_is_moved_by_keys_and_has_names(browser, full):
    browser.open(full, width=DESK)
    browser.evaluate("document.querySelector('.explorer input').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)

    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    sliders = [node for node in nodes if node.get("role", {}).get("value") == "slider"]
    assert [node["name"]["value"] for node in sliders] == ["bands", "rows", "threshold"]
    assert [node["value"]["value"] for node in sliders] == pytest.approx([22, 6, 0.8])
    assert read_explorer(browser)["chance"] == pytest.approx(probability(0.8, 22, 6))


def test_the_rows_of_a_pair_are_grouped_as_the_sliders_say(browser, full):
    browser.open(full, width=DESK)
    told = "document.querySelector('.agreement .told').innerText"
    bands = "[...document.querySelectorAll('.agreement .band')].map(each => each.classList.contains('whole'))"
    agree = "document.querySelectorAll('.agreement .agrees').length"

    before = browser.evaluate(told), browser.evaluate(bands), browser.evaluate(agree)
    assert before == ("71 of 126 rows agree, and 2 of 21 bands of 6 rows agree whole", [True, *[False] * 19, True], 71)
    slide(browser, bands=42, rows=3)
    assert browser.evaluate(told) == "71 of 126 rows agree, and 5 of 42 bands of 3 rows agree whole"
    assert sum(browser.evaluate(bands)) == 5
    slide(browser, bands=30, rows=7)
    assert browser.evaluate(told).endswith("of 18 bands of 7 rows agree whole; 30 bands would take 210 rows")


def test_in_print_an_explorer_is_its_numbers(browser, full):
    browser.open(full, width=DESK)
    browser.call("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll('.explorer input, .explorer button')].filter(each => each.checkVisibility())"
    assert browser.evaluate(shown) == []
    assert "bands 21" in browser.evaluate("document.querySelector('.explorer').innerText")
    browser.call("Emulation.setEmulatedMedia", media="")


def test_in_print_nothing_is_folded(browser, full):
    browser.open(full, width=DESK)
    hidden = "[...document.querySelectorAll('details .difference')].filter(each => !each.checkVisibility()).length"
    assert browser.evaluate(hidden) > 0
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.evaluate(hidden) == 0
    assert browser.evaluate("getComputedStyle(document.querySelector('h2')).breakAfter") == "avoid"
    browser.call("Emulation.setEmulatedMedia", media="")

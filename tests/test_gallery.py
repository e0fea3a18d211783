"""The gallery shows what the pages show: made again by scripts/gallery."""

import re

import pytest

from dedup.report import plots
from tests.browser.gallery import CHARTS, MOST_BYTES, PAGE, PICTURES, figure, make_pages, read_numbers, write_page

README = ("explanation", "report", "terminal")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return make_pages(tmp_path_factory.mktemp("gallery"))


def test_every_chart_of_the_pages_is_shown(pages):
    # No test draws the plots of a run.
    drawn = {"report": {*plots.list_plots(read_numbers(pages)["report"])}}
    # The corpus of the gallery is searched without vectors.
    assert drawn["report"] == plots.TITLES.keys() - {"cosines"}
    for name in ("plan", "evaluation"):
        drawn[name] = set(re.findall(r'<title id="(\w+)-title">', pages[name].read_text("utf-8"))) - {"explorer"}
    assert {*drawn["plan"], *drawn["evaluation"]} == {"curve", "costs", "stages", "recall0"}
    for name, page in pages.items():
        shown = {chart.element for chart in CHARTS if chart.page == name}
        assert {figure(each) for each in drawn[name]} == {each for each in shown if each.startswith("figure")}
        text = page.read_text("utf-8")
        bars = re.findall(r'<ul class="bars" aria-label="([^"]+)">', text)
        assert [label for label in bars if not any(is_labelled(element, label) for element in shown)] == []
        labels = re.findall(r'aria-label="([^"]+)"', text)
        others = {each for each in shown if each.startswith("[")}
        assert {each for each in others if not any(is_labelled(each, label) for label in labels)} == set()


def test_the_explorer_and_the_rows_of_a_pair_are_shown(pages):
    text = pages["report"].read_text("utf-8")
    assert {"<details open>", '<section class="explorer"', 'class="agreement"'} <= set(
        re.findall(r'<details open>|<section class="explorer"|class="agreement"', text)
    )
    assert {".explorer", "details[open]"} <= {chart.element for chart in CHARTS}


def is_labelled(element, label):
    """Tell whether a selector is of the elements with this label, or with one that begins so."""
    found = re.fullmatch(r"\[aria-label(\^?)='([^']+)'\]", element)
    return bool(found) and (label.startswith(found[2]) if found[1] else label == found[2])


def test_the_page_says_what_the_numbers_say(pages):
    assert PAGE.read_text("utf-8") == write_page(read_numbers(pages)), "scripts/gallery writes it"


def test_pictures_are_there_and_small():
    files = {file.stem: file.stat().st_size for file in PICTURES.iterdir()}
    assert files.keys() == {chart.name for chart in CHARTS} | set(README)
    assert max(files.values()) < MOST_BYTES

"""Presets say where each of their numbers comes from."""

import re

import pytest

from dedup.kernels.curve import probability
from dedup.run.session import ROOT
from dedup.settings.files import load_config

PRESETS = {path.stem: path for path in sorted((ROOT / "dedup" / "settings" / "presets").glob("*.toml"))}


def test_what_was_promised_is_there():
    assert {"code", "multilingual", "short-text", "slimpajama"} <= PRESETS.keys()
    for name, layout in {"fineweb": (14, 8), "refinedweb": (450, 20), "gpt3": (1, 10)}.items():
        lsh = load_config(None, name).lsh
        assert (lsh.bands, lsh.rows) == layout
    assert load_config(None, "code").shingles.shingle_size == 8


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_names_its_sources(name):
    lines = PRESETS[name].read_text("utf-8").splitlines()
    listed = {match[1] for line in lines if (match := re.match(r"# \[(\d)\] \S", line))}
    cited = set()
    comment = ""
    for line in lines:
        if line.startswith("#"):
            comment += line
        elif "=" in line and not line.startswith(("name ", "when")):
            sources = re.findall(r"\[(\d)\]", comment)
            assert sources, line
            value = line.split("=")[1].strip(' "')
            assert re.search(rf"\b{re.escape(value)}\b", comment), line
            cited |= set(sources)
            comment = ""
        else:
            comment = ""

    assert cited == listed


@pytest.mark.parametrize("name", PRESETS)
def test_the_probabilities_it_tells_are_those_of_the_curve(name):
    text = PRESETS[name].read_text("utf-8").replace("\n#", "")
    for bands, rows, jaccard, told in re.findall(r"P\((\d+) x (\d+), (\.\d+)\) = (\d?\.\d+)", text):
        computed = probability(float(jaccard), int(bands), int(rows))
        assert computed == pytest.approx(float(told), abs=0.005), (bands, rows, jaccard)


def test_where_sources_disagree_both_are_told():
    told = {name: path.read_text("utf-8") for name, path in PRESETS.items()}

    for name, layouts in {
        "fineweb": ["14 x 8", "20 x 6"],
        "refinedweb": ["450 x 20", "14 x 9", "9,000"],
        "gpt3": ["1 x 10", "10 x 1"],
        "multilingual": ["21 x 6", "14 x 8"],
    }.items():
        assert [each for each in layouts if each not in told[name]] == [], name

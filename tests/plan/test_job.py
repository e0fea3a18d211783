"""`dedup plan` as a user runs it: what it prints, and with which exit code."""

import html
import json
import re
import subprocess
import sys

import pytest

from dedup.cli.plan import main
from dedup.run.session import ROOT


@pytest.fixture
def plan(capsys):
    """Return a function that runs the command in this process."""

    def act(*arguments):
        status = main(arguments)
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return act


def test_it_imports_neither_spark_nor_numba():
    asked = ("--recall", "0.99@0.8", "--candidates", "0.001@0.3", "--documents", "1e9")

    command = [sys.executable, "-X", "importtime", "jobs/plan.py", *asked]
    imported = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr
    assert "dedup.plan.model" in imported
    for package in ("pyspark", "py4j", "numba"):
        assert f" {package}\n" not in imported


def test_json_holds_what_the_text_says(plan):
    asked = ("--recall", "0.99@0.8", "--candidates", "0.001@0.3", "--check", "21x6", "--documents", "1e7")
    found, text = json.loads(plan(*asked, "--json").stdout), plan(*asked).stdout

    assert found["best"] == {"bands": 32, "rows": 9}
    assert found["check"]["targets"][1] == {
        "target": "--candidates 0.001@0.3",
        "value": pytest.approx(0.0152, abs=5e-5),
        "met": False,
    }
    assert "21 x 6 misses targets" in text
    assert "10,000,000 documents" in text
    assert found["capacity"]["bands"] == 32
    assert [stage["name"] for stage in found["capacity"]["stages"]][::7] == ["signatures", "output"]


def test_the_settings_are_those_of_the_job(plan):
    found = json.loads(plan("--preset", "fineweb", "--set", "lsh.bands=20", "--json").stdout)

    assert [(each["bands"], each["rows"]) for each in found["choices"]] == [(20, 8)]
    assert found["settings"]["threshold"] == 0.75


def test_calibration_scales_every_rate(plan):
    plain, found = (json.loads(plan("--documents", "1e6", "--json", *more).stdout) for more in ((), ("--calibrate",)))

    ratios = {found["rates"][name] / value for name, value in plain["rates"].items() if name not in {"source", "fixed"}}
    [ratio] = {round(each, 9) for each in ratios}
    assert f"{ratio:.2f} times" in found["rates"]["source"]
    assert 0.05 < ratio < 20
    assert found["capacity"]["core_hours"] == pytest.approx(ratio * plain["capacity"]["core_hours"])
    assert found["rates"]["fixed"] == plain["rates"]["fixed"]


@pytest.mark.parametrize(
    "wrong",
    [
        ("--recall", "0.99@0.3", "--candidates", "0.001@0.5"),
        ("--check", "six"),
        ("--preset", "unheard-of"),
        ("--sample", "nowhere.parquet"),
        ("--documents", "1e9", "--set", "mode=exact"),
    ],
)
def test_a_mistake_is_answered_by_one_line(plan, wrong):
    done = plan(*wrong)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("dedup: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("asked", "title", "words"),
    [
        (("--recall", "0.99@0.8", "--documents", "1e7"), "9 bands of 4 rows at a threshold of 0.8", "hours of a core"),
        (("--check", "20x5"), "20 bands of 5 rows at a threshold of 0.8", "microseconds of a core for each document"),
    ],
)
def test_a_page_shows_the_curves_the_costs_and_the_text(plan, tmp_path, asked, title, words):
    printed = plan(*asked, "--output", str(tmp_path / "a plan")).stdout
    page = (tmp_path / "a plan" / "plan.html").read_text("utf-8")

    assert f"<title>Plan: {title}</title>" in page
    # The curves, the costs of the choices and of the stages, and the explorer.
    assert page.count("<svg") == 3 + ("--documents" in asked)
    assert f"{words}</text>" in page
    curves = re.findall(r">(\d+ x \d+)</text>", page)
    assert 1 <= len({*curves}) <= 6
    assert all(line in html.unescape(page) for line in printed.splitlines())

    again = plan(*asked, "--output", str(tmp_path / "a plan"))
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.endswith("plan.html: must not exist yet (it does)\n")

"""What the README says is what the job does."""

import ast
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import import_module
from importlib.metadata import distribution
from itertools import chain

import pyarrow.dataset as ds
import pytest
import yaml
from packaging.requirements import Requirement

from dedup.cli import plan as cli_plan
from dedup.cli import run as cli_run
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.explain.show import Style, to_text
from dedup.kernels.curve import probability
from dedup.report.metrics import METRICS, to_metrics
from dedup.run.session import ROOT
from dedup.settings.files import load_config, to_dict
from tests.bench import tell_command
from tests.documented import PAGES
from tests.measured import find_core_hours, record, render
from tests.reports import LABELED, make_near, make_report

README = (ROOT / "README.md").read_text("utf-8")
MEASURED = json.loads((ROOT / "docs" / "measured.json").read_text("utf-8"))
CHOOSING = (ROOT / "docs" / "choosing.md").read_text("utf-8")
PLANS = CHOOSING + (ROOT / "docs" / "internals" / "plan.md").read_text("utf-8")


def table_after(words: str) -> list[list[str]]:
    """Return the cells of the first table after the words, without its head."""
    lines = README[README.index(words) :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|---"))
    rows = [line for line in lines[start + 1 : start + 30] if line.startswith("|") or not line]
    taken = rows[: rows.index("")] if "" in rows else rows
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in taken]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Return the output of the first command of the README, and what it prints."""
    folder = tmp_path_factory.mktemp("example")
    arguments = shlex.split(MEASURED["example"]["command"])[2:-1]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(ROOT)
        assert cli_run.main([*arguments, str(folder / "example")]) == 0
    return folder / "example", printed.getvalue().replace(f"{folder}/", "")


def without_seconds(lines):
    return [re.sub(r" +\d+\.\d$", "", line) for line in lines]


def test_the_first_command_prints_what_is_shown(example):
    assert without_seconds(example[1].splitlines()) == without_seconds(MEASURED["example"]["printed"])


def test_the_five_rows_come_out_as_shown(example):
    rows = [json.loads(line) for line in (ROOT / "docs" / "example.jsonl").read_text("utf-8").splitlines()]
    kept = {row["id"] for row in ds.dataset(str(example[0] / "kept"), format="json").to_table().to_pylist()}
    fates = [[str(row["id"]), row["text"], "kept" if row["id"] in kept else "removed"] for row in rows[:5]]
    assert fates == table_after("Five of its rows")
    duplicates = ds.dataset(str(example[0] / "duplicates")).to_table().to_pylist()
    shown = [[str(cell) for cell in row.values()] for row in duplicates if row["id"] <= 5]
    assert shown == table_after("`duplicates` says why")


def test_an_explanation_is_shown_as_it_is_printed(example):
    explained = to_text(explain(PublishedOutput(str(example[0])), "3"), Style())
    assert f"```console\n$ scripts/dedup explain example --id 3\n{explained}\n```" in README


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_measured_json(page):
    text = page.read_text("utf-8")
    assert render(text, MEASURED) == text, "scripts/measured renders it"


def test_every_measurement_says_where_it_is_from():
    for measurement in (*MEASURED["bench"]["runs"], MEASURED["example"], MEASURED["others"]):
        assert re.fullmatch(r"[0-9a-f]{7}\+?", measurement["commit"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", measurement["date"])
        assert {"cores", "memory_bytes"} <= measurement["machine"].keys()
        assert measurement["command"]


def test_a_run_of_the_bench_takes_the_place_of_earlier_ones():
    def run(commit, **corpora):
        entries = [{"corpus": name, "documents": 1, "copy": {}, **found} for name, found in corpora.items()]
        return {"commit": commit, "corpora": entries}

    runs = [run("a", plain={"spark": 1, "mllib": 1}, skewed={"spark": 1}), run("b", long={"spark": 1})]
    record(runs, run("c", plain={"spark": 2}, long={"spark": 2}))

    assert [(each["commit"], [entry["corpus"] for entry in each["corpora"]]) for each in runs] == [
        ("a", ["plain", "skewed"]),
        ("c", ["plain", "long"]),
    ]
    assert "spark" not in runs[0]["corpora"][0]


def test_libraries_of_others_stay_beside_the_job_of_their_run():
    entry = {"corpus": "plain", "documents": 1, "copy": {}, "memory": 1}
    runs = [{"commit": "a", "corpora": [{**entry, "gaoya": 1}]}]
    record(runs, {"commit": "b", "corpora": [{**entry, "spark": 2}]})

    assert runs[0]["corpora"] == [{**entry, "gaoya": 1}]


def test_the_curve_is_that_of_the_defaults():
    lsh = load_config().banding
    head, cells = re.search(r"\| Jaccard \| (0\.2.*?) \|\n.*\n\| probability \| (.*?) \|\n", README).groups()
    computed = [f"{probability(float(each), lsh.bands, lsh.rows):.4f}" for each in head.split(" | ")]
    assert computed == cells.split(" | ")


def test_settings_are_named_with_their_defaults():
    defaults = to_dict(load_config())
    for keys, values, _ in table_after("The ones that matter"):
        for key, value in zip(keys.split(", "), values.split(", "), strict=True):
            table, _, name = key.rpartition(".")
            assert str((defaults[table] if table else defaults)[name]) == value


@pytest.mark.parametrize("command", sorted(set(re.findall(r"scripts/[a-z]+|conf/[a-z.-]+|jobs/[a-z.]+", README))))
def test_what_is_named_is_there(command):
    assert (ROOT / command.rstrip(".")).exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_project_that_a_page_names_are_there(page):
    named = re.findall(r"`((?:dedup|tests|scripts|docs|conf|jobs)/[\w./-]+)`", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def find_typed(page):
    """Return the calls of the command that a page shows to be typed in a shell, each as its words."""
    blocks = re.findall(r"^```(?:bash|sh|console)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    typed = [re.search(r"(?:^|[|$] |^ +)(?:scripts/)?(dedup [a-z]+ [^|>;&]*)", line) for line in lines]
    return [shlex.split(found[1]) for found in typed if found]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_options_that_there_are(page):
    for _, verb, *arguments in find_typed(page):
        import_module(f"dedup.cli.{verb}").parse_arguments(arguments)


def test_a_run_of_the_bench_tells_its_command_without_paths():
    given = ["--rounds", "2", "--data", "/home/me/data", "--output", "b.json", "--large"]
    assert tell_command(given) == "scripts/bench --rounds 2 --data DATA --large"


def slugs(text):
    """Return the anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


WRITTEN = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "scripts/README.md"))]
OWN = re.compile(r"https?://\S+/(?:blob|tree|raw)/[^/\s]+/([^)#\s\"]+)")
"""An absolute link into a repository, as the README of the wheel has; the path in it."""


def find_links(page):
    """Return the target of every link and image of a page, and its anchor."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for path, anchor, image in re.findall(
        r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)|src=\"(?!https?:)([^\"]*)\"", text
    ):
        yield page.parent / (path or image) if path or image else page, anchor


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_what_is_there(page):
    for target, anchor in find_links(page):
        assert target.exists(), target
        assert not anchor or anchor in slugs(target.read_text("utf-8")), f"{target}#{anchor}"


def test_absolute_links_of_the_readme_lead_to_files_of_the_project():
    setting = (ROOT / "pyproject.toml").read_text("utf-8")
    address = tomllib.loads(setting)["project"].get("urls", {}).get("Repository", "https://forge.example/dedup")
    absolute = re.sub(r"\]\((?!https?:)", f"]({address.rstrip('/')}/blob/main/", README)
    paths = OWN.findall(absolute)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_page_is_reached_from_the_readme():
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page.suffix == ".md" and page not in seen:
            seen.add(page)
            waiting += [target for target, _ in find_links(page)]
    assert [page for page in PAGES if page not in seen] == []


def test_the_comparison_denies_nothing_that_is_there():
    comparison = (ROOT / "docs" / "comparison.md").read_text("utf-8")
    own = [
        row.split(" | ")[1]
        for row in re.findall(r"^\| .*\|$", comparison.partition("What that means")[0], re.MULTILINE)
    ]
    assert own[0] == "dedup"
    assert "-" not in own
    assert {"growing.md", "passages.md", "layers.md", "evaluating.md"} == set(
        re.findall(r"\((\w+\.md)\)", " ".join(own))
    )


def test_every_script_is_listed():
    listed = (ROOT / "scripts" / "README.md").read_text("utf-8")
    scripts = {path.name for path in (ROOT / "scripts").iterdir() if path.suffix not in {".md", ".py"}}
    assert scripts == set(re.findall(r"^\| `scripts/([a-z]+)", listed, re.MULTILINE))


def test_the_airflow_dag_names_files_and_options_that_there_are():
    tree = ast.parse((ROOT / "docs" / "airflow_dag.py").read_text("utf-8"))
    bases = {base.id for node in tree.body if isinstance(node, ast.ClassDef) for base in node.bases}
    assert bases == {"RetriesFaults", "SparkSubmitOperator", "BashOperator"}
    calls = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and "task_id" in {k.arg for k in node.keywords}
    ]
    given = {keyword.arg: keyword.value for call in calls for keyword in call.keywords}
    paths = re.findall(r"\{DEDUP\}/([\w./-]+)", " ".join(ast.unparse(each) for call in calls for each in call.keywords))
    assert [path for path in paths if not path.startswith(("dist/", "jars/")) and not (ROOT / path).exists()] == []
    assert "dist/environment.tar.gz" in paths
    arguments = ["OUTPUT" if isinstance(each, ast.Name) else each.value for each in given["application_args"].elts]
    assert cli_run.parse_arguments(arguments).id_column == "id"


@pytest.mark.parametrize("command", re.findall(r"^\$ scripts/dedup plan (.*)$", PLANS, re.MULTILINE))
def test_a_plan_prints_what_is_shown(command, capsys):
    [shown] = re.findall(
        rf"^\$ scripts/dedup plan {re.escape(command)}\n(.*?)(?=\n\n\$|\n```)", PLANS, re.MULTILINE | re.DOTALL
    )
    status = cli_plan.main(command.split())

    printed = capsys.readouterr()
    assert (printed.out + printed.err).rstrip() == shown
    assert status == (2 if shown.startswith("dedup:") else 0)


@pytest.mark.parametrize(("corpus", "documents"), [("plain", 1_000_000)])
def test_the_core_hours_of_a_plan_are_those_of_a_run(corpus, documents):
    planned, measured = find_core_hours(MEASURED, corpus, documents)
    assert planned == pytest.approx(measured, rel=0.2)


def test_plans_shown_in_part_are_parts_of_those_shown_whole():
    whole = set(PLANS.partition("# How well a plan holds")[2].splitlines())
    shortened = re.findall(r"^```text\n(.*?)^```", CHOOSING, re.MULTILINE | re.DOTALL)
    assert len(shortened) == 2
    assert [line for block in shortened for line in block.splitlines() if line not in whole] == []


def test_presets_are_listed_as_they_are():
    names = {path.stem for path in (ROOT / "dedup" / "settings" / "presets").glob("*.toml")}
    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) x (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", CHOOSING, re.MULTILINE
    )
    assert {name for name, *_ in rows} == names
    for name, *numbers, half, high in rows:
        config = load_config(None, name)
        lsh = config.banding
        assert [float(each) for each in numbers] == [
            *lsh,
            config.shingles.shingle_size,
            config.threshold,
        ]
        assert (half, high) == tuple(f"{probability(each, lsh.bands, lsh.rows):.4f}" for each in (0.5, 0.8))


WATCHED = {
    *("candidate_pairs_per_doc", "bucket_size_p99", "verify_drop_rate", "recall_on_labeled_set", "signature_bytes"),
    *("index_bytes", "empty_rate", "stage_seconds", "removal_rate", "survival_by_source", "chained_share"),
    *("last_success_timestamp_seconds", "run_info", "alert", "least_similarity"),
}


def test_the_metrics_to_watch_are_written():
    named = set(re.findall(r"`dedup_(\w+)", (ROOT / "docs" / "operations.md").read_text("utf-8")))
    known = {"survival_by_source": {"web": {"documents": 2, "kept": 1}}, "near": make_near(labeled=LABELED)}
    report = make_report("alerts.empty_rate_above=1", baseline=make_report() | {"output": "earlier"}, **known)
    written = set(re.findall(r"^# TYPE dedup_(\w+) gauge$", to_metrics(report, finished=1.5e9), re.MULTILINE))

    assert WATCHED <= named <= written
    assert METRICS.keys() <= written


def test_the_names_that_operators_know_are_listed_as_they_are_written():
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    listed = re.findall(r"^\| `dedup_(\w+)` \| `dedup[\w.]+` \| `[^`]+` \|", page, re.MULTILINE)
    reports = make_report(), make_report("mode=exact")
    named = (re.findall(r"^# TYPE dedup_(\w+) gauge$", to_metrics(each), re.MULTILINE) for each in reports)
    with_bands, without = map(set, named)
    assert {*listed} == with_bands - without | {"recall_on_labeled_set"}


def test_the_alert_rules_are_of_metrics_that_are_written():
    file = ROOT / "conf" / "prometheus-alerts.yml"
    rules = [rule for group in yaml.safe_load(file.read_text("utf-8"))["groups"] for rule in group["rules"]]
    sources = {"web": {"documents": 2, "kept": 1}}
    report = make_report("alerts.empty_rate_above=1", survival_by_source=sources)
    written = set(re.findall(r"^# TYPE (dedup_\w+) gauge$", to_metrics(report, finished=1.5e9), re.MULTILINE))

    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        named = set(re.findall(r"dedup_\w+", rule["expr"]))
        assert named, rule
        assert named <= written, rule
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert rule["annotations"]["summary"].endswith(".")
    # Its own check where it is installed: that of the expressions.
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", str(file)], check=True, capture_output=True)


def test_every_dependency_is_listed_with_a_licence():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    open_names = [*project["dependencies"], *chain(*(extras[name] for name in extras.keys() - {"dev"}))]
    needed = set()
    while open_names:
        requirement = Requirement(open_names.pop())
        name = requirement.name.lower().replace("_", "-")
        if name not in needed and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
            needed.add(name)
            open_names += distribution(requirement.name).requires or []
    rows = re.findall(
        r"^\| ([a-z0-9, -]+) \| ([^|]+) \|",
        (ROOT / "docs" / "internals" / "dependencies.md").read_text("utf-8"),
        re.MULTILINE,
    )

    assert {name for names, _ in rows[1:] for name in names.split(", ")} == needed

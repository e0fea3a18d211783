"""Which part of the project may know which, and what lies where."""

import ast
import re
import subprocess
import sys
from collections import Counter
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house import ROOT, SOURCES, find_circle, link_modules, list_docstrings, list_imports, parse

GRAPHFRAMES_USER = Path("dedup/engine/components.py")
LINES = 450

# What a part may import besides the standard library: packages, with all that they hold. From the top of the house to
# its ground: jobs, cli, api, run, report, explain, evaluate, plan, store, layers, stages, settings, tables and kernels.
PARTS = {
    "dedup/__init__.py": {
        "dedup.api",
        "dedup.errors",
        "dedup.result",
        "dedup.settings",
        "dedup.store",
        "dedup.stores",
        "dedup.version",
    },
    "dedup/stores.py": {
        *("pyspark", "dedup.api", "dedup.keywords", "dedup.result", "dedup.run.migrating"),
        *("dedup.run.lock", "dedup.run.erasing", "dedup.files.storage", "dedup.settings.contract"),
        *("dedup.settings.options", "dedup.settings.rules", "dedup.store", "dedup.errors"),
    },
    "dedup/serving.py": {
        *("jinja2", "orjson", "prometheus_client", "uvicorn", "dedup.files.formats.json_line"),
        *("dedup.store.admission", "dedup.stores", "dedup.errors", "dedup.extras", "dedup.version"),
    },
    "dedup/api.py": {
        *(
            "pyarrow",
            "pyspark",
            "dedup.engine.sessions",
            "dedup.run",
            "dedup.frames",
            "dedup.keywords",
            "dedup.result",
            "dedup.settings",
        ),
        "dedup.errors",
    },
    "dedup/frames.py": {"pyarrow", "polars", "duckdb", "dedup.errors"},
    "dedup/keywords.py": {"dedup.settings.options", "dedup.settings.rules"},
    "dedup/result.py": {"typing_extensions", "dedup.display"},
    "dedup/errors.py": set(),
    "dedup/extras.py": {"dedup.errors", "dedup.version"},
    "dedup/version.py": set(),
    "dedup/display.py": set(),
    "dedup/informing.py": {"dedup.display"},
    "dedup/kernels": {
        *("llvmlite", "numba", "numpy", "scipy", "pyarrow", "xxhash", "dedup.kernels"),
        *("Stemmer", "markdown_it", "opencc", "resiliparse", "tokenizers"),
    },
    "dedup/tables": {"pyarrow", "dedup.errors"},
    "dedup/tables/counts.py": set(),
    "dedup/settings": {
        "dedup.settings",
        "dedup.kernels.text",
        "dedup.kernels.hashing",
        "dedup.files.formats",
        *("dedup.layers.LAYERS", "dedup.layers.NEAR", "dedup.layers.load_table"),
        "dedup.errors",
        "dedup.extras",
    },
    "dedup/settings/rules.py": {"dedup.errors"},
    "dedup/settings/options.py": {
        *("dedup.errors", "dedup.settings.rules", "dedup.settings.banding", "dedup.settings.keeping"),
        *("dedup.settings.alerts", "dedup.settings.profiles", "dedup.layers.LAYERS", "dedup.layers.NEAR"),
        *("dedup.settings.inputs", "dedup.files.formats.list_creatable"),
    },
    "dedup/settings/inputs.py": {"dedup.errors", "dedup.files.formats.FORMATS", "dedup.settings.rules"},
    # Both engines read and write files with it, where Spark and Numba need not be.
    "dedup/files": {
        *("numpy", "orjson", "pyarrow", "xxhash"),
        *("dedup.files", "dedup.kernels.election", "dedup.kernels.ids", "dedup.kernels.runs"),
        *("dedup.kernels.text.joining", "dedup.display", "dedup.errors"),
    },
    # Layers and engines agree on the protocol; all that Spark does with documents is here.
    "dedup/engine": {
        *("numpy", "pyarrow", "pyspark", "py4j", "graphframes", "dedup.engine"),
        *("dedup.files", "dedup.kernels", "dedup.tables", "dedup.display", "dedup.errors"),
    },
    "dedup/engine/engine.py": {"numpy", "pyarrow", "dedup.kernels", "dedup.tables"},
    "dedup/engine/placement.py": set(),
    # Settings ask which layers there are, and which of them have tables.
    "dedup/layers/__init__.py": {"dedup.settings.rules"},
    "dedup/layers": {
        *("ada_url", "numpy", "pyarrow", "dedup.engine.engine", "dedup.files", "dedup.engine.placement"),
        *(
            "dedup.layers",
            "dedup.settings",
            "dedup.tables",
            "dedup.kernels",
            "dedup.errors",
            "dedup.informing",
        ),
    },
    # What a plan says must be known before Spark is.
    "dedup/plan": {
        *("numpy", "scipy", "pyarrow"),
        *("dedup.plan", "dedup.files", "dedup.kernels", "dedup.engine.pairing", "dedup.engine.placement"),
        *("dedup.layers", "dedup.tables"),
        *("dedup.settings", "dedup.display", "dedup.errors"),
    },
    # A report is made of values, whoever searched.
    "dedup/report": {
        *("numpy", "matplotlib", "jinja2", "markupsafe", "prometheus_client"),
        *("dedup.report", "dedup.settings", "dedup.tables.counts", "dedup.kernels"),
        *("dedup.explain.comparison", "dedup.explain.differ"),
        "dedup.layers.NEAR",
        *("dedup.display", "dedup.errors", "dedup.informing", "dedup.version"),
    },
    # An output is explained where Spark is not installed.
    "dedup/explain": {
        *("numpy", "pyarrow"),
        *("dedup.explain", "dedup.files", "dedup.kernels", "dedup.settings", "dedup.display", "dedup.errors"),
        "dedup.layers.NEAR",
    },
    # It reads its input, labels and output as a run does, and how is the business of dedup/run.
    "dedup/evaluate": {
        *("numpy", "pyarrow", "pyspark", "py4j", "xxhash"),
        *("dedup.run", "dedup.evaluate", "dedup.report.answers", "dedup.engine", "dedup.files"),
        *("dedup.settings", "dedup.kernels", "dedup.tables"),
        *("dedup.display", "dedup.errors", "dedup.version"),
    },
    # The tables are Delta Lake's.
    "dedup/store": {
        *("numpy", "pyarrow", "deltalake", "xxhash", "dedup.engine", "dedup.layers"),
        *("dedup.store", "dedup.engine", "dedup.files", "dedup.settings", "dedup.tables"),
        *("dedup.kernels", "dedup.errors", "dedup.informing", "dedup.extras", "dedup.version"),
    },
    "dedup/run": {
        *("numpy", "pyarrow", "pyspark", "py4j", "dedup.engine"),
        *("dedup.run", "dedup.report", "dedup.output", "dedup.store", "dedup.layers", "dedup.engine"),
        *("dedup.engine", "dedup.files", "dedup.explain.result"),
        *(
            "dedup.settings",
            "dedup.tables",
            "dedup.kernels",
            "dedup.display",
            "dedup.errors",
            "dedup.extras",
            "dedup.informing",
            "dedup.version",
        ),
    },
    # Whoever searched, what is written are decisions of rows.
    "dedup/output": {
        *("numpy", "pyarrow", "pyspark", "dedup.output", "dedup.layers", "dedup.engine"),
        *("dedup.files", "dedup.settings", "dedup.tables", "dedup.kernels", "dedup.errors", "dedup.informing"),
    },
    "dedup/cli": {"dedup"},
    "dedup/__main__.py": {"dedup.cli"},
    "jobs": {"dedup.cli"},
}

QUESTIONS = {"how", "of", "that", "those", "what", "where", "which", "who", "whoever", "whose", "with"}
FILES = {
    "alerts.py": 2,
    "comparing.py": 2,
    "comparison.py": 2,
    "components.py": 2,
    "containment.py": 2,
    "corpus.py": 2,
    "curve.py": 2,
    "election.py": 3,
    "exact.py": 2,
    "folding.py": 2,
    "hashing.py": 2,
    "ids.py": 2,
    "layer.py": 2,
    "lines.py": 2,
    "lookup.py": 2,
    "migrating.py": 2,
    "pairs.py": 4,
    "passages.py": 3,
    "profiles.py": 3,
    "reading.py": 2,
    "repeats.py": 2,
    "result.py": 2,
    "rows.py": 2,
    "sample.py": 2,
    "search.py": 2,
    "show.py": 4,
    "spans.py": 2,
    "storage.py": 2,
    "tables.py": 3,
    "templates.py": 3,
}
"""Names of files that stand in more than one folder of the package, and in how many: none may be added."""


CLASSIC = r"\b(sparkContext|_jvm|_jsc|_jdf|_jsparkSession|_gateway|rdd|persist|accumulator)\b"
"""What a session of Spark Connect lacks, and serverless forbids."""
CLASSIC_USERS = {"dedup/engine/sessions.py", "dedup/run/session.py", "dedup/run/storage.py"}
"""The door to sessions, what starts a classic one, and Hadoop's file systems, which are a classic one's."""


def sources_of(part):
    found = [path for path in SOURCES if path.is_relative_to(part)]
    assert found, f"{part} has no source"
    return found


def lies_in(name, packages):
    parts = name.split(".")
    return any(".".join(parts[:count]) in packages for count in range(1, len(parts) + 1))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_it_may(part):
    foreign = {
        f"{path}: {name}"
        for path in sources_of(part)
        for name in list_imports(path)
        if not lies_in(name, PARTS[part] | sys.stdlib_module_names)
    }

    assert foreign == set()


def test_what_spark_connect_lacks_is_asked_for_behind_one_door():
    users = {str(path) for path in sources_of("dedup") if re.search(CLASSIC, (ROOT / path).read_text("utf-8"))}

    assert users == CLASSIC_USERS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_import_no_more_than_it_does(part):
    imported = [name for path in sources_of(part) for name in list_imports(path)]

    assert {package for package in PARTS[part] if not any(lies_in(name, {package}) for name in imported)} == set()


def test_every_module_is_of_a_part():
    assert [path for path in SOURCES if not any(path.is_relative_to(part) for part in PARTS)] == []


def test_no_modules_import_each_other_in_a_circle():
    assert find_circle(link_modules()) == []


def test_no_module_imports_thirty_others():
    assert {path: len(links) for path, links in link_modules().items() if len(links) >= 30} == {}


def list_repeated(names):
    return {name: count for name, count in Counter(names).items() if count > 1}


def test_no_class_has_the_name_of_another():
    classes = (node.name for path in SOURCES for node in parse(path).body if isinstance(node, ast.ClassDef))

    assert list_repeated(classes) == {}


def test_no_file_has_the_name_of_another():
    files = (path.name for path in sources_of("dedup") if not path.name.startswith("__"))

    assert list_repeated(files) == FILES


def list_beginnings(path):
    """Yield the first word of every docstring, and of each description in its sections."""
    for node in list_docstrings(path):
        lines = cleandoc(node.value).splitlines()
        described = (line for name, line in pairwise(lines) if name[:1].strip() and line.startswith("    "))
        yield from (line.split()[0].rstrip(",:").lower() for line in (lines[0], *described))


def test_docstrings_begin_with_the_noun_or_verb_that_they_are_about():
    assert {path for path in SOURCES if not QUESTIONS.isdisjoint(list_beginnings(path))} == set()


def test_graphframes_is_the_business_of_one_stage():
    users = {path for path in SOURCES if any(lies_in(name, {"graphframes"}) for name in list_imports(path))}

    assert users == {GRAPHFRAMES_USER}


def test_a_store_is_looked_up_where_spark_is_not_installed():
    needed = {name for path in sources_of("dedup/store") for name in list_imports(path)}

    assert not any(lies_in(name, {"pyspark", "dedup.engine.spark"}) for name in needed)


def test_jobs_only_call_a_command_line():
    for path in sources_of("jobs"):
        body = parse(path).body
        allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.If)
        assert [node.lineno for node in body if not isinstance(node, allowed)] == [], path
        assert [name for name in list_imports(path) if lies_in(name, {"dedup"})] == ["dedup.cli.main"], path


def test_top_level_folders_are_those_of_the_layout():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {name.split("/")[0] for name in listing.stdout.splitlines() if "/" in name}

    assert folders - {"docs"} == {".ci", "conf", "dedup", "jobs", "scripts", "tests"}


def test_no_file_of_the_package_outgrows_its_reader():
    paths = [path for path in (ROOT / "dedup").rglob("*") if path.suffix in {".py", ".j2"}]

    assert {path.name: count for path in paths if (count := len(path.read_text("utf-8").splitlines())) > LINES} == {}

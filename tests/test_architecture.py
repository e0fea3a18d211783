"""Which part of the project may know which, and what lies where."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path.relative_to(ROOT) for folder in ("dedup", "jobs") for path in (ROOT / folder).rglob("*.py"))
GRAPHFRAMES_USER = Path("dedup/stages/components.py")
LINES = 450

# What a part may import besides the standard library: packages, with all that they hold. From the top of the house to
# its ground: jobs, cli, api, run, report, explain, evaluate, plan, store, layers, stages, settings, tables and kernels.
PARTS = {
    "dedup/__init__.py": {"dedup.api", "dedup.errors", "dedup.result", "dedup.settings", "dedup.store"},
    "dedup/api.py": {"pyarrow", "pyspark", "dedup.run", "dedup.result", "dedup.settings", "dedup.errors"},
    "dedup/result.py": {"dedup.display"},
    "dedup/errors.py": set(),
    "dedup/extras.py": {"dedup.errors", "dedup.__version__"},
    "dedup/display.py": set(),
    "dedup/kernels": {"llvmlite", "numba", "numpy", "scipy", "pyarrow", "xxhash", "dedup.kernels"},
    "dedup/tables": {"pyarrow", "pyspark", "dedup.errors"},
    "dedup/tables/counts.py": set(),
    "dedup/settings": {"dedup.settings", "dedup.kernels.text", "dedup.kernels.hashing", "dedup.errors"},
    "dedup/settings/rules.py": {"dedup.errors"},
    "dedup/settings/options.py": {
        *("dedup.errors", "dedup.settings.rules", "dedup.settings.banding", "dedup.settings.keeping"),
        *("dedup.settings.alerts", "dedup.settings.layers", "dedup.settings.profiles"),
    },
    # Both engines read and write files with it, where Spark and Numba need not be.
    "dedup/files": {
        *("numpy", "orjson", "pyarrow", "xxhash"),
        *("dedup.files", "dedup.kernels.ids", "dedup.kernels.runs", "dedup.errors"),
    },
    # Layers and engines agree on it.
    "dedup/engine": {"pyarrow"},
    "dedup/stages": {
        *("numpy", "pyarrow", "pyspark", "py4j", "graphframes", "dedup.engine"),
        *("dedup.kernels", "dedup.stages", "dedup.files", "dedup.tables", "dedup.errors"),
    },
    "dedup/stages/placement.py": set(),
    # Spark is the business of the stages.
    "dedup/engines": {
        *("numpy", "pyarrow", "dedup.engine"),
        *("dedup.engines", "dedup.files", "dedup.kernels", "dedup.tables", "dedup.display", "dedup.errors"),
    },
    # Where documents come from is the business of others.
    "dedup/engines/memory.py": {"numpy", "pyarrow", "dedup.engines", "dedup.kernels", "dedup.tables"},
    "dedup/layers": {
        *("ada_url", "numpy", "pyarrow", "pyspark", "dedup.engine"),
        *("dedup.layers", "dedup.stages", "dedup.settings", "dedup.tables", "dedup.kernels", "dedup.errors"),
    },
    # What a plan says must be known before Spark is.
    "dedup/plan": {
        *("numpy", "scipy", "pyarrow"),
        *("dedup.plan", "dedup.files", "dedup.kernels", "dedup.stages.placement"),
        *("dedup.settings", "dedup.display", "dedup.errors"),
    },
    # A report is made of values, whoever searched.
    "dedup/report": {
        *("numpy", "scipy", "matplotlib", "jinja2", "markupsafe", "prometheus_client"),
        *("dedup.report", "dedup.settings", "dedup.tables.counts", "dedup.kernels", "dedup.explain.differ"),
        "dedup.plan",
        *("dedup.display", "dedup.errors", "dedup.__version__"),
    },
    # An output is explained where Spark is not installed.
    "dedup/explain": {
        *("numpy", "pyarrow"),
        *("dedup.explain", "dedup.files", "dedup.kernels", "dedup.settings", "dedup.display", "dedup.errors"),
    },
    # It reads its input, labels and output as a run does, and how is the business of dedup/run.
    "dedup/evaluate": {
        *("numpy", "pyarrow", "pyspark", "py4j", "xxhash"),
        *("dedup.run", "dedup.evaluate", "dedup.engines", "dedup.stages", "dedup.files"),
        *("dedup.settings", "dedup.kernels"),
        *("dedup.display", "dedup.errors", "dedup.__version__"),
    },
    # The tables are Delta Lake's.
    "dedup/store": {
        *("numpy", "pyarrow", "deltalake", "pyspark"),
        *("dedup.store", "dedup.engines", "dedup.stages", "dedup.files", "dedup.settings", "dedup.tables"),
        *("dedup.kernels", "dedup.errors", "dedup.extras", "dedup.__version__"),
    },
    "dedup/run": {
        *("numpy", "pyarrow", "pyspark", "py4j", "dedup.engine"),
        *("dedup.run", "dedup.report", "dedup.store", "dedup.layers", "dedup.engines", "dedup.stages", "dedup.files"),
        *(
            "dedup.settings",
            "dedup.tables",
            "dedup.kernels",
            "dedup.display",
            "dedup.errors",
            "dedup.extras",
            "dedup.__version__",
        ),
    },
    "dedup/cli": {"dedup"},
    "dedup/__main__.py": {"dedup.cli"},
    "jobs": {"dedup.cli"},
}


def sources_of(part):
    found = [path for path in SOURCES if path.is_relative_to(part)]
    assert found, f"{part} has no source"
    return found


def imports_of(path):
    """Return the full names that a module imports, wherever in it: `from a import b` gives a.b."""
    for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = (
                ".".join((*path.parent.parts[: len(path.parent.parts) + 1 - node.level], "")) if node.level else ""
            )
            module = package + (node.module or "")
            yield from (f"{module.rstrip('.')}.{name.name}" for name in node.names)


def lies_in(name, packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_it_may(part):
    foreign = {
        f"{path}: {name}"
        for path in sources_of(part)
        for name in imports_of(path)
        if not lies_in(name, PARTS[part] | sys.stdlib_module_names)
    }

    assert foreign == set()


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_import_no_more_than_it_does(part):
    imported = [name for path in sources_of(part) for name in imports_of(path)]

    assert {package for package in PARTS[part] if not any(lies_in(name, {package}) for name in imported)} == set()


def test_every_module_is_of_a_part():
    assert [path for path in SOURCES if not any(path.is_relative_to(part) for part in PARTS)] == []


def test_graphframes_is_the_business_of_one_stage():
    users = {path for path in SOURCES if any(lies_in(name, {"graphframes"}) for name in imports_of(path))}

    assert users == {GRAPHFRAMES_USER}


def test_a_store_is_looked_up_where_spark_is_not_installed():
    users = {
        path
        for path in sources_of("dedup/store")
        if any(lies_in(name, {"pyspark", "dedup.stages", "dedup.store.joins"}) for name in imports_of(path))
    }

    assert {path.parent for path in users} == {Path("dedup/store/joins")}


def test_jobs_only_call_a_command_line():
    for path in sources_of("jobs"):
        body = ast.parse((ROOT / path).read_text("utf-8")).body
        allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.If)
        assert [node.lineno for node in body if not isinstance(node, allowed)] == [], path
        assert [name.rpartition(".")[2] for name in imports_of(path) if lies_in(name, {"dedup"})] == ["main"], path


def test_top_level_folders_are_those_of_the_layout():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {name.split("/")[0] for name in listing.stdout.splitlines() if "/" in name}

    assert folders - {"docs"} == {".ci", "conf", "dedup", "jobs", "scripts", "tests"}


def test_no_file_of_the_package_outgrows_its_reader():
    paths = [path for path in (ROOT / "dedup").rglob("*") if path.suffix in {".py", ".j2"}]

    assert {path.name: count for path in paths if (count := len(path.read_text("utf-8").splitlines())) > LINES} == {}

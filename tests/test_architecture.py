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

# What a part may import besides the standard library: packages, with all that they hold.
PARTS = {
    "dedup/kernels": {"numba", "numpy", "scipy", "pyarrow", "xxhash", "dedup.kernels"},
    "dedup/stages": {
        *("numpy", "pyarrow", "pyspark", "graphframes"),
        *("dedup.kernels", "dedup.exchange", "dedup.schemas", "dedup.errors"),
    },
    "dedup/exchange.py": {"numpy", "pyarrow", "pyspark", "dedup.kernels", "dedup.errors"},
    # What a plan says must be known before Spark is.
    "dedup/plan": {
        *("numpy", "scipy", "pyarrow"),
        *("dedup.plan", "dedup.kernels", "dedup.sizes", "dedup.settings", "dedup.contract", "dedup.errors"),
    },
    "dedup/sizes.py": set(),
    "dedup/contract.py": {"dedup.settings", "dedup.kernels.text", "dedup.errors"},
    "dedup/schemas.py": {"pyspark"},
    "dedup/errors.py": set(),
    "dedup/fields.py": {"dedup.errors"},
    "dedup/settings.py": {"dedup.errors", "dedup.fields"},
    "dedup/config.py": {"dedup.errors", "dedup.fields", "dedup.settings"},
    # An output is explained where Spark is not installed.
    "dedup/explain": {
        *("numpy", "pyarrow", "dedup.explain", "dedup.kernels"),
        *("dedup.config", "dedup.contract", "dedup.display", "dedup.errors", "dedup.settings"),
    },
    "jobs": {"dedup"},
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


def test_graphframes_is_the_business_of_one_stage():
    users = {path for path in SOURCES if any(lies_in(name, {"graphframes"}) for name in imports_of(path))}

    assert users == {GRAPHFRAMES_USER}


def test_jobs_define_only_functions():
    for path in sources_of("jobs"):
        body = ast.parse((ROOT / path).read_text("utf-8")).body
        allowed = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Expr, ast.If)
        assert [node.lineno for node in body if not isinstance(node, allowed)] == [], path
        assert "main" in {node.name for node in body if isinstance(node, ast.FunctionDef)}, path


def test_top_level_folders_are_those_of_the_layout():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {name.split("/")[0] for name in listing.stdout.splitlines() if "/" in name}

    assert folders - {"docs"} == {".ci", "conf", "dedup", "jobs", "scripts", "tests"}


def test_no_file_of_the_package_outgrows_its_reader():
    paths = [path for path in (ROOT / "dedup").rglob("*") if path.suffix in {".py", ".j2"}]

    assert {path.name: count for path in paths if (count := len(path.read_text("utf-8").splitlines())) > LINES} == {}

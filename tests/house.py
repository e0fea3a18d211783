"""The house in figures: python -m tests.house [--spark].

A code line holds a token that is no comment and no docstring. A file is on the path of a document when one of its
functions is called, in whichever process, in a run of some documents; --spark traces runs on Spark too.
"""

import ast
import os
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path.relative_to(ROOT) for folder in ("dedup", "jobs") for path in (ROOT / folder).rglob("*.py"))
SILENT = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
DOCUMENTS = 43
RUNS = {
    "in memory": ["engine=memory"],
    "by drivers": ["engine=spark", "driver.search_bytes=1_000_000_000"],
    "by tasks": ["engine=spark", "driver.search_bytes=0"],
}
# Python imports a module of this name when it starts, workers of Spark too; those end without a farewell.
TRACER = """
import os, sys, threading
seen = set()
def note(frame, event, argument):
    name = frame.f_code.co_filename
    # Bodies of modules and classes are run by an import, as comprehensions may be.
    if name not in seen and frame.f_code.co_flags & 1 and frame.f_code.co_name[0] != "<":
        seen.add(name)
        with open(os.environ["TRACE"], "a") as trace:
            trace.write(name + "\\n")
sys.setprofile(note)
threading.setprofile(note)
"""


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def list_docstrings(path: Path) -> list[ast.Constant]:
    """Return the strings that stand by themselves, those below attributes too."""
    values = [node.value for node in ast.walk(parse(path)) if isinstance(node, ast.Expr)]
    return [value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)]


def count_code(path: Path) -> int:
    """Return the number of code lines."""
    docstrings = {(node.lineno, node.col_offset) for node in list_docstrings(path)}
    lines: set[int] = set()
    with (ROOT / path).open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type not in SILENT and token.start not in docstrings:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


@cache
def list_imports(path: Path) -> tuple[str, ...]:
    """Return the full names that a module imports, wherever in it: `from a import b` gives a.b."""
    return tuple(_find_imports(path))


def _find_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = path.parent.parts
            package = ".".join((*parents[: len(parents) + 1 - node.level], "")) if node.level else ""
            yield from (f"{(package + (node.module or '')).rstrip('.')}.{name.name}" for name in node.names)


def link_modules() -> dict[Path, set[Path]]:
    """Return the modules that each module imports."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}

    def find(name: str) -> Path | None:
        return modules.get(name) or modules.get(name.rpartition(".")[0])

    return {path: {found for name in list_imports(path) if (found := find(name))} - {path} for path in SOURCES}


def find_circle(links: Mapping[Path, set[Path]]) -> list[Path]:
    """Return modules that import each other in a circle, the first one again at the end; none if there is no circle."""
    try:
        TopologicalSorter(links).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def trace(source: Path, scratch: Path, settings: list[str], *, store: bool) -> list[Path]:
    """Return the files on the path of a document."""
    scratch.mkdir()
    (scratch / "sitecustomize.py").write_text(TRACER)
    command = [sys.executable, "-m", "dedup", "run", f"--input={source}", f"--output={scratch / 'output'}"]
    command += [f"--set={each}" for each in ("input.id_column=doc_id", *settings)]
    command += [f"--store={scratch / 'store'}", "--batch=first"] if store else []
    environment = os.environ | {"PYTHONPATH": f"{scratch}:{ROOT}", "TRACE": str(scratch / "trace")}
    subprocess.run(command, env=environment, capture_output=True, check=True)
    touched = {Path(name) for name in (scratch / "trace").read_text().splitlines()}
    return [path for path in SOURCES if ROOT / path in touched]


def main(*, with_spark: bool) -> None:
    code = {path: count_code(path) for path in SOURCES}
    folders = Counter(path.parent for path in SOURCES)
    print(f"{'folder':24} files  code lines")
    for folder, files in sorted(folders.items()):
        print(f"{folder!s:24} {files:5,} {sum(code[path] for path in SOURCES if path.parent == folder):11,}")
    print(f"{'in all':24} {len(SOURCES):5,} {sum(code.values()):11,}")
    links = link_modules()
    print(f"circle of imports: {' -> '.join(map(str, find_circle(links))) or 'none'}")
    [(imported, count)] = Counter(path for found in links.values() for path in found).most_common(1)
    print(f"imported by most: {imported}, by {count} files")
    importing = max(links, key=lambda path: len(links[path]))
    print(f"imports most: {importing}, {len(links[importing])} files")
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "documents.parquet")
        pq.write_table(pq.read_table(ROOT / "tests" / "data" / "history.parquet")[:DOCUMENTS], source)
        for name, settings in RUNS.items():
            for store in (False, True):
                if with_spark or name == "in memory":
                    path = trace(source, Path(scratch, f"{name} {store}".replace(" ", "-")), settings, store=store)
                    run = f"{name}, with a store" if store else name
                    print(
                        f"path of a document {run}: {len(path)} files, {sum(code[each] for each in path):,} code lines"
                    )


if __name__ == "__main__":
    main(with_spark="--spark" in sys.argv[1:])

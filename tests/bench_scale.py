"""The job at sizes and shapes that few corpora have, once each: python -m tests.bench_scale CASE [OPTION ...].

cluster    tasks search on a standalone cluster: two executors of 2 GB and a core each, and a driver of 1 GB
files      a file for every four documents
splits     a table of as many partitions as documents by two
row-group  one file of one row group
chains     documents each similar to the five before it, in chains of a thousand and one of a quarter of all, which
           GraphFrames connects; held against scipy
growth     batches of a million added to a store without shingle sets, then one of ten thousand, which a copy of the
           store of each ten gets as well

The case, what it took and what it found are printed as JSON.
"""

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dedup.kernels.components import connect
from dedup.run.session import ROOT
from tests.bench_judge import place, recall
from tests.bench_processes import spend
from tests.corpora import write_corpus
from tests.machine import describe_machine, describe_run

CHUNK = 50_000
GENERATED = 4_000_000
"""A larger corpus is one of these several times, with words of its own each time."""
FILE_DOCUMENTS = {"files": 4, "splits": 100}
"""Each partition reads the whole footer of its file, which of 25,000 row groups has megabytes."""
GROUP_DOCUMENTS = {"files": 4, "splits": 2}
CHAIN, CHAIN_WORDS = 1000, 53
"""49 shingles: the Jaccard of neighbours in a chain is 48 / 50, of those with four between them 44 / 54."""
BATCH, LAST_BATCH = 1_000_000, 10_000
TRIED = 10
"""Batches of a million after which the small one is tried on a copy of the store."""
POLL_SECONDS = 1.0
NARROW = {
    "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.files.maxPartitionBytes=8k --conf spark.sql.files.openCostInBytes=0 "
    "pyspark-shell"
}
"""A partition of a table for each group of rows."""
CASES: Mapping[str, tuple[int, Sequence[str]]] = {
    "cluster": (16_000_000, ()),
    "files": (200_000, ()),
    "splits": (100_000, ()),
    "row-group": (1_400_000, ()),
    "chains": (4_000_000, ("components.engine=graphframes",)),
    "growth": (10_000_000, ("shingles.stored=false",)),
}
"""Documents, and settings besides the search by tasks."""


def main() -> None:
    """Make the corpus, unless it is there, run the job over it, and print what it took."""
    cli = argparse.ArgumentParser(
        prog="bench_scale", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    cli.add_argument("case", choices=CASES)
    cli.add_argument("--documents", type=int, help="instead of as many as the case says")
    cli.add_argument("--set", action="append", default=[], help="a setting besides those of the case; repeatable")
    cli.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "dedup-bench", help="kept corpora")
    options = cli.parse_args()
    most, settings = CASES[options.case]
    documents, settings = options.documents or most, [*settings, *options.set]
    folder, target = prepare(options.work, options.case, documents), options.work / f"out-{options.case}"
    for left in (target, Path(f"{target}.partial")):
        shutil.rmtree(left, ignore_errors=True)
    told = {**describe_run(), "machine": describe_machine(), "case": options.case, "documents": documents}
    if options.case == "growth":
        told |= grow(folder, target, settings)
    else:
        told |= watch_disk(Path(f"{target}.partial"), build(options.case, folder, target, settings))
        told |= judge(options.case, folder, target) if not told["returncode"] else {}
    if not told["returncode"]:
        shutil.rmtree(target)
    print(json.dumps(told, indent=1))


def prepare(work: Path, case: str, documents: int) -> Path:
    """Return the folder of a corpus in the shape of a case."""
    generated = min(documents, GENERATED)
    plain, folder = work / f"plain-{generated}", work / f"{case}-{documents}"
    if case != "chains" and not (plain / "truth.parquet").exists():
        shutil.rmtree(plain, ignore_errors=True)
        write_corpus(plain, generated)
    if (folder / "truth.parquet").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "documents").mkdir(parents=True)
    if case in WRITERS:
        WRITERS[case](plain, folder, documents)
        return folder
    if case == "row-group":
        rows = pq.read_table(plain / "documents").combine_chunks()
        pq.write_table(rows, folder / "documents" / "all.parquet", row_group_size=documents, compression="zstd")
    for file in sorted((plain / "documents").iterdir()) if case != "row-group" else ():
        rows = pq.read_table(file)
        for begin in range(0, rows.num_rows, FILE_DOCUMENTS[case]):
            path, group = folder / "documents" / f"{file.stem}-{begin}.parquet", GROUP_DOCUMENTS[case]
            pq.write_table(rows.slice(begin, FILE_DOCUMENTS[case]), path, row_group_size=group)
    shutil.copy(plain / "truth.parquet", folder)
    return folder


def write_multiples(plain: Path, folder: Path, documents: int) -> None:
    """Write a corpus several times, each time with words of its own."""
    for name, rows in multiply(plain, folder, documents):
        pq.write_table(rows, folder / "documents" / name, compression="zstd")


def write_batches(plain: Path, folder: Path, documents: int) -> None:
    """Write a corpus several times, in batches of random documents, the last of them small."""
    sizes = [*[BATCH] * (documents // BATCH), LAST_BATCH]
    sizes[0] -= LAST_BATCH
    numbers = np.random.default_rng(2).permutation(np.repeat(np.arange(len(sizes)), sizes))
    writers: dict[int, pq.ParquetWriter] = {}
    with ExitStack() as opened:
        for _, rows in multiply(plain, folder, documents):
            own = numbers[rows["doc_id"].to_numpy()]
            for number in np.unique(own).tolist():
                if number not in writers:
                    path = folder / "documents" / f"{number:02}" / "documents.parquet"
                    path.parent.mkdir()
                    writers[number] = opened.enter_context(pq.ParquetWriter(path, rows.schema, compression="zstd"))
                writers[number].write_table(rows.filter(pa.array(own == number)))


def multiply(plain: Path, folder: Path, documents: int) -> Iterator[tuple[str, pa.Table]]:
    """Return files of a corpus several times, with words that begin with the number of the time; write all pairs."""
    truth = pq.read_table(plain / "truth.parquet")
    size = sum(pq.read_metadata(file).num_rows for file in (plain / "documents").iterdir())
    parts = []
    for time in range(-(-documents // size)):
        shifts = {name: pc.add(truth[name], time * size) for name in ("left", "right")}
        parts.append(pa.table({**shifts, "jaccard": truth["jaccard"]}))
        for file in sorted((plain / "documents").iterdir()):
            rows = pq.read_table(file)
            texts = pc.replace_substring(rows["text"], " ", f" {time}") if time else rows["text"]
            own = pa.table({"doc_id": pc.add(rows["doc_id"], time * size), "text": texts})
            yield f"{time}-{file.name}", own.filter(pc.less(own["doc_id"], documents))
    pairs = pa.concat_tables(parts)
    pairs = pairs.filter(pc.less(pc.max_element_wise(pairs["left"], pairs["right"]), documents))
    pq.write_table(pairs, folder / "truth.parquet")


def write_chains(_: Path, folder: Path, documents: int) -> None:
    """Write documents that are windows of texts without repeated words, each a word further, in random order."""
    long = documents // 4
    starts = np.arange(documents) + CHAIN_WORDS * np.maximum(0, 1 + (np.arange(documents) - long) // CHAIN)
    order = np.random.default_rng(1).permutation(documents)
    for begin in range(0, documents, CHUNK):
        ids = order[begin : begin + CHUNK]
        words = (starts[ids][:, None] + np.arange(CHAIN_WORDS)).ravel()
        listed = pa.FixedSizeListArray.from_arrays(pc.cast(pa.array(words), pa.string()), CHAIN_WORDS)
        texts = pc.binary_join(listed.cast(pa.list_(pa.string())), " ")
        pq.write_table(pa.table({"doc_id": ids, "text": texts}), folder / "documents" / f"{begin:010}.parquet")
    pq.write_table(pa.table({"left": order[:0], "right": order[:0]}), folder / "truth.parquet")


WRITERS: Mapping[str, Callable[[Path, Path, int], None]] = {
    "cluster": write_multiples,
    "growth": write_batches,
    "chains": write_chains,
}


def build(case: str, folder: Path, target: Path, settings: Sequence[str]) -> list[str]:
    """Return the command that runs the job over the corpus of a case."""
    source = ["--input", str(folder / "documents")]
    if case == "splits":
        source = ["--table", f"parquet.`{folder / 'documents'}`"]
    chosen = [f"--set={each}" for each in ("driver.search_bytes=0", *settings)]
    job = [*source, "--output", str(target), "--id-column", "doc_id", "--engine", "spark", *chosen]
    if case != "cluster":
        return [sys.executable, str(ROOT / "jobs" / "deduplicate.py"), *job]
    # One process is the parent of the cluster and of the job, so that all are counted.
    scripts = shlex.quote(str(ROOT / "scripts"))
    lines = [
        "set -eu",
        f'trap "{scripts}/cluster stop 7177" EXIT',
        f'eval "$({scripts}/cluster start 7177)"',
        shlex.join([str(ROOT / "scripts" / "submit"), *job]),
    ]
    return ["bash", "-c", "\n".join(lines)]


def grow(folder: Path, target: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Add batches to a store; return what each took, what the store then weighs, and the planted pairs found.

    The last one is added to a copy of the store of each TRIED batches as well.
    """
    store, left, right, took = target / "store", [], [], []
    batches = sorted((folder / "documents").iterdir())
    for number, batch in enumerate(batches):
        if number and number % TRIED == 0 and batch != batches[-1]:
            shutil.copytree(store, target / "tried")
            took.append(add(batches[-1], target / "tried", settings))
            shutil.rmtree(target / "tried")
            shutil.rmtree(target / batches[-1].name)
        took.append(add(batch, store, settings))
        if took[-1]["returncode"]:
            return {"batches": took, "returncode": took[-1]["returncode"]}
        edges = ds.dataset(target / batch.name / "edges").to_table(columns=["left_id", "right_id"])
        left.append(edges["left_id"].to_numpy())
        right.append(edges["right_id"].to_numpy())
        shutil.rmtree(target / batch.name)
    ids, least = connect(np.concatenate(left), np.concatenate(right))
    places_found = dict(zip(ids.tolist(), least.tolist(), strict=True))
    return {
        "batches": took,
        "returncode": 0,
        "recall": recall(places_found, pq.read_table(folder / "truth.parquet")),
    }


def add(batch: Path, store: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Add a batch to a store; return what it took, and what the store then weighs."""
    chosen = ["--id-column", "doc_id", "--engine", "memory", *(f"--set={each}" for each in settings)]
    places = ["--input", str(batch), "--output", str(store.parent / batch.name), "--store", str(store)]
    job = [sys.executable, str(ROOT / "jobs" / "deduplicate.py"), *places, "--batch", batch.name, *chosen]
    spent = spend(job, {})
    took = {name: round(spent[name], 1) for name in ("seconds", "cpu_seconds", "total_bytes", "returncode")}
    took |= {"batch": batch.name, "store_bytes": weigh(store)}
    print(json.dumps(took), file=sys.stderr, flush=True)
    return took


def watch_disk(partial: Path, command: Sequence[str]) -> dict[str, Any]:
    """Run a command, and return what it took, with the most bytes that its folder and GraphFrames' checkpoints had."""
    most = {"partial_bytes": 0, "checkpoint_bytes": 0}
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            whole = weigh(partial)
            checkpoints = sum(map(weigh, partial.glob("checkpoints-*")))
            most.update(zip(most, np.maximum(list(most.values()), [whole, checkpoints]).tolist(), strict=True))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return {**spend(command, NARROW if "--table" in command else {}), **most}
    finally:
        ended.set()
        watcher.join()


def weigh(folder: Path) -> int:
    """Return the bytes of the files under a folder that others write and delete meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total


def judge(case: str, folder: Path, target: Path) -> dict[str, Any]:
    """Return the stages of a run, what it removed, and the planted pairs it found or whether scipy agrees."""
    report = json.loads((target / "report.json").read_text("utf-8"))
    told = {"stages": {name: round(stage["seconds"], 1) for name, stage in report["stages"].items()}}
    told["removed"] = report["removed"]
    if case == "chains":
        return {**told, **hold_against_scipy(target)}
    return {**told, "recall": recall(place(target), pq.read_table(folder / "truth.parquet"))}


def hold_against_scipy(target: Path) -> dict[str, Any]:
    """Return how many edges and components a result has, and whether these are the connected components of those."""
    edges = ds.dataset(target / "edges").to_table(columns=["left_id", "right_id"])
    ids, least = connect(edges["left_id"].to_numpy(), edges["right_id"].to_numpy())
    rows = ds.dataset(target / "duplicates").to_table(columns=["id", "representative_id", "component_id"])
    named = np.concatenate([rows["id"].to_numpy(), rows["representative_id"].to_numpy()])
    own = np.tile(rows["component_id"].to_numpy(), 2)
    pairs = np.unique(np.stack([least[np.searchsorted(ids, named)], own]), axis=1)
    as_many = pairs.shape[1] == np.unique(least).size == np.unique(own).size
    return {
        "edges": edges.num_rows,
        "components": int(np.unique(least).size),
        "largest": int(np.bincount(np.unique(least, return_inverse=True)[1]).max()),
        "as_scipy": bool(as_many and np.array_equal(np.unique(named), ids)),
    }


if __name__ == "__main__":
    main()

"""Stores that both engines grow, and all that is written of them."""

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from dedup.layers.near.signing import to_sets
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.start import start
from dedup.settings.files import load_config
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_rows, read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check

OUTPUTS = ("kept", "removed", "duplicates", "edges", "near_misses", "cosines", "changes", "spans")


class Side:
    """A store, grown by one engine or by both in turn."""

    def __init__(self, folder: Path, settings: dict[str, object]) -> None:
        folder.mkdir()
        self.folder, self.settings = folder, settings
        self.tables = Tables(str(folder / "store"))

    def add(self, name: str, path: Path, spark=None, *, anew: bool = False) -> dict:
        engine = "memory" if spark is None else "spark"
        # All that is to be shared out, however little it is.
        config = load_config(settings={"driver.search_bytes": 0, **self.settings, "engine": engine})
        job = Job(inputs=[str(path)], output=str(self.folder / name), config=config)
        return start(job, spark=spark, work=Growth(store=self.tables.path, batch=name, anew=anew))

    def output(self, name: str) -> dict[str, list]:
        found = {}
        for table in OUTPUTS:
            rows = ds.dataset(self.folder / name / table).to_table().to_pylist() if self.has(name, table) else []
            found[table] = sorted((tuple(row.values()) for row in rows), key=repr)
        return found

    def has(self, name: str, table: str) -> bool:
        return (self.folder / name / table).exists()

    def rows(self) -> dict[str, list]:
        return list_rows(self.tables)


def list_rows(tables: Tables) -> dict[str, list]:
    """Return the rows of all tables of a store."""
    snapshot = Snapshot(tables=tables, state=read_state(tables))
    found = {}
    for name in snapshot.state.segments:
        rows = snapshot.read(name)
        if name == "sets":
            values, offsets = to_sets(rows["shingles"])
            rows = rows.drop_columns(["shingles"])
            rows = rows.append_column("shingles", pa.array(np.split(values, offsets[1:-1]), pa.list_(pa.uint64())))
        found[name] = sorted(repr(tuple(row.values())) for row in rows.to_pylist())
    return found


def write(path: Path, rows: dict, *, column: str = "id", has_urls: bool = False) -> Path:
    columns = {"text": list(rows.values()), "site": [f"site{len(text) % 3}" for text in rows.values()]}
    columns |= {column: list(rows)} if column else {}
    columns |= {"url": [f"https://host/{len(text) % 9}" for text in rows.values()]} if has_urls else {}
    pq.write_table(pa.table(columns), path, row_group_size=8)
    return path


def hold_together(tmp_path, spark, batches, settings, *, anew=(), engines=(True, True, True, True)):
    """Add batches to two stores, by memory and by the engines told, and compare all that is written."""
    one, other = Side(tmp_path / "memory", settings), Side(tmp_path / "joined", settings)
    for number, (rows, is_spark) in enumerate(zip(batches, engines, strict=False)):
        path = tmp_path / f"{number}.parquet"
        write(path, rows, column=settings.get("input.id_column", ""), has_urls="url.column" in settings)
        name = f"batch{number}"
        memory = one.add(name, path, anew=number in anew)
        joined = other.add(name, path, spark if is_spark else None, anew=number in anew)
        assert other.output(name) == one.output(name), number
        assert other.rows() == one.rows(), number
        for count in ("documents", "kept", "removed", "identical", "near", "chained"):
            assert joined[count] == memory[count], count
    assert check(other.tables, mend=False) == []
    histories = [read_rows(side.tables)[0].drop_columns(["state", "time"]).to_pylist() for side in (one, other)]
    assert histories[0] == histories[1]
    return other


def deal(texts, count, seed=3):
    """Return the texts in so many batches, under ids in another order than theirs."""
    ids = Random(seed).sample(range(1000), len(texts))
    rows = dict(zip(ids, texts, strict=True))
    return [dict(list(rows.items())[number::count]) for number in range(count)]

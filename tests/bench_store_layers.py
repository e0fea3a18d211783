"""Bytes that each layer adds to a store: python -m tests.bench_store_layers [DOCUMENTS]."""

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import dedup
from dedup.store.schemas import list_tables
from dedup.store.snapshot import Snapshot
from dedup.store.state import read_state
from dedup.store.tables import Tables
from tests.corpora import write_corpus


def weigh(path: str) -> Counter[str]:
    """Return the bytes of every table of a store but `batches`."""
    snapshot = Snapshot(tables=Tables(path), state=read_state(Tables(path)))
    return Counter({name: sum(file.size for file in snapshot.list_files(name)) for name in snapshot.state.segments})


def main(documents: int) -> None:
    with TemporaryDirectory() as folder:
        write_corpus(Path(folder, "corpus"), documents)
        for layer in ("near", "exact", "lines", "containment", "passages"):
            store = dedup.Store(f"{folder}/{layer}.store")
            path, output = f"{folder}/corpus/documents", f"{folder}/{layer}"
            store.add(path, "1", output=output, id_column="doc_id", layers=[layer], engine="memory")
            found = weigh(str(store.path))
            every = ", ".join(f"{name} {found[name] / documents:,.0f}" for name in list_tables([layer]) if found[name])
            print(f"{layer}: {sum(found.values()) / documents:,.0f} bytes a document ({every})")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["100000"])[0]))

"""Bytes that each layer adds to a store: python -m tests.bench_store_layers [DOCUMENTS]."""

import sys
import zlib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

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


def encode(texts: list[str]) -> np.ndarray:
    """Return a vector of 256 dimensions for each text, by chance."""
    return np.array([np.random.default_rng(zlib.crc32(text.encode())).normal(size=256) for text in texts])


def main(documents: int) -> None:
    settings = {"semantic.encoder": "tests.bench_store_layers:encode", "semantic.threshold": 0.95}
    with TemporaryDirectory() as folder:
        write_corpus(Path(folder, "corpus"), documents)
        for layer in ("near", "exact", "lines", "containment", "passages", "semantic"):
            store = dedup.Store(f"{folder}/{layer}.store")
            path, output = f"{folder}/corpus/documents", f"{folder}/{layer}"
            options = {"id_column": "doc_id", "layers": [layer], "engine": "memory", "settings": settings}
            store.add(path, "1", output=output, **options)
            found = weigh(str(store.path))
            every = ", ".join(f"{name} {found[name] / documents:,.0f}" for name in list_tables([layer]) if found[name])
            print(f"{layer}: {sum(found.values()) / documents:,.0f} bytes a document ({every})")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["100000"])[0]))

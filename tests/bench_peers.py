"""Libraries of others, each a whole process: python -m tests.bench_peers rensa|datasketch INPUT OUTPUT.

Each finds what it takes for duplicates by its own way, as its documentation has it: shingles of five words in lower
case, 21 bands of 6 rows, the first document of a kind kept. None compares the shingle sets themselves: rensa drops a
candidate whose signatures say less than the threshold, datasketch drops none.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

BANDS, ROWS, SHINGLE = 21, 6, 5
THRESHOLD = 0.8
BATCH = 4096
WORD = re.compile(r"\w+")


def main() -> None:
    """Write the documents kept to a file of parquet."""
    _, name, source, target = sys.argv
    choose = {"rensa": Rensa, "datasketch": Datasketch}[name]()
    Path(target).mkdir(parents=True)
    writer = None
    for first, rows in read(Path(source)):
        kept = rows.filter(pa.array(choose.keep(first, [shingle(text or "") for text in rows["text"].to_pylist()])))
        writer = writer or pq.ParquetWriter(f"{target}/kept.parquet", kept.schema, compression="zstd")
        writer.write_table(kept)
    if writer is not None:
        writer.close()


def read(folder: Path) -> Iterator[tuple[int, pa.Table]]:
    """Yield batches of rows, each with the number of the first."""
    number = 0
    for file in sorted(folder.iterdir()):
        if file.suffix == ".parquet":
            batches = pq.ParquetFile(file).iter_batches(BATCH)
        else:
            with pa.CompressedInputStream(str(file), "detect") as stream:
                batches = pyarrow.json.read_json(stream).to_batches(BATCH)
        for batch in batches:
            yield number, pa.Table.from_batches([batch])
            number += batch.num_rows


def shingle(text: str) -> list[str]:
    """Return the runs of SHINGLE words, all of them where there are fewer."""
    words = WORD.findall(text.lower())
    last = max(len(words) - SHINGLE, 0)
    return [" ".join(words[begin : begin + SHINGLE]) for begin in range(last + 1)]


class Rensa:
    """rensa.RMinHashDeduplicator."""

    def __init__(self) -> None:
        import rensa  # noqa: PLC0415 - installed for the benchmark alone

        self.sign: Any = rensa.RMinHash.from_token_sets
        settings = {"threshold": THRESHOLD, "num_perm": BANDS * ROWS, "use_lsh": True, "num_bands": BANDS, "seed": 1}
        self.seen: Any = rensa.RMinHashDeduplicator(**settings)

    def keep(self, first: int, sets: list[list[str]]) -> list[bool]:
        """Tell which documents are none of those before."""
        signatures = self.sign(sets, num_perm=BANDS * ROWS, seed=1)
        return [self.seen.add(str(first + place), each) for place, each in enumerate(signatures)]


class Datasketch:
    """datasketch.MinHashLSH."""

    def __init__(self) -> None:
        import datasketch  # noqa: PLC0415 - as above

        self.sign: Any = datasketch.MinHash.generator
        self.seen: Any = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=BANDS * ROWS, params=(BANDS, ROWS))

    def keep(self, first: int, sets: list[list[str]]) -> list[bool]:
        """Tell which documents are none of those before."""
        packed = ([each.encode() for each in one] for one in sets)
        kept = []
        for place, signature in enumerate(self.sign(packed, num_perm=BANDS * ROWS, seed=1)):
            kept.append(not self.seen.query(signature))
            if kept[-1]:
                self.seen.insert(first + place, signature)
        return kept


if __name__ == "__main__":
    main()

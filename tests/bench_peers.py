"""Libraries of others, each a whole process: python -m tests.bench_peers NAME INPUT OUTPUT.

Each finds what it takes for duplicates by its own way, as its documentation has it: shingles of five words in lower
case, 21 bands of 6 rows, the first document of a kind kept. None compares the shingle sets themselves. rensa and gaoya
drop a candidate whose signatures say less than the threshold, the others drop none. FastSketchLSH, which takes powers
of two alone, has the bands of its README and the pipeline rho of rensa, which hashes a sample of the shingles, those of
its benchmark; fast-dedup has no index of signatures, so that its Bloom filter of whole texts decides.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

PEERS = {
    "rensa": "rensa==0.5.0",
    "rensa-rho": "rensa==0.5.0",
    "fastsketchlsh": "fastsketchlsh==1.0.1",
    "gaoya": "gaoya==0.2.2",
    "datasketch": "datasketch==2.0.0",
    "fast-dedup": "fast-dedup==0.1.0",
    "spark-lshbloom": "spark-lshbloom==0.1.0",
}
"""Libraries of others, by what is installed of each."""
SPARK_PEERS = ("spark-lshbloom",)
"""Libraries that tests.bench_jobs runs."""
PEERS_FOLDER = Path(__file__).resolve().parent.parent / "dist" / "peers"
BANDS, ROWS, SHINGLE = 21, 6, 5
THRESHOLD = 0.8
BATCH = 4096
WORD = re.compile(r"\w+")
RHO_BANDS, RHO_VALUES = 8, 128
FAST_BANDS, FAST_VALUES = 16, 128


def main() -> None:
    """Write the documents kept to a file of parquet."""
    _, name, source, target = sys.argv
    kept = np.concatenate(list(CHOICES[name](texts for _, texts in read_texts(Path(source)))))
    Path(target).mkdir(parents=True)
    writer = None
    for first, rows in read(Path(source)):
        writer = writer or pq.ParquetWriter(f"{target}/kept.parquet", rows.schema, compression="zstd")
        writer.write_table(rows.filter(pa.array(kept[first : first + rows.num_rows])))
    if writer is not None:
        writer.close()


def find_peer(name: str) -> Path:
    """Return the folder of a library of others."""
    return PEERS_FOLDER / PEERS[name].partition("==")[0]


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


def read_texts(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield batches of texts, each with the number of the first."""
    for first, rows in read(folder):
        yield first, [text or "" for text in rows["text"].to_pylist()]


def shingle(text: str) -> list[str]:
    """Return the runs of SHINGLE words, all of them where there are fewer."""
    words = WORD.findall(text.lower())
    last = max(len(words) - SHINGLE, 0)
    return [" ".join(words[begin : begin + SHINGLE]) for begin in range(last + 1)]


Batches = Iterator[list[str]]
Choices = Iterator[np.ndarray]


def choose_rensa(batches: Batches) -> Choices:
    """Tell which documents are none of those before by rensa.RMinHashDeduplicator."""
    import rensa  # noqa: PLC0415 - installed for the benchmark alone, as those below

    settings = {"threshold": THRESHOLD, "num_perm": BANDS * ROWS, "use_lsh": True, "num_bands": BANDS, "seed": 1}
    seen: Any = rensa.RMinHashDeduplicator(**settings)
    number = 0
    for texts in batches:
        signatures = rensa.RMinHash.from_token_sets(list(map(shingle, texts)), num_perm=BANDS * ROWS, seed=1)
        yield np.array([seen.add(str(number + place), each) for place, each in enumerate(signatures)])
        number += len(texts)


def choose_rensa_rho(batches: Batches) -> Choices:
    """Tell which documents are none of those before by the pipeline of rensa's own benchmark."""
    import rensa  # noqa: PLC0415

    index: Any = rensa.RMinHashLSH(threshold=THRESHOLD, num_perm=RHO_VALUES, num_bands=RHO_BANDS)
    number = 0
    for texts in batches:
        kept = []
        for text in texts:
            # One by one, as of documents that are added together the index marks the first of a kind too.
            signature = rensa.RMinHash.digest_matrix_from_token_sets_rho([shingle(text)], num_perm=RHO_VALUES, seed=1)
            kept += np.logical_not(index.insert_matrix_and_query_duplicate_flags(signature, start_key=number)).tolist()
            number += 1
        yield np.array(kept)


def choose_datasketch(batches: Batches) -> Choices:
    """Tell which documents are none of those before by datasketch.MinHashLSH."""
    import datasketch  # noqa: PLC0415

    seen: Any = datasketch.MinHashLSH(threshold=THRESHOLD, num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    number = 0
    for texts in batches:
        packed = ([each.encode() for each in shingle(text)] for text in texts)
        kept = []
        for signature in datasketch.MinHash.generator(packed, num_perm=BANDS * ROWS, seed=1):
            kept.append(not seen.query(signature))
            if kept[-1]:
                seen.insert(number, signature)
            number += 1
        yield np.array(kept)


def choose_gaoya(batches: Batches) -> Choices:
    """Tell which documents are none of those before by gaoya.minhash.MinHashStringIndex."""
    from gaoya.minhash import MinHashStringIndex  # noqa: PLC0415

    seen: Any = MinHashStringIndex(32, THRESHOLD, BANDS, ROWS, None, "word", True, (SHINGLE, SHINGLE))
    number = 0
    for texts in batches:
        kept = []
        for text in texts:
            kept.append(not seen.query(text))
            if kept[-1]:
                seen.insert_document(number, text)
            number += 1
        yield np.array(kept)


def choose_fastsketchlsh(batches: Batches) -> Choices:
    """Tell which documents are none of those before by FastSketchLSH.LSH."""
    from FastSketchLSH import LSH, FastSimilaritySketch  # noqa: PLC0415

    sign: Any = FastSimilaritySketch(size=FAST_VALUES, seed=1)
    index: Any = LSH(num_perm=FAST_VALUES, num_bands=FAST_BANDS)
    signatures = np.concatenate([sign.batch(list(map(shingle, texts))) for texts in batches])
    index.insert(signatures)
    found, bounds = index.query(signatures, "csr")
    yield np.minimum.reduceat(found, bounds[:-1].astype(int)) == np.arange(len(signatures))


def choose_fast_dedup(batches: Batches) -> Choices:
    """Tell which texts are none of those before by fast_dedup.BloomFilter."""
    from fast_dedup import BloomFilter  # noqa: PLC0415

    seen: Any = BloomFilter(10_000_000, 1e-6)
    for texts in batches:
        kept = []
        for text in texts:
            kept.append(not seen.contains(text))
            seen.add(text)
        yield np.array(kept)


CHOICES: Mapping[str, Callable[[Batches], Choices]] = MappingProxyType(
    {
        "rensa": choose_rensa,
        "rensa-rho": choose_rensa_rho,
        "datasketch": choose_datasketch,
        "gaoya": choose_gaoya,
        "fastsketchlsh": choose_fastsketchlsh,
        "fast-dedup": choose_fast_dedup,
    }
)


if __name__ == "__main__":
    main()

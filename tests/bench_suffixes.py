"""Repeated windows as users of Lee et al. (2022) find them: python -m tests.bench_suffixes TOOL INPUT OUTPUT.

TOOL is a checkout of google-research/deduplicate-text-datasets after `cargo build`; text-dedup calls the same. It knows
bytes alone, so each token is given to it as a number of four bytes, and what it finds between two tokens is left out.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.dataset as ds

from dedup.kernels.text.unicode_words import UnicodeWords

LENGTH = 50
"""Tokens of a window."""
WIDTH = 4
"""Bytes of a token."""
THREADS = 2


def main() -> None:
    """Write counts.json: how many windows occur twice, and how many tokens are of one."""
    tool, source, target = map(Path, sys.argv[1:])
    target.mkdir(parents=True)
    (tool / "tmp").mkdir(exist_ok=True)
    work, cache = target / "tokens", target / "cache"
    write_tokens(source, work)
    subprocess.run([sys.executable, "scripts/make_suffix_array.py", work], cwd=tool, check=True)
    command = ["target/debug/dedup_dataset", "self-similar", "--data-file", work, "--cache-dir", cache]
    command += ["--length-threshold", str(LENGTH * WIDTH), "--num-threads", str(THREADS)]
    subprocess.run(list(map(str, command)), cwd=tool, check=True)
    size = work.stat().st_size
    table = work.with_name(f"{work.name}.table.bin")
    places = read_places(cache, table.stat().st_size // size)
    counts = {"windows": places.size, "repeated_tokens": count_covered(places), "tokens": size // WIDTH}
    (target / "counts.json").write_text(json.dumps(counts))
    shutil.rmtree(cache)
    for file in target.glob("tokens*"):
        file.unlink()


def write_tokens(source: Path, work: Path) -> None:
    """Write the numbers of all tokens, and behind each document one that is of no other."""
    numbers: dict[int, int] = {}
    parted = 0
    with work.open("wb") as stream:
        for batch in ds.dataset(source).to_batches(columns=["text"]):
            tokens, bounds = UnicodeWords().hash(batch["text"])
            known, places = np.unique(tokens, return_inverse=True)
            table = np.array([numbers.setdefault(token, len(numbers)) for token in known.tolist()], np.uint32)
            ends = parted + np.arange(batch.num_rows, dtype=np.uint32)
            stream.write(np.insert(table[places], bounds[1:], ~ends).tobytes())
            parted += batch.num_rows


def read_places(cache: Path, width: int) -> npt.NDArray[np.int64]:
    """Return the first tokens of windows that occur twice, ascending, from pointers of so many bytes."""
    found = []
    for file in sorted(cache.glob("dups_*")):
        pointers = np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, width)
        padded = np.zeros((len(pointers), 8), np.uint8)
        padded[:, :width] = pointers
        found.append(padded.view("<i8")[:, 0])
    pointers = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    return pointers[pointers % WIDTH == 0] // WIDTH


def count_covered(places: npt.NDArray[np.int64]) -> int:
    """Return how many tokens are of one of these windows."""
    return int(np.minimum(np.diff(places), LENGTH).sum()) + LENGTH if places.size else 0


if __name__ == "__main__":
    main()

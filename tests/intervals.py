"""How often the intervals of `dedup evaluate` hold: python -m tests.intervals PATH [--seeds N] [--sample N].

A draw takes the documents with the least hashes of their ids, so other ids draw others. What is true of the whole
corpus is what an evaluation of all its documents says.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup.evaluate.dispatch import evaluate
from dedup.evaluate.evaluation import EvaluationQuestion
from dedup.settings.files import load_config

SECOND = ("lsh.bands=9", "lsh.rows=13")
"""A second setting, which misses more."""


def try_sample(path: str, column: str, folder: str, seed: int, sample: int) -> dict[tuple[str, str], Any]:
    """Return the shares that a sample tells, with their intervals, by setting and name."""
    texts = pq.read_table(path, columns=[column])[column]
    ids = [f"{seed}-{number}" for number in range(len(texts))]
    source = str(Path(folder) / f"{seed}.parquet")
    pq.write_table(pa.table({"id": ids, "text": texts}), source)
    one, other = (load_config(None, None, ["input.id_column=id", *more]) for more in ((), SECOND))
    trials = evaluate(None, EvaluationQuestion(inputs=[source], config=one, other=other, sample=sample or len(texts)))[
        "trials"
    ]
    return {
        (name, what): share
        for name, told in trials.items()
        for what, share in (("in one component", told["recall"]["removals"]), ("removed", told["removed"]))
    }


def main() -> None:
    """Print how many intervals hold what is true."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("path", help="parquet")
    cli.add_argument("--text-column", default="text")
    cli.add_argument("--seeds", type=int, default=10)
    cli.add_argument("--sample", type=int, default=2000)
    options = cli.parse_args()
    held: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        whole = try_sample(options.path, options.text_column, folder, 0, 0)
        for seed in range(1, options.seeds + 1):
            for key, told in try_sample(options.path, options.text_column, folder, seed, options.sample).items():
                held[key] += told["low"] <= whole[key]["share"] <= told["high"]
    for key, told in whole.items():
        print(f"{' '.join(key):<28} {told['share']:.4f} within {held[key]} of {options.seeds}")


if __name__ == "__main__":
    main()

"""The program in JavaScript gives the vectors of the specification, and the signatures of a real corpus."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dedup.kernels.features import compute
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.house import ROOT
from tests.vectors import FILE

CLASSES = ROOT / "dedup/kernels/text/unicode_classes.txt"
PROGRAM = Path(__file__).parent / "hash.mjs"
BY_LIBRARIES = {"markup", "stemming", "han"}
"""Steps of a text that the specification leaves to libraries for Python."""
STEP = 15
"""Every so many-th document of the corpus is asked for: a whole second of 64-bit arithmetic in JavaScript."""


def ask(cases):
    lines = "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    done = subprocess.run(["node", PROGRAM, CLASSES], input=lines, capture_output=True, check=True, encoding="utf-8")
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def test_the_vectors_are_those_of_the_file():
    every = json.loads(FILE.read_text("utf-8"))
    vectors = [vector for vector in every if not vector["settings"].keys() & BY_LIBRARIES]
    found = ask(vectors)

    assert len(found) == len(vectors) > 20
    assert found == [{name: vector[name] for name in told} for vector, told in zip(vectors, found, strict=True)]


def test_the_signatures_of_a_corpus_are_those_of_the_kernels():
    texts = pq.read_table(ROOT / "tests/data/history.parquet")["text"].combine_chunks()[::STEP]
    case = {"settings": {}, "key": "", "shingles": {"shingle_size": 5, "seed": 1}}
    lsh = {"bands": 21, "rows": 6, "seed": 1}
    found = ask(case | {"text": text, "lsh": lsh} for text in texts.to_pylist())

    ours = compute(pa.array(texts), UnicodeWords(), shingle_size=5, **lsh)
    assert [told["low_bytes"] for told in found] == [row.tobytes().hex() for row in ours.low]
    assert [told["band_keys"] for told in found] == [[f"{key:016x}" for key in row] for row in ours.keys.tolist()]
    assert sum(len(told["shingle_set"]) for told in found) == np.diff(ours.shingle_bounds).sum() > 10_000

"""The published test vectors of the hash specification: the kernels give them, and so do the oracles."""

import json

import pyarrow as pa
import pytest

from dedup.kernels.hashing import VERSION
from dedup.kernels.sets.lsh import band_keys
from dedup.kernels.sets.minhash import low_bytes, sign
from dedup.kernels.sets.shingles import digest, shingle
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.vectors import FILE, make

VECTORS = json.loads(FILE.read_text("utf-8"))


def hexadecimal(values):
    return [f"{value:016x}" for value in values.tolist()]


def test_the_file_is_of_this_version():
    assert f"version-{VERSION}.json" == FILE.name


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_kernels_give_the_vectors(vector):
    tokenizer = UnicodeWords(seed=vector["shingles"]["seed"], key=bytes.fromhex(vector["key"]), **vector["settings"])
    hashes, bounds = tokenizer.hash(pa.array([vector["text"]]))
    shingles, offsets = shingle(hashes, bounds, vector["shingles"]["shingle_size"], tokenizer)
    bands, rows, seed = (vector["lsh"][name] for name in ("bands", "rows", "seed"))
    signatures = sign(shingles, offsets, bands * rows, seed)

    assert hexadecimal(hashes) == vector["token_hashes"]
    assert hexadecimal(shingles) == vector["shingle_set"]
    assert digest(shingles, offsets)[0].hex() == vector["digest"]
    assert hexadecimal(signatures[0]) == vector["signature"]
    assert low_bytes(signatures)[0].tobytes().hex() == vector["low_bytes"]
    assert hexadecimal(band_keys(signatures, bands, rows)[0]) == vector["band_keys"]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_plain_python_gives_the_vectors(vector):
    given = {name: vector[name] for name in ("text", "settings", "key", "shingles", "lsh")}

    assert make(**given) == vector

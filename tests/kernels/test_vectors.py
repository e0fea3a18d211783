"""The published test vectors of the hash specification: the kernels give them, and so do the oracles."""

import json
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from dedup.kernels.hashing import VERSION
from dedup.kernels.sets.lsh import band_keys
from dedup.kernels.sets.minhash import low_bytes, pack, sign
from dedup.kernels.sets.shingles import digest, shingle, shingle_texts
from dedup.kernels.text.markup import Unmarked
from dedup.kernels.text.set_elements import SetElements
from dedup.kernels.text.single_characters import SingleCharacters
from dedup.kernels.text.text_columns import TextColumns
from dedup.kernels.text.token_ids import TokenIds, hash_ids
from dedup.kernels.text.unicode_words import UnicodeWords
from tests.vectors import FILE, make

GIVEN = ("unit", "ids", "text", "weights", "settings", "key", "shingles", "lsh")
VECTORS = json.loads(FILE.read_text("utf-8"))


def hexadecimal(values):
    return [f"{value:016x}" for value in values.tolist()]


def test_the_file_is_of_this_version():
    assert f"version-{VERSION}.json" == FILE.name


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_kernels_give_the_vectors(vector):
    kinds = {
        "tokens": UnicodeWords,
        "char": SingleCharacters,
        "ids": partial(TokenIds, content=b""),
        "set": SetElements,
    }
    kind = kinds[vector.get("unit", "tokens")]
    settings = {**vector["settings"]}
    markup = settings.pop("markup", None)
    tokenizer = kind(seed=vector["shingles"]["seed"], key=bytes.fromhex(vector["key"]), **settings)
    tokenizer = Unmarked(tokenizer=tokenizer, markup=markup) if markup else tokenizer
    tokenizer = TextColumns(tokenizer=tokenizer, weights=(*vector["weights"],)) if "weights" in vector else tokenizer
    size = vector["shingles"]["shingle_size"]
    if "ids" in vector:
        hashes = hash_ids(np.array(vector["ids"], np.uint64), tokenizer)
        shingles, offsets = shingle(hashes, np.array([0, hashes.size]), size, tokenizer)
    else:
        hashes, _, shingles, offsets = shingle_texts(pa.array([vector["text"]]), size, tokenizer)
    bands, rows, seed = (vector["lsh"][name] for name in ("bands", "rows", "seed"))
    signatures = sign(shingles, offsets, bands * rows, seed)

    assert hexadecimal(hashes) == vector["token_hashes"]
    assert hexadecimal(shingles) == vector["shingle_set"]
    assert digest(shingles, offsets)[0].hex() == vector["digest"]
    assert hexadecimal(signatures[0]) == vector["signature"]
    low = low_bytes(signatures)
    assert low[0].tobytes().hex() == vector["low_bytes"]
    assert {bits: pack(low, int(bits))[0].tobytes().hex() for bits in vector["packed"]} == vector["packed"]
    assert hexadecimal(band_keys(signatures, bands, rows)[0]) == vector["band_keys"]


@pytest.mark.parametrize("vector", VECTORS, ids=range(len(VECTORS)))
def test_plain_python_gives_the_vectors(vector):
    given = {name: vector[name] for name in GIVEN if name in vector}

    assert make(**given) == vector

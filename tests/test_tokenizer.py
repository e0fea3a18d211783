"""A tokenizer of one's own goes through a whole run, by every layer that asks for tokens."""

from dataclasses import dataclass
from hashlib import blake2b
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup import deduplicate
from dedup.kernels.text.tokenizer import TokenPlaces
from dedup.settings.contract import UNITS

LAYERS = ["exact", "lines", "contamination", "containment", "near", "passages"]


@dataclass(frozen=True)
class Characters:
    """Every character but white space is a token, so that shingles are character n-grams."""

    seed: int = 1
    key: bytes = b""
    basis: str = ""

    def hash(self, texts):
        tokens = [[char for char in text or "" if not char.isspace()] for text in texts.to_pylist()]
        salt = self.seed.to_bytes(8, "little")
        salted = [salt + char.encode() for each in tokens for char in each]
        hashes = [blake2b(each, digest_size=8, key=self.key).digest() for each in salted]
        return np.frombuffer(b"".join(hashes), np.uint64), np.cumsum([0, *map(len, tokens)])

    def locate(self, texts):
        found = [[place for place, char in enumerate(text) if not char.isspace()] for text in texts.to_pylist()]
        tokens = [
            text[place].encode() for text, places in zip(texts.to_pylist(), found, strict=True) for place in places
        ]
        begins = np.array([place for places in found for place in places], dtype=np.int64)
        digested = np.frombuffer(b"".join(tokens), dtype=np.uint8)
        offsets, widths = (np.cumsum([0, *map(len, each)]) for each in (found, tokens))
        return TokenPlaces(begins, begins + 1, offsets, digested, widths)


def make_texts():
    """Return families of copies that are edited, cut short and joined, of letters alone; and some that a test holds."""
    chance = Random(1)
    pool = ["".join(chance.choices("abcdefghijklmnop", k=30)) for _ in range(40)]
    texts = []
    for _ in range(60):
        lines = [*chance.sample(pool, 4), "".join(chance.choices("qrstuvwxyz", k=90))]
        for _ in range(chance.randint(1, 4)):
            copy = [*"\n".join(lines)]
            for _ in range(chance.choice([0, 0, 1, 3])):
                copy[chance.randrange(len(copy))] = chance.choice("abc")
            texts.append("".join(copy[: chance.choice([len(copy), len(copy) - 40])]))
    chance.shuffle(texts)
    return texts, ["".join(chance.choices("lmnop", k=25)) + texts[0][-60:]]


def run(folder, texts, prompts, settings):
    folder.mkdir()
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), folder / "in.parquet")
    pq.write_table(pa.table({"text": prompts}), folder / "prompts.parquet")
    options = {
        "layers": LAYERS,
        "shingles.shingle_size": 6,
        "contamination.sets": [f"tests:text:{folder / 'prompts.parquet'}"],
        "contamination.match_tokens": 20,
        "lines.compare": "text",
        "lines.documents": 16,
        "exact.compare": "text",
        "containment.threshold": 0.95,
        "passages.tokens": 30,
        "input.id_column": "id",
    }
    return deduplicate(str(folder / "in.parquet"), str(folder / "out"), engine="memory", settings=options | settings)


def read(table):
    """Return the rows in an order of their own, texts without white space."""
    rows = table.to_table().to_pylist()
    return sorted(
        tuple("".join(cell.split()) if name == "text" else cell for name, cell in row.items()) for row in rows
    )


@pytest.mark.parametrize("settings", [{}, {"mode": "exact", "passages.action": "drop"}], ids=["lsh", "exact"])
def test_characters_find_in_texts_what_words_find_where_each_character_is_one(tmp_path, monkeypatch, settings):
    texts, prompts = make_texts()
    spaced = [[" ".join(text) for text in each] for each in (texts, prompts)]
    expected = run(tmp_path / "words", *spaced, settings)
    monkeypatch.setitem(UNITS, "tokens", lambda seed, key, **_: Characters(seed, key))

    found = run(tmp_path / "characters", texts, prompts, settings)

    assert read(found.kept) == read(expected.kept)
    assert read(found.edges) == read(expected.edges)
    assert read(found.duplicates) == read(expected.duplicates)
    assert {row["layer"] for row in found.duplicates.to_table().to_pylist()} == {*LAYERS} - {"lines"}
    assert {row["layer"] for row in found.spans.to_table().to_pylist()} >= {"lines"}

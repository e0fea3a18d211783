"""More keys a document in other ways than more bands: independent tables, and probes of keys that differ in one row.

A probe is the key of a band of which one row has the second least hash of the set instead of the least, that row first
whose two are nearest. Documents meet where a key of one is a key or a probe of the other. Signatures have independent
permutations, since Fast Similarity Sketching has no second least values.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from dedup.kernels import Hashes, Integers
from dedup.kernels.hashing import EMPTY, expand
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix
from dedup.kernels.sets import exact, lsh, minhash
from dedup.kernels.sets.pairs import encode, sort_distinct
from tests.experiments.corpora import REAL, Sets, make, search, shingle

BANDS, ROWS = 21, 6
PROBES = (1, 2, 6)
TABLES = (3, 7)
KEY_BYTES = 16
LOW = np.uint64((1 << 32) - 1)


@compiled
def _sign_twice(shingles: Hashes, offsets: Integers, seeds: Hashes, least: Hashes, second: Hashes) -> None:
    """Fill the least and the second least hash of every row."""
    for document in range(offsets.size - 1):
        for row in range(seeds.size):
            one, other = EMPTY, EMPTY
            for position in range(offsets[document], offsets[document + 1]):
                value = mix(shingles[position] ^ seeds[row]) & LOW
                if value < one:
                    one, other = value, one
                elif value < other:
                    other = value
            least[document, row], second[document, row] = one, other


def measure() -> list[dict[str, Any]]:
    """Return the figures of each corpus and way."""
    found = []
    for name, sets in (("history", _read_real()), ("plain", make({})), ("skewed", make({"skewed": True}))):
        documents = sets.offsets.size - 1
        least, second = np.empty((2, documents, BANDS * ROWS), np.uint64)
        _sign_twice(sets.shingles, sets.offsets, expand(1, BANDS * ROWS), least, second)
        plain = _meet(sets, _make_keys(least, second, BANDS, 0))
        found.append({"corpus": name, "way": "bands", "keys": BANDS, "bands": BANDS, **plain})
        for tables in TABLES:
            bands = BANDS // tables
            parts = [minhash.sign(sets.shingles, sets.offsets, bands * ROWS, 10 + table) for table in range(tables)]
            keys = np.concatenate([_number(lsh.band_keys(part, bands, ROWS), at) for at, part in enumerate(parts)], 1)
            found.append(
                {"corpus": name, "way": f"tables-{tables}", "keys": BANDS, "bands": bands} | _meet(sets, [keys])
            )
        one = minhash.sign(sets.shingles, sets.offsets, BANDS * ROWS, 1)
        found.append({"corpus": name, "way": "built", "keys": BANDS, "bands": BANDS})
        found[-1] |= _meet(sets, [lsh.band_keys(one, BANDS, ROWS)])
        for probes in PROBES:
            # The fewest bands that find as much.
            for bands in range(2, BANDS + 1):
                keys = _make_keys(least, second, bands, probes)
                if _share(sets, keys) >= plain["recall"]:
                    break
            way = {"corpus": name, "way": f"probes-{probes}", "keys": bands * (1 + probes), "bands": bands}
            found.append(way | _meet(sets, keys))
    return found


def _number(keys: Hashes, table: int) -> Hashes:
    return keys ^ expand(7, table + 1)[table]


def _read_real() -> Sets:
    shingles, offsets = shingle(pq.read_table(REAL)["text"].combine_chunks())
    return Sets(shingles, offsets, *search(shingles, offsets))


def _make_keys(least: Hashes, second: Hashes, bands: int, probes: int) -> list[Hashes]:
    """Return the keys of all bands and, in the order of their rows' gaps, so many probes of each."""
    one, other = (each[:, : bands * ROWS].reshape(-1, bands, ROWS) for each in (least, second))
    made = [lsh.band_keys(one.reshape(len(one), -1), bands, ROWS)]
    order = np.argsort(other - one, axis=2)
    for number in range(probes):
        probed = one.copy()
        rows = order[:, :, number : number + 1]
        np.put_along_axis(probed, rows, np.take_along_axis(other, rows, 2), 2)
        made.append(lsh.band_keys(probed.reshape(len(one), -1), bands, ROWS))
    return made


def _share(sets: Sets, keys: list[Hashes]) -> float:
    """Return the share of the pairs that should be found which meet."""
    main, left, right = keys[0], sets.left, sets.right
    met = (main[left] == main[right]).any(axis=1)
    for probe in keys[1:]:
        met |= ((main[left] == probe[right]) | (probe[left] == main[right])).any(axis=1)
    return float(met.mean())


def _meet(sets: Sets, keys: list[Hashes]) -> dict[str, float]:
    """Return the recall, the distinct pairs that meet, and the processor seconds of bringing them together."""
    begin = time.process_time()
    main, owners = keys[0].reshape(-1), np.repeat(np.arange(len(keys[0])), keys[0].shape[1])
    batches = list(lsh.pairs(*lsh.group(main, owners), None, 1 << 24))
    if len(keys) > 1:
        order = np.argsort(main)
        main, holders = main[order], owners[order]
        for probe in keys[1:]:
            for left, right in exact.pair_owners(main, holders, probe.reshape(-1), owners):
                batches.append((np.minimum(left, right), np.maximum(left, right)))
    met = sort_distinct(np.concatenate([encode(left, right)[left != right] for left, right in batches]))
    return {"recall": _share(sets, keys), "candidates": met.size, "cpu_seconds": time.process_time() - begin}


def to_table(found: list[Mapping[str, Any]]) -> str:
    """Write what each way needs to find as much."""
    lines = [
        "| corpus | keys of | bytes of keys a document | recall | candidates | processor seconds |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        way, _, count = each["way"].partition("-")
        told = {
            "bands": f"{each['bands']} bands of {ROWS}, independent permutations",
            "built": f"{each['bands']} bands of {ROWS}, as built",
            "tables": f"{count} tables of {each['bands']} bands, each with a signature of its own",
            "probes": f"{each['bands']} bands, each with {count} probe{'s' * (count != '1')}",
        }[way]
        cells = [
            each["corpus"],
            told,
            f"{each['keys'] * KEY_BYTES:,}",
            f"{each['recall']:.4f}",
            f"{each['candidates']:,}",
            f"{each['cpu_seconds']:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

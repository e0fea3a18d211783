"""How near the estimate of a similarity comes, by the values of a signature, the size of sets and the kind of hashing.

Pairs of sets are drawn with a union and a similarity that are known, and signed by Fast Similarity Sketching as it is
built and by one permutation hashing with optimal densification (A. Shrivastava: Optimal Densification for Fast and
Accurate Minwise Hashing. ICML 2017, arXiv:1703.04664).
"""

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dedup.kernels import Hashes, Integers
from dedup.kernels.curve import probability
from dedup.kernels.hashing import EMPTY, expand
from dedup.kernels.loops.compiler import compiled
from dedup.kernels.loops.hashing import mix
from dedup.kernels.sets import minhash

Sign = Callable[[Hashes, Integers, int, int], Hashes]
SIZES = (16, 64, 256, 1024, 4096)
UNIONS = (10, 50, 250, 1000, 5000)
SIMILARITIES = (0.5, 0.8)
PAIRS, SEEDED = 4000, 50
"""Pairs of a figure, and those signed with one seed."""
BANDS, ROWS = 21, 6
WHOLE, WHOLE_UNION, WHOLE_PAIRS = 10, 200, 40_000
"""Values of a signature that must agree whole, as of GPT-3's; shingles of both sets; pairs."""
ROUNDS, TIMED = 5, 2000
HALF, LOW = np.uint64(32), np.uint64((1 << 32) - 1)


def sign_once(shingles: Hashes, offsets: Integers, size: int, seed: int) -> Hashes:
    """Return signatures of one hash a shingle, whose high bits name a row; an empty row takes another's value."""
    signatures = np.full((offsets.size - 1, size), EMPTY)
    _sign_once(shingles, offsets, expand(seed, 2), signatures)
    return signatures


@compiled
def _sign_once(shingles: Hashes, offsets: Integers, seeds: Hashes, signatures: Hashes) -> None:
    size = np.uint64(signatures.shape[1])
    for document in range(offsets.size - 1):
        row = signatures[document]
        for position in range(offsets[document], offsets[document + 1]):
            mixed = mix(shingles[position] ^ seeds[0])
            least = ((mixed >> HALF) * size) >> HALF
            row[least] = min(row[least], mixed & LOW)
        if offsets[document] == offsets[document + 1]:
            continue
        filled = row.copy()
        for place in range(row.size):
            # The same for all documents: which row follows at which attempt.
            source, attempt = place, np.uint64(place) << HALF
            while row[source] == EMPTY:
                attempt += np.uint64(1)
                source = np.int64(((mix(attempt ^ seeds[1]) >> HALF) * size) >> HALF)
            filled[place] = row[source]
        row[:] = filled


KINDS: Mapping[str, Sign] = {"fast": minhash.sign, "once": sign_once}


def draw(union: int, similarity: float, pairs: int, chance: np.random.Generator) -> tuple[Hashes, Integers, float]:
    """Return sets one after another, two of a pair, with the similarity that they have."""
    shared = round(union * similarity)
    own = (union - shared) // 2
    sizes = shared + own, shared + (union - shared - own)
    values = chance.integers(0, 1 << 64, (pairs, union), dtype=np.uint64)
    sets = np.concatenate((values[:, : sizes[0]], values[:, :shared], values[:, sizes[0] :]), axis=1)
    offsets = np.concatenate(([0], np.cumsum(np.tile(sizes, pairs))))
    return sets.reshape(-1), offsets, shared / union


def agree(
    sign: Sign, union: int, similarity: float, size: int, *, pairs: int = PAIRS, seed: int
) -> tuple[np.ndarray, float]:
    """Return the rows in which pairs agree, bool [pairs, size], and their similarity; a seed serves SEEDED pairs."""
    chance, agreed = np.random.default_rng(seed), []
    for number in range(0, pairs, SEEDED):
        shingles, offsets, exact = draw(union, similarity, min(SEEDED, pairs - number), chance)
        signatures = sign(shingles, offsets, size, seed + number)
        agreed.append(signatures[::2] == signatures[1::2])
    return np.concatenate(agreed), exact


def measure() -> dict[str, Any]:
    """Return the figures of all tables."""
    errors = []
    for size in SIZES:
        for union in UNIONS:
            agreed, exact = agree(minhash.sign, union, 0.8, size, seed=1)
            errors.append({"size": size, "union": union, "error": _root(agreed.mean(axis=1) - exact)})
    kinds = []
    for union in UNIONS:
        for name, sign in KINDS.items():
            found: dict[str, Any] = {"union": union, "kind": name, "microseconds": _time(sign, union)}
            for similarity in SIMILARITIES:
                agreed, exact = agree(sign, union, similarity, BANDS * ROWS, seed=2)
                ideal = math.sqrt(exact * (1 - exact) / (BANDS * ROWS))
                banded = agreed.reshape(len(agreed), BANDS, ROWS).all(axis=2).any(axis=1)
                found[f"{similarity}"] = {
                    "variance": (_root(agreed.mean(axis=1) - exact) / ideal) ** 2,
                    "bias": float(agreed.mean() - exact),
                    "candidates": float(banded.mean()),
                }
            kinds.append(found)
    return {"errors": errors, "kinds": kinds, "whole": _measure_whole()}


def _root(errors: np.ndarray) -> float:
    return math.sqrt(np.mean(np.square(errors)))


def _time(sign: Sign, union: int) -> float:
    """Return the microseconds of a processor for a set of so many shingles."""
    shingles, offsets, _ = draw(union, 1.0, TIMED // 2, np.random.default_rng(3))
    spent = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        sign(shingles, offsets, BANDS * ROWS, 1)
        spent.append(time.process_time() - begin)
    return min(spent) / TIMED * 1e6


def _measure_whole() -> dict[str, Any]:
    """Return how many pairs agree in all values, and how similar those are of pairs that are so by any degree."""
    shares = {}
    for similarity in (0.7, 0.8, 0.9, 0.95):
        agreed, exact = agree(minhash.sign, WHOLE_UNION, similarity, WHOLE, seed=4)
        shares[f"{exact:g}"] = float(agreed.all(axis=1).mean())
    chance, met = np.random.default_rng(5), []
    for number, similarity in enumerate(chance.random(WHOLE_PAIRS // SEEDED)):
        agreed, exact = agree(minhash.sign, WHOLE_UNION, similarity, WHOLE, pairs=SEEDED, seed=6 + number)
        met += [exact] * int(agreed.all(axis=1).sum())
    quantiles = {f"{share:g}": float(np.quantile(met, share)) for share in (0.05, 0.25, 0.5)}
    return {"shares": shares, "quantiles": quantiles}


def to_table(found: Mapping[str, Any]) -> str:
    """Write the error of the estimate by values and sizes."""
    lines = [
        f"| values | independent permutations | {' | '.join(f'union of {union:,}' for union in UNIONS)} |",
        f"|{'---|' * (2 + len(UNIONS))}",
    ]
    for size in SIZES:
        errors = [f"{each['error']:.4f}" for each in found["errors"] if each["size"] == size]
        lines.append(f"| {size:,} | {math.sqrt(0.16 / size):.4f} | {' | '.join(errors)} |")
    return "\n".join(lines)


def to_kinds_table(found: Mapping[str, Any]) -> str:
    """Write both kinds of hashing beside one another."""
    ideal = [f"{probability(similarity, BANDS, ROWS):.4f}" for similarity in SIMILARITIES]
    lines = [
        (
            "| shingles of both sets | hashing | variance at .8 | at .5 | bias at .8 | candidates at .8 | at .5 "
            "| us a set |"
        ),
        "|---|---|---|---|---|---|---|---|",
        f"| any | independent permutations, in theory | 1 | 1 | 0 | {ideal[1]} | {ideal[0]} | |",
    ]
    names = {"fast": "Fast Similarity Sketching, as built", "once": "one permutation, densified"}
    for each in found["kinds"]:
        half, high = (each[f"{similarity}"] for similarity in SIMILARITIES)
        cells = [
            f"{each['union']:,}",
            names[each["kind"]],
            f"{high['variance']:.2f}",
            f"{half['variance']:.2f}",
            f"{high['bias']:+.4f}",
            f"{high['candidates']:.4f}",
            f"{half['candidates']:.4f}",
            f"{each['microseconds']:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def to_whole_table(found: Mapping[str, Any]) -> str:
    """Write what it tells that a short signature agrees whole."""
    whole = found["whole"]
    lines = [f"| pairs of which all {WHOLE} values agree | measured | in theory |", "|---|---|---|"]
    for similarity, share in whole["shares"].items():
        lines.append(f"| share at a similarity of {similarity} | {share:.3f} | {float(similarity) ** WHOLE:.3f} |")
    for share, similarity in whole["quantiles"].items():
        ideal = float(share) ** (1 / (WHOLE + 1))
        lines.append(f"| similarity that {float(share):.0%} of them do not reach | {similarity:.3f} | {ideal:.3f} |")
    return "\n".join(lines)


def draw_figure(found: Mapping[str, Any], target: Path) -> None:
    """Draw the error of the estimate by the values of a signature."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - a second, and only this figure needs it

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, union in enumerate(UNIONS):
        errors = [each["error"] for each in found["errors"] if each["union"] == union]
        axes.plot(SIZES, errors, "o-", color=f"C{number}", label=f"union of {union:,}", markersize=4)
    ideal = [math.sqrt(0.16 / size) for size in SIZES]
    axes.plot(SIZES, ideal, "--", color="0.3", label="independent permutations")
    axes.set(xscale="log", yscale="log", xlabel="values of a signature", ylabel="root mean square error at .8")
    axes.set_xticks(SIZES, [f"{size:,}" for size in SIZES])
    axes.minorticks_off()
    axes.grid(visible=True, color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(target, dpi=110, metadata={"Software": None})

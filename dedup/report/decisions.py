"""Help for decisions: the most doubtful removals, and removals at other thresholds."""

from collections.abc import Mapping, Sequence
from typing import Any

from dedup.explain.comparison import compare_sets
from dedup.explain.differ import align, shorten
from dedup.kernels.curve import probability
from dedup.kernels.removal_statistics import choose_thresholds
from dedup.layers import NEAR
from dedup.settings.contract import load_tokenizer
from dedup.settings.options import Config
from dedup.tables.counts import Near, Written

BEGINNING = 4000
"""Characters of a text in which differences are looked for: of whole texts that can take tenths of a second a pair."""
MOST_WORDS = 120
"""Most words shown of a difference."""


def turn_dial(config: Config, near: Near, written: Written) -> list[dict[str, Any]]:
    """Return the documents that component linkage removes at several thresholds, by the pairs that this run compared.

    Returns
    -------
    list of dict
        Ascending: `threshold`; `joined` shingle sets, and `removed` documents, all but one of each component, None
        where no pair kept tells it; `is_least`, whether there may be more, since the run looked for more similar pairs;
        `recall`, the probability that the bands make a pair at the threshold a candidate.
    """
    elected = near.elected
    # Copies of one shingle set, and of one row.
    copies = near.collapsed.rows + written.removed_by.get(NEAR, 0) - elected.removed
    return [
        {
            "threshold": threshold,
            "joined": joined,
            "removed": None if joined is None else copies + joined,
            "is_least": threshold < config.threshold,
            "recall": probability(threshold, *config.banding) if config.mode == "lsh" else 1.0,
        }
        for threshold, joined in zip(choose_thresholds(config.threshold), elected.joined, strict=False)
    ]


def show_doubtful(
    config: Config, doubtful: Sequence[Mapping[str, Any]], texts: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Return the most doubtful removals with their `difference` to the document kept; None if no text was written.

    `rows` tells of each band in which rows the signatures agree, as `explain.comparison.compare_sets`; None without
    bands, and where the similarity of the texts as known here, which may be their beginnings, is another.
    """
    shown = []
    # Each profile has a tokenizer of its own.
    tokenizer = load_tokenizer(config) if doubtful and not config.profile else None
    for each in doubtful:
        left, right = (texts.get(each[name]) for name in ("doc_id", "representative_doc_id"))
        pair = {name: each[name] for name in ("id", "representative_id", "jaccard")}
        difference = rows = None
        if left is not None and right is not None:
            difference = tell_difference(left[:BEGINNING], right[:BEGINNING], config.shingles.unit)
            found = None if tokenizer is None else compare_sets(config, tokenizer, left, right)
            rows = found.rows if found and found.jaccard == each["jaccard"] else None
        shown.append({**pair, "difference": difference, "rows": rows})
    return shown


def tell_difference(removed: str, kept: str, unit: str = "tokens") -> list[list[str]]:
    """Return the difference of two texts' beginnings, or of sets; at most about MOST_WORDS words.

    Returns
    -------
    list of [kind, words]
        In order; `shared` by both, only in the one `removed`, only in the one `kept`, or a `gap` of so many words that
        are not shown.
    """
    told: list[list[str]] = []
    left = MOST_WORDS
    pieces = align(removed, kept, unit)
    for number, runs in enumerate(shorten(pieces)):
        for kind, words in runs:
            if kind == "gap":
                told.append([kind, str(len(words))])
            elif left > 0:
                told.append([kind, " ".join("".join(words[:left]).split())])
                if len(words) > left:
                    told.append(["gap", str(len(words) - left)])
                left -= len(words)
        if left <= 0:
            rest = sum(max(len(each.left), len(each.right)) for each in pieces[number + 1 :])
            return [*told, ["gap", str(rest)]] if rest else told
    return told

"""Tables of what a document costs, from what the benchmark measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench_peers import PEERS

PRICE = 0.05
"""Dollars of a core-hour: an assumption, about the list price of a virtual core with 4 GB in a large cloud."""
COSTED = {
    "pyarrow": "a copy by pyarrow, a process a core",
    "copy": "a copy by Spark",
    "memory": "in memory",
    "spark": "Spark, the driver searches",
    "tasks": "Spark, tasks search",
}
"""Contenders in the order of the table."""
PEER_NAMES = {
    "memory": "dedup, in memory",
    "rensa-rho": "rensa 0.5.0, its pipeline rho",
    "fast-dedup": "fast-dedup 0.1.0, Bloom filter",
}


def to_cost_table(small: Mapping[str, Any], large: Mapping[str, Any]) -> str:
    """Write what each contender took of two corpora of one kind, and what a document more costs."""
    lines = [
        (
            f"| | {small['documents']:,} documents | {large['documents']:,} | times Spark's copy | times pyarrow's "
            "| CPU seconds | at the margin, core-us a document | core-hours a TB | dollars a TB |"
        ),
        "|---|---|---|---|---|---|---|---|---|",
    ]
    copied = large.get("pyarrow")
    for name in [name for name in COSTED if name in small and name in large]:
        seconds = large[name]["seconds"]["median"]
        hours = weigh_margin(small, large, name)
        documents = large["documents"] - small["documents"]
        cells = [
            COSTED[name],
            f"{small[name]['seconds']['median']:.1f} s",
            f"{seconds:.1f} s",
            f"{large[name]['ratio_to_copy']['median']:.2f}",
            f"{seconds / copied['seconds']['median']:.1f}" if copied else "",
            f"{large[name]['cpu_seconds']['median']:.1f}",
            f"{_spend_more(small, large, name) / documents * 1e6:.1f}",
            f"{hours:.1f}",
            f"{hours * PRICE:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def weigh_margin(small: Mapping[str, Any], large: Mapping[str, Any], name: str) -> float:
    """Return the core-hours that a contender takes for a TB of text more, from processor seconds at two sizes."""
    return _spend_more(small, large, name) / 3600 / (large["text_bytes"] - small["text_bytes"]) * 1e12


def weigh_paid(entry: Mapping[str, Any], name: str, cores: int) -> float:
    """Return the core-hours for a TB of text at the rate of a run, with its start and its idle cores."""
    return entry[name]["seconds"]["median"] * cores / 3600 / entry["text_bytes"] * 1e12


def _spend_more(small: Mapping[str, Any], large: Mapping[str, Any], name: str) -> float:
    return large[name]["cpu_seconds"]["median"] - small[name]["cpu_seconds"]["median"]


def to_peers_table(entries: Sequence[Mapping[str, Any]]) -> str:
    """Write what libraries of others took of corpora and made of them, beside the job in memory."""
    lines = [
        "| | documents | seconds | CPU seconds | removed | recall | no similar one kept | nothing similar |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in entries:
        for name in [name for name in ("memory", *PEERS) if name in entry]:
            one = entry[name]
            found = [f"{one[key]:,}" if key in one else "" for key in ("bereft", "alone")]
            cells = [
                PEER_NAMES.get(name, PEERS.get(name, "").replace("==", " ")),
                f"{entry['documents']:,}",
                f"{'' if one.get('finished', True) else 'over '}{one['seconds']['median']:.1f}",
                f"{one['cpu_seconds']['median']:.1f}",
                f"{one['removed']:,}" if "removed" in one else "",
                f"{one['recall']:.4f}" if "recall" in one else "",
                *found,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)

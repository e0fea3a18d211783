"""Run what commands and tasks run, so that it lies compiled where it is looked for.

Modules lie beside their sources then, and the innermost loops too, or in $NUMBA_CACHE_DIR.
"""

import json
import tempfile
from importlib import import_module
from pathlib import Path

from dedup import deduplicate
from dedup.cli import VERBS

RUNS: tuple[dict[str, object], ...] = (
    {"buckets__max_bucket": 2},
    {"mode": "exact"},
    {"layers": ["passages", "lines", "containment"]},
    {"layers": ["semantic"]},
    {"shingles__unit": "char"},
)
"""Settings with which a few texts come to every loop."""
MARKS = "a\u0301\u0323"
"""A letter whose marks are put into another order."""


def main() -> None:
    """Search copies among a few texts, with all that the workers of Spark have in memory."""
    for module in (*(f"dedup.cli.{verb}" for verb in VERBS), "dedup.run.pipeline"):
        import_module(module)
    texts = [
        " ".join([*(f"word{each}" for each in range(first % 7, 60)), str(first // 2), MARKS]) for first in range(60)
    ]
    texts.append("over and over again " * 100)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")
        for number, settings in enumerate(RUNS):
            deduplicate(f"{folder}/in.jsonl", f"{folder}/{number}", engine="memory", **settings)


main()

"""The rates of dedup/plan/rates.py from a run of the benchmark: python -m tests.rates BENCH.json CORPUS.

BENCH.json has the contender tasks on a small and a large plain corpus, and CORPUS is the folder of the large one.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dedup.plan.answer import answer
from dedup.plan.calibrate import time_kernels
from dedup.plan.question import PlanQuestion
from dedup.plan.rates import Rates
from dedup.settings.files import load_config

SCALED = {
    "signatures": ("text_byte", "row"),
    "identical": ("identical",),
    "buckets": ("bucketed",),
    "candidates": ("signature", "pair"),
    "edges": ("scanned_byte", "comparison"),
    "components": ("edge",),
    "representatives": ("member",),
    "output": ("written_byte",),
}
"""The rates that make most of a stage."""


def main() -> None:
    """Print rates that make of each stage what it took more of the large corpus than of the small one."""
    _, file, corpus = sys.argv
    small, large = (each for each in json.loads(Path(file).read_text("utf-8"))["corpora"] if each["corpus"] == "plain")
    documents = large["documents"] - small["documents"]
    took = {name: large["tasks"]["stages"][name] - small["tasks"]["stages"][name] for name in SCALED}
    spent = large["tasks"]["cpu_seconds"]["median"] - small["tasks"]["cpu_seconds"]["median"]
    planned = plan_stages(corpus, large["documents"])
    whole = sum(took.values())
    for name, rates in SCALED.items():
        # Processor seconds of a stage are not measured: those of the run are shared out by its seconds.
        factor = took[name] / whole * spent / documents / (planned[name] / large["documents"])
        print(name, f"{factor:.2f}", {rate: float(f"{getattr(Rates(), rate) * factor:.3g}") for rate in rates})
    start = small["tasks"]["cpu_seconds"]["median"] - spent / documents * small["documents"]
    wall = small["tasks"]["seconds"]["median"] - whole / documents * small["documents"]
    print("start", round(start, 1), "fixed", round(wall, 1), "REFERENCE", round(time_kernels(), 4))


def plan_stages(corpus: str, documents: int) -> Mapping[str, float]:
    """Return the core seconds of each stage as planned without calibration."""
    sampled: dict[str, Any] = {"sample": corpus, "sample_documents": 100_000, "documents": documents}
    question = PlanQuestion(config=load_config(), **sampled, executors=1, cores=2, efficiency=1.0)
    return {each["name"]: each["core_hours"] * 3600 for each in answer(question)["capacity"]["stages"]}


if __name__ == "__main__":
    main()

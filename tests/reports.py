"""Made-up reports: every number of a run without a run, and texts that want to be more than text."""

from dedup.config import load_config
from dedup.report.build import build_report

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \x1b[31m\x00 \u202egnp.exe {{ 7 * 7 }} \\ & é"
SIMILARITIES = [0, 0, 0, 0, 0, 3, 12, 40, 95, 160, 240, 330, 410, 520, 610, 700, 820, 640, 480, 910]
SECONDS = {"signatures": 4.1, "identical": 0.8, "buckets": 1.2, "candidates": 1.0, "edges": 2.3, "components": 0.8}
RECALL = [
    {"jaccard": 0.55, "pairs": 100, "joined": 46, "recall": 0.46, "low": 0.40, "high": 0.52},
    {"jaccard": 0.75, "pairs": 300, "joined": 260, "recall": 0.975, "low": 0.95, "high": 0.99},
    {"jaccard": 0.85, "pairs": 600, "joined": 594, "recall": 0.99, "low": 0.98, "high": 1.0},
]
"""Of all pairs .9."""
RANKS = [1, 2, 3, 5, 8, 12, 20, 33, 54, 90, 150, 240, 400, 660, 1100]


def make_stages(**changes):
    """Return the measurements of all stages; a change replaces or adds to one stage's."""
    stages = {
        "signatures": {
            "rows": 12_000,
            "text_bytes": 16_800_000,
            "tokens": 2_500_000,
            "documents_empty": 24,
            "documents_short": 120,
        },
        "identical": {"rows": 900},
        "buckets": {"rows": 5_300, "band_rows": 232_596},
        "candidates": {
            "rows": sum(SIMILARITIES),
            "pairs_in_buckets": 41_000,
            "pairs_uncompared": 7_200,
            "pairs_distinct": 9_000,
            "pairs_after_length": 8_000,
        },
        "edges": {"rows": 2_850, "similarities": SIMILARITIES},
        "components": {"rows": 2_800},
        "representatives": {"rows": 2_800, "near": 1_000, "distant": 95},
        "output": {"rows": 10_100, "kept": 10_100, "duplicates": 1_900, "text_bytes_kept": 14_000_000},
    }
    for name, measured in stages.items():
        measured |= {"seconds": SECONDS.get(name, 3.0), "shuffle_bytes": 1_234_567, **changes.get(name, {})}
    return stages


def make_report(*overrides, stages=None, inputs=("in put/",), output="out put", **facts):
    """Return a report of a run of these settings; facts replace those of the pipeline."""
    ranks = {"ranks": RANKS}
    for part, slope in (("input", -0.98), ("kept", -0.95)):
        per_million = [round(60_000 * rank**slope, 3) for rank in RANKS]
        ranks[part] = {"tokens": 200_000, "slope": slope, "per_million": per_million}
    made = {
        "engine": "driver",
        "uncompared": {"sampled": 7_200, "similar": 40, "lost": 2},
        "bucket_sizes": {2: 3_000, 3: 1_200, 4: 600, 5: 240, 9: 120, 17: 80, 40: 40, 90: 14, 170: 5, 420: 1},
        "component_sizes": {2: 600, 3: 180, 5: 60, 11: 20, 60: 3, 340: 1},
        "token_ranks": ranks,
        "largest": [
            {
                "representative_id": "page-1",
                "documents": 340,
                "component_id": 11,
                "examples": [{"id": f"page-{n}", "text": "Permission is hereby granted, free"} for n in range(1, 5)],
            }
        ],
        "survival_by_source": None,
        "labeled_given": 0,
        "recall_measured": [],
        "signature_bytes": 3_700_000,
        "baseline": None,
        "spark": "4.1.4",
        "hash": {"version": 1, "key": ""},
        "format": "jsonl",
    }
    return build_report(
        config=load_config(None, None, ["input.id_column=id", *overrides]),
        inputs=inputs,
        output=output,
        stages=make_stages() if stages is None else stages,
        facts=made | facts,
    )


def make_hostile_report(*overrides, **facts):
    """Return a report whose ids, texts, sources, settings and paths are hostile."""
    largest = [
        {
            "representative_id": HOSTILE,
            "documents": 340,
            "component_id": 11,
            "examples": [{"id": HOSTILE, "text": HOSTILE}, {"id": "x" * 400, "text": "y" * 200}],
        }
    ]
    sources = {HOSTILE: {"documents": 10, "kept": 1}, "web": {"documents": 11_990, "kept": 10_099}}
    made = {"largest": largest, "survival_by_source": sources, **facts}
    return make_report(f"input.text_column={HOSTILE}", *overrides, inputs=(HOSTILE,), output=HOSTILE, **made)

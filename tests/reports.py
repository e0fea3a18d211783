"""Made-up reports: every number of a run without a run, and texts that want to be more than text."""

from dataclasses import replace

from dedup.report.build import Outcome, build_report
from dedup.settings.files import load_config
from dedup.tables.counts import (
    Bucketed,
    Collapsed,
    Connected,
    Elected,
    Labeled,
    Layered,
    Lost,
    Near,
    Paired,
    Signed,
    Verified,
    Written,
)

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> \x1b[31m\x00 \u202egnp.exe {{ 7 * 7 }} \\ & é"
SIMILARITIES = [0, 0, 0, 0, 0, 3, 12, 40, 95, 160, 240, 330, 410, 520, 610, 700, 820, 640, 480, 910]
SECONDS = {"signatures": 4.1, "identical": 0.8, "buckets": 1.2, "candidates": 1.0, "edges": 2.3, "components": 0.8}
RECALL = [
    {"jaccard": 0.55, "pairs": 100, "joined": 46, "recall": 0.46, "low": 0.40, "high": 0.52},
    {"jaccard": 0.75, "pairs": 300, "joined": 260, "recall": 0.975, "low": 0.95, "high": 0.99},
    {"jaccard": 0.85, "pairs": 600, "joined": 594, "recall": 0.99, "low": 0.98, "high": 1.0},
]
"""Of all pairs .9."""
LABELED = Labeled(given=1_000, points=RECALL)
RANKS = [1, 2, 3, 5, 8, 12, 20, 33, 54, 90, 150, 240, 400, 660, 1100]
DOUBTFUL = [
    {
        "doc_id": number,
        "id": f"page-{number}",
        "representative_doc_id": 1,
        "representative_id": "page-1",
        "kind": "near",
        "jaccard": 0.52 + number / 100,
        "left_id": 1,
        "right_id": number,
    }
    for number in (10, 11, 12)
]

NEAR = Near(
    signed=Signed(
        rows=12_000,
        text_bytes=16_800_000,
        tokens=2_500_000,
        shingles=2_400_000,
        documents_empty=24,
        documents_short=120,
    ),
    collapsed=Collapsed(rows=900),
    bucketed=Bucketed(
        rows=5_300,
        band_rows=232_596,
        sizes={2: 3_000, 3: 1_200, 4: 600, 5: 240, 9: 120, 17: 80, 40: 40, 90: 14, 170: 5, 420: 1},
    ),
    paired=Paired(
        rows=sum(SIMILARITIES),
        pairs_in_buckets=41_000,
        pairs_uncompared=7_200,
        pairs_distinct=9_000,
        pairs_after_length=8_000,
    ),
    verified=Verified(rows=2_850, compared=3_500, similarities=SIMILARITIES),
    connected=Connected(rows=2_800, engine="driver"),
    lost=Lost(documents=420, drawn=7_200, possible=40, verified=40, lost=2),
    elected=Elected(
        rows=2_800,
        removed=1_900,
        near=1_000,
        distant=120,
        chained=95,
        least=0.62,
        similarities=[*[0] * 12, 5, 10, 30, 50, 250, 300, 200, 155],
        doubtful=DOUBTFUL,
        parted=60,
        joined=[1_150, 1_080, 1_000, 700, 400, 150],
        removers=[
            {"source": "web", "by": "web", "documents": 1_100},
            {"source": "web", "by": None, "documents": 600},
            {"source": "books", "by": "web", "documents": 200},
        ],
        rules={"longest": 800, "smallest_id": 65},
        sizes={2: 600, 3: 180, 5: 60, 11: 20, 60: 3, 340: 1},
        largest=[
            {
                "documents": 340,
                "component_id": 11,
                "examples": [{"doc_id": number, "id": f"page-{number}"} for number in range(1, 5)],
            }
        ],
    ),
    labeled=None,
)
WRITTEN = Written(
    kept=10_100, removed=1_900, edges=3_750, near_misses=650, removed_by={"near": 1_900}, text_bytes_kept=14_000_000
)


def make_near(**changes):
    """Return the counts of the layer; a change replaces some of one stage's, given by name, or all of them."""
    return replace(
        NEAR,
        **{
            name: replace(getattr(NEAR, name), **change) if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    )


def make_stages(near=NEAR, **numbers):
    """Return the numbers of all stages; further ones replace those of each."""
    counts = {
        "signatures": near.signed,
        "identical": near.collapsed,
        "buckets": near.bucketed,
        "candidates": near.paired,
        "edges": near.verified,
        "components": near.connected,
        "representatives": near.elected,
        "output": WRITTEN,
    }
    return {
        name: {"rows": each.rows, "seconds": SECONDS.get(name, 3.0), "shuffle_bytes": 1_234_567, **numbers}
        for name, each in counts.items()
    }


def make_report(*overrides, near=NEAR, written=WRITTEN, inputs=("in put/",), output="out put", preset="", **facts):
    """Return a report of a run of these settings; facts replace those of the outcome."""
    ranks = {"ranks": RANKS}
    for part, slope in (("input", -0.98), ("kept", -0.95)):
        per_million = [round(60_000 * rank**slope, 3) for rank in RANKS]
        ranks[part] = {"tokens": 200_000, "slope": slope, "error": 0.004, "per_million": per_million}
    ranks |= {"change": 0.03, "change_error": 0.002}
    signed = near.signed
    step = Layered(layer="near", documents=signed.rows, text_bytes=signed.text_bytes, tokens=signed.tokens)
    made = {
        "begun": 1_790_000_000.0,
        "start_seconds": 0.4,
        "layers": [step],
        "stages": make_stages(near),
        "token_ranks": ranks,
        "texts": {
            number: f"Permission is hereby granted, free {'of charge ' * (number > 4)}" for number in range(1, 14)
        },
        "survival_by_source": None,
        "signature_bytes": 3_700_000,
        "baseline": None,
        "engine": "spark",
        "search": "tasks",
        "reader": "files",
        "spark": "4.1.4",
        "spec": {"version": 1, "key": ""},
        "format": "jsonl",
    }
    return build_report(
        config=load_config(None, None, ["input.id_column=id", *overrides]),
        inputs=inputs,
        output=output,
        preset=preset,
        outcome=Outcome(near=near, written=written, **made | facts),
    )


def make_hostile_report(*overrides, **facts):
    """Return a report whose ids, texts, sources, settings and paths are hostile."""
    examples = [{"doc_id": 1, "id": HOSTILE}, {"doc_id": 2, "id": "x" * 400}]
    doubtful = [DOUBTFUL[0] | {"doc_id": 1, "id": HOSTILE}, DOUBTFUL[1] | {"representative_id": HOSTILE}]
    removers = [{"source": HOSTILE, "by": HOSTILE, "documents": 7}]
    largest = [{"documents": 340, "component_id": 11, "examples": examples}]
    near = make_near(elected={"largest": largest, "doubtful": doubtful, "removers": removers})
    sources = {HOSTILE: {"documents": 10, "kept": 1}, "web": {"documents": 11_990, "kept": 10_099}}
    made = {
        "near": near,
        "texts": {1: HOSTILE, 2: "y" * 200},
        "survival_by_source": sources,
        **facts,
    }
    return make_report(f"input.text_column={HOSTILE}", *overrides, inputs=(HOSTILE,), output=HOSTILE, **made)

"""A thousand paraphrases and a thousand smallest contradictions in three languages: the bars of the layer semantic."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from tests.paraphrases import draw

KINDS = "text", "paraphrase", "contradiction"
LABELED = 100


def search(folder, count, order="tpc", **settings):
    """Return who goes in favour of whom, by the first letters of what both are, and the details of the report.

    Ids are in the order of a sentence, its paraphrase and its contradiction, or in another.
    """
    triples = draw(7, count)
    texts = [(f"{n:04}{order.index(k[0])}", getattr(each, k)) for n, each in enumerate(triples) for k in KINDS]
    pq.write_table(pa.table(dict(zip(("id", "text"), zip(*texts, strict=True), strict=True))), folder / "in.parquet")
    labels = [
        {"left_id": f"{n:04}{order.index('t')}", "right_id": f"{n:04}{order.index(kind)}", "duplicate": kind == "p"}
        for n in range(LABELED)
        for kind in "pc"
    ]
    (folder / "labels.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in labels))
    config = load_config(settings={"input.id_column": "id", "layers": ["semantic"]} | settings)
    report = run_in_memory(Job(inputs=[str(folder / "in.parquet")], output=str(folder / "out"), config=config))
    gone = pq.read_table(folder / "out" / "duplicates").select(["id", "representative_id"]).to_pylist()
    pairs = [tuple(each.values()) for each in gone]
    told = Counter(
        (*(order[int(each[-1])] for each in (a, b)), "own" if a[:-1] == b[:-1] else "other") for a, b in pairs
    )
    return told, report["layers"][0]["details"]


@pytest.mark.parametrize("order", ["tpc", pytest.param("cpt", marks=pytest.mark.full)])
def test_at_most_one_contradiction_in_a_hundred_goes_and_most_paraphrases_are_found(tmp_path, order):
    told, details = search(tmp_path, 1_000, order, **{"evaluation.labeled_pairs": str(tmp_path / "labels.jsonl")})

    found = told["p", "t", "own"] + told["t", "p", "own"]
    assert details["threshold_chosen_by"] == "evaluation.labeled_pairs"
    assert sum(told.values()) - found <= 10
    # 953 and 952.
    assert found >= 940
    assert len(details["pairs_near_the_threshold"]) == 40
    assert sum(each["labeled_duplicates"] for each in details["curve"]) == LABELED


def test_where_contradictions_are_the_nearest_neighbours_nothing_goes_unasked(tmp_path):
    told, details = search(tmp_path, 200)

    assert details["threshold_chosen_by"] == "nearest neighbours"
    assert sum(told.values()) <= 5


@pytest.mark.parametrize("guard", ["wording", "numbers"])
def test_without_a_guard_contradictions_go(tmp_path, guard):
    told, _ = search(tmp_path, 200, **{"semantic.guards": [guard], "semantic.threshold": 0.5})

    assert sum(count for (gone, _, _), count in told.items() if gone == "c") > (5 if guard == "wording" else 50)

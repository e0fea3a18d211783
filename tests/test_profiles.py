"""Profiles: a run with them is the separate runs over the rows of each, with its settings."""

import json
import logging
import re
from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup import deduplicate
from dedup.cli.explain import main as show_explanation
from dedup.errors import AlertError, ConfigError, DataError, SchemaError, StorageError
from dedup.evaluate.evaluation import check_comparable
from dedup.explain.explanation import explain
from dedup.explain.result import PublishedOutput
from dedup.plan.answer import answer as plan
from dedup.plan.question import PlanQuestion
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.run.start import start
from dedup.settings.files import load_config
from tests.conftest import PROFILE
from tests.strategies import runs

WORDS = [f"w{number}" for number in range(400)]
PROFILES = [
    {"name": "code", "when": {"type": ["py", "c"]}, "threshold": 0.5, "shingles": {"shingle_size": 3}},
    {"name": "zh", "when": {"lang": ["zh"]}, "threshold": 0.7, "text": {"case": "keep"}},
    {"name": "c-of-web", "when": {"type": "c", "lang": "en"}, "threshold": 1.0},
]
"""The last is never the first that holds."""
OWN = {
    "code": {"threshold": 0.5, "shingles.shingle_size": 3},
    "zh": {"threshold": 0.7, "text.case": "keep"},
    "default": {},
}
TABLES = ("kept", "removed", "duplicates", "edges", "near_misses")


def name_profile(row):
    return "code" if row["type"] in {"py", "c"} else "zh" if row["lang"] == "zh" else "default"


def make_rows(rng, families=40 if PROFILE == "full" else 24):
    """Return families of edited copies, whose members are of several profiles."""
    rows = []
    for _ in range(families):
        words = rng.choices(WORDS, k=rng.choice([0, 3, 30, 30, 40]))
        for _ in range(rng.randint(1, 5)):
            copied = [rng.choice(WORDS) if rng.random() < rng.choice([0, 0.01, 0.05]) else each for each in words]
            text = " ".join(copied)
            text = text.upper() if rng.random() < 0.2 else text
            rows.append(
                {
                    "text": text,
                    "type": rng.choice(["py", "c", "html", None]),
                    "lang": rng.choice(["zh", "en", None]),
                    "src": rng.choice(["a", "b"]),
                }
            )
    rng.shuffle(rows)
    return [{"id": f"k{number}"} | row for number, row in enumerate(rows)]


def write(folder, rows):
    folder.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([(name, pa.string()) for name in ("id", "text", "type", "lang", "src")])
    for number in range(2):
        pq.write_table(pa.Table.from_pylist(rows[number::2], schema), folder / f"{number}.parquet", row_group_size=20)
    return folder


def read(output, name):
    rows = ds.dataset(f"{output}/{name}").to_table().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def make_job(folder, output, given, **more):
    config = load_config(settings={"input.id_column": "id"} | given)
    return Job(inputs=[str(folder)], output=str(output), config=config, **more)


def run_apart(folder, rows, given):
    """Return the tables of separate runs, together, and the report of each."""
    found, reports = {name: [] for name in TABLES}, {}
    for name, own in OWN.items():
        part = [row for row in rows if name_profile(row) == name]
        if part:
            output = folder / f"out_{name}"
            reports[name] = run_in_memory(make_job(write(folder / name, part), output, given | own))
            for table in TABLES:
                found[table] += read(output, table)
    return {name: sorted(rows, key=repr) for name, rows in found.items()}, reports


CASES = [
    {"layers": ["near"], "keep.order": ["longest"], "cluster.linkage": "representative"},
    {"layers": ["near"], "mode": "exact"},
    {
        "layers": ["exact", "lines", "near", "containment"],
        "exact.compare": "text",
        "containment.min_shingles": 2,
        "lines.documents": 2,
        "lines.min_characters": 1,
        "input.source_column": "src",
        "keep.merge": ["count", "kinds:type"],
    },
    # Wholly equal rows are one document.
    {"layers": ["exact", "near"], "input.id_column": ""},
]


@pytest.mark.parametrize("given", CASES)
def test_a_run_is_the_separate_runs_of_its_profiles(tmp_path, given):
    rows = make_rows(Random(1))
    if not given.get("input.id_column", "id"):
        rows = [row | {"id": None} for row in [*rows, *rows[:20]]]
    apart, reports = run_apart(tmp_path / "apart", rows, given)

    report = run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", given | {"profile": PROFILES}))

    assert {name: read(tmp_path / "out", name) for name in TABLES} == apart
    told = {each["name"]: each for each in report["profiles"]}
    assert list(told) == ["code", "zh", "c-of-web", "default"]
    for name, own in reports.items():
        same = ["documents", "kept", "removed", "near", "identical", "edges", "components", "pairs", "chained"]
        same += ["layers"] if given["layers"] == ["near"] else ["recall_at_threshold", "missed_by_bands", "dial"]
        expected = {key: own[key] for key in same}
        for layer in expected.get("layers", ()):
            layer["text_bytes"] = None
        assert {key: told[name][key] for key in same} == expected, name
        assert told[name]["threshold"] == own["settings"]["threshold"]
    assert told["c-of-web"]["documents"] == 0
    for key in ("documents", "kept", "removed", "near", "identical", "edges", "components", "chained"):
        assert report[key] == sum(own[key] for own in reports.values()), key
    assert report["recall_at_threshold"] == min(own["recall_at_threshold"] for own in reports.values())
    removed = [layer["removed"] for layer in report["layers"]]
    assert removed == [
        sum(own["layers"][number]["removed"] for own in reports.values()) for number in range(len(removed))
    ]


@pytest.mark.full
def test_engines_agree_on_files_and_tables(spark, tmp_path):
    folder = write(tmp_path / "in", make_rows(Random(2)))
    given = {"layers": ["exact", "near"], "profile": PROFILES[:1]}

    reports = [run_in_memory(make_job(folder, tmp_path / "memory", given))]
    reports.append(run(spark, make_job(folder, tmp_path / "files", given)))
    reports.append(run(spark, make_job(folder, tmp_path / "rows", given, table=spark.read.parquet(str(folder)))))

    for name in TABLES:
        found = [read(tmp_path / output, name) for output in ("memory", "files", "rows")]
        assert found[0] == found[1] == found[2], name
    told = [
        [{key: value for key, value in each.items() if key != "layers"} for each in report["profiles"]]
        for report in reports
    ]
    assert told[0] == told[1] == told[2]
    for key in ("near", "edges", "components", "component_sizes", "similarities", "doubtful", "largest_components"):
        assert reports[0][key] == reports[1][key] == reports[2][key], key


@runs(3)
@given(seed=st.integers(0, 10**6), families=st.integers(1, 8))
def test_of_any_documents(tmp_path_factory, seed, families):
    folder = tmp_path_factory.mktemp("any")
    rows = make_rows(Random(seed), families)
    apart, _ = run_apart(folder, rows, {})

    run_in_memory(make_job(write(folder / "in", rows), folder / "out", {"profile": PROFILES}))

    assert {name: read(folder / "out", name) for name in TABLES} == apart


def test_what_no_document_is_of_is_told_and_harms_nothing(tmp_path, caplog):
    rows = [{"id": "a", "text": "one two three", "type": "py", "lang": None, "src": None}]
    folder = write(tmp_path / "in", rows)

    with caplog.at_level(logging.WARNING):
        report = run_in_memory(make_job(folder, tmp_path / "out", {"profile": PROFILES, "layers": ["exact", "near"]}))

    assert [record.getMessage() for record in caplog.records] == [
        f'profile "{name}": its condition holds for no document' for name in ("zh", "c-of-web")
    ]
    assert [(each["name"], each["documents"]) for each in report["profiles"]] == [
        ("code", 1),
        ("zh", 0),
        ("c-of-web", 0),
        ("default", 0),
    ]
    with pytest.raises(DataError, match="must hold at least one document"):
        run_in_memory(make_job(write(tmp_path / "none", []), tmp_path / "empty", {"profile": PROFILES}))


def test_all_columns_of_a_condition_must_hold(tmp_path):
    kinds = [("py", "en"), ("py", "zh"), ("c", "en"), (None, "en"), ("py", None)]
    rows = [
        {"id": f"{n}", "text": "a b", "type": kind, "lang": lang, "src": None} for n, (kind, lang) in enumerate(kinds)
    ]
    profiles = [{"name": "both", "when": {"type": ["py", "c"], "lang": ["en"]}}]

    report = run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", {"profile": profiles}))

    assert [(each["name"], each["documents"]) for each in report["profiles"]] == [("both", 2), ("default", 3)]


def test_an_id_of_documents_of_two_profiles_is_refused(tmp_path):
    rows = [{"id": "a", "text": kind, "type": kind, "lang": None, "src": None} for kind in ("py", "html")]

    with pytest.raises(DataError, match="unique"):
        run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", {"profile": PROFILES}))


def test_documents_of_one_text_stay_in_each_profile(tmp_path):
    rows = [
        {"id": f"a{n}", "text": "a b", "type": t, "lang": None, "src": None} for n, t in enumerate(["py", "c", "d"])
    ]
    job = make_job(write(tmp_path / "in", rows), tmp_path / "out", {"profile": PROFILES, "layers": ["exact", "near"]})

    assert run_in_memory(job)["removed"] == 1
    assert [row[:4] for row in read(tmp_path / "out", "duplicates")] == [("a1", "exact", "equal", "a0")]


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"typ": ["py"]}, "profile.when: must be the name of one column of the input (got 'typ', "),
        ({"more": ["x"]}, "profile.when: column 'more' must be a number, a date, a time or a string (got list<"),
    ],
)
def test_a_condition_on_no_column_is_refused(tmp_path, when, message):
    table = pa.table({"id": ["a"], "text": ["x"], "more": [["x"]]})
    pq.write_table(table, tmp_path / "in.parquet")

    with pytest.raises(SchemaError) as caught:
        run_in_memory(make_job(tmp_path / "in.parquet", tmp_path / "out", {"profile": [{"name": "a", "when": when}]}))

    assert str(caught.value).startswith(message)


def test_values_are_compared_as_texts_and_nested_columns_by_dots(tmp_path):
    words = " ".join(WORDS[:20])
    rows = [{"id": str(n), "text": words, "n": n % 3, "meta": {"ok": n > 2}} for n in range(6)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    profiles = [{"name": "one", "when": {"n": 1}}, {"name": "ok", "when": {"meta.ok": True}}]

    for name in ("in.jsonl", "in.parquet"):
        result = deduplicate(tmp_path / name, id_column="id", profile=profiles)
        found = {(row["id"], row["representative_id"]) for row in result.duplicates.to_table().to_pylist()}
        # 1 and 4 are of the first; of the others 3 and 5 of the second, 0 and 2 of none.
        assert {frozenset(pair) for pair in found} == {frozenset("14"), frozenset("35"), frozenset("02")}


def test_what_knows_no_profiles_says_so(tmp_path):
    folder = write(tmp_path / "in", make_rows(Random(3), 2))
    given = {"profile": PROFILES}
    refused = [
        lambda: start(make_job(folder, tmp_path / "out", given), work=Growth(store=str(tmp_path / "s"), batch="1")),
        lambda: run_in_memory(make_job(folder, tmp_path / "out", given | {"evaluation.labeled_pairs": "x"})),
        lambda: check_comparable(load_config(settings=given), None),
        lambda: plan(PlanQuestion(config=load_config(settings=given))),
    ]

    messages = []
    for call in refused:
        with pytest.raises(ConfigError) as caught:
            call()
        messages.append(str(caught.value))

    assert [message.partition(";")[0] for message in messages] == [
        "profile: must be empty in a store, whose features are of one specification",
        "evaluation.labeled_pairs: must be empty where there are profiles, which find pairs of their own (got 'x')",
        "profile: must be empty to be evaluated",
        "profile: must be empty to be planned",
    ]


def test_an_unfinished_run_of_other_profiles_is_not_resumed(tmp_path):
    folder = write(tmp_path / "in", make_rows(Random(3), 4))
    failing = {"alerts.removal_rate_below": 1, "alerts.on_breach": "fail"}
    with pytest.raises(AlertError):
        run_in_memory(make_job(folder, tmp_path / "out", {"profile": PROFILES} | failing))

    with pytest.raises(StorageError, match="setting profile"):
        run_in_memory(make_job(folder, tmp_path / "out", {"profile": PROFILES[:1]}))

    assert run_in_memory(make_job(folder, tmp_path / "out", {"profile": PROFILES}))["documents"] > 0


def make_pairs(profile):
    """Return two documents of a profile that differ in one word of twenty."""
    return [
        {"id": f"{profile}{number}", "text": " ".join([*WORDS[:10], f"x{number}", *WORDS[11:20]]), "type": profile}
        for number in range(2)
    ]


def test_explain_compares_with_the_settings_of_the_profile(tmp_path, capsys):
    rows = [each | {"lang": None, "src": None} for profile in ("py", "html") for each in make_pairs(profile)]
    run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", {"profile": PROFILES}))
    result = PublishedOutput(str(tmp_path / "out"))

    [gone] = result.duplicates.to_pylist()
    removed = explain(result, gone["id"])
    assert (removed.profile, removed.fate) == ("code", "removed")
    assert removed.direct.comparison.jaccard == removed.direct.jaccard == gone["jaccard"] == 15 / 21
    assert removed.direct.verdict.endswith(">= 0.5")

    kept = explain(result, "html0", "html1")
    assert (kept.profile, kept.fate, kept.direct.fate) == ("default", "kept", "kept")
    assert kept.direct.comparison.jaccard == 11 / 21
    assert "< 0.8" in kept.direct.verdict

    across = explain(result, "html0", "py0")
    assert across.direct.verdict == "documents of the profiles default and code are not compared"
    assert across.direct.comparison is None

    assert show_explanation([str(tmp_path / "out"), "--id", gone["id"]]) == 0
    assert "profile        code" in capsys.readouterr().out


def test_explain_says_where_it_cannot_know_the_profile(tmp_path):
    rows = [each | {"lang": None, "src": None} for each in make_pairs("py")]
    run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", {"profile": PROFILES, "output.mode": "ids"}))
    result = PublishedOutput(str(tmp_path / "out"))

    found = explain(result, result.duplicates["id"][0].as_py())

    assert found.profile == ""
    assert found.direct.verdict == "not told: the profile of a document is known by its row alone"


def test_the_page_has_a_table_of_the_profiles(tmp_path):
    run_in_memory(make_job(write(tmp_path / "in", make_rows(Random(3))), tmp_path / "out", {"profile": PROFILES}))

    page = (tmp_path / "out" / "report.html").read_text("utf-8")

    assert "<h2>Profiles</h2>" in page
    assert re.search(r'<th scope="row">code</th><td>\d+</td><td>\d+</td><td>[\d.]+%</td><td>\d+</td><td>0.5</td>', page)
    assert '<th scope="row">c-of-web</th><td>0</td>' in page


def test_what_the_cap_may_have_lost_of_each_profile_is_added_up(tmp_path):
    rng = Random(3)
    rows = [
        {"id": f"k{number}", "text": " ".join(rng.sample(WORDS[:30], 20)), "type": None, "lang": lang}
        for number, lang in enumerate(["zh", "en"] * 30)
    ]
    given = {"profile": PROFILES[1:2], "buckets.max_bucket": 2, "threshold": 0.5, "shingles.shingle_size": 1}
    report = run_in_memory(make_job(write(tmp_path / "in", rows), tmp_path / "out", given))

    assert report["left_out"] == {}
    assert report["pairs"]["uncompared"] > 0
    for name in ("lost_at_most", "documents_lost_at_most"):
        assert report["uncompared"][name] == sum(each["uncompared"][name] for each in report["profiles"]) > 0


def test_the_preset_of_a_mixed_corpus_tells_pages_code_and_chinese_apart(tmp_path):
    config = load_config(preset="mixed")
    own = {name: (each.threshold, each.shingles.shingle_size) for name, each in config.by_profile.items()}
    chinese = "".join(chr(0x4E00 + 7 * number) for number in range(60))
    texts = [(" ".join(WORDS[:40]), kind, "en") for kind in ("code", "web")] * 2
    texts += [(chinese, "web", "zh"), (chinese + "。", "web", "zh"), (chinese, "web", None)]
    table = {
        "id": [*range(7)],
        **dict(zip(("text", "type", "language"), map(list, zip(*texts, strict=True)), strict=True)),
    }
    pq.write_table(pa.table(table), tmp_path / "in.parquet")

    result = deduplicate(tmp_path / "in.parquet", id_column="id", preset="mixed")

    assert own == {"code": (0.7, 8), "chinese": (0.8, 8), "default": (0.8, 5)}
    told = {each["name"]: (each["documents"], each["removed"]) for each in result.report.to_dict()["profiles"]}
    assert told == {"code": (2, 1), "chinese": (2, 1), "default": (3, 1)}

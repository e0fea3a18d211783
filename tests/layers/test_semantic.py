"""The layer of documents that say the same in other words, held against comparing all with all."""

import json
import math
from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.cli import explain as explain_cli
from dedup.errors import ConfigError, DataError, SchemaError
from dedup.informing import Inform
from dedup.kernels.election import ElectionPolicy
from dedup.kernels.ids import to_doc_ids
from dedup.kernels.text.facts import are_exchanged, read_facts
from dedup.kernels.text.unicode_words import UnicodeWords
from dedup.layers.near.election import Election
from dedup.layers.semantic import cells, encoding, verification
from dedup.layers.semantic.semantic import Semantic, SemanticLayer
from dedup.layers.semantic.verification import GUARDS
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.pipeline import run
from dedup.settings.files import load_config
from dedup.tables import arrow
from tests.conftest import PROFILE
from tests.layers.tiny import TinyEngine
from tests.paraphrases import draw as draw_triples
from tests.test_pipeline import rows

THRESHOLD = 0.9
RUNS = 3 if PROFILE == "full" else 2


def make_layer(threshold=THRESHOLD, most=150, rules=(("smallest_id", ""),), per_source=0, **settings):
    policy = ElectionPolicy(threshold, by_representative=settings.get("linkage") != "component")
    return SemanticLayer(
        settings=Semantic(threshold=threshold, vector_column="v", **settings),
        tokenizer=UnicodeWords(),
        most=most,
        election=Election(rules=rules, policy=policy, per_source=per_source),
        inform=Inform(),
    )


def draw(seed, count=40, dimensions=8, families=12):
    """Return vectors around a few directions, null of some, and texts of few facts."""
    chance = Random(seed)
    centres = [[chance.gauss(0, 1) for _ in range(dimensions)] for _ in range(families)]
    vectors = []
    for _ in range(count):
        centre, spread, scale = chance.choice(centres), chance.choice((0.0, 0.1, 0.3)), 10 ** chance.uniform(-3, 3)
        vectors.append([scale * (each + chance.gauss(0, spread)) for each in centre] if chance.random() < 0.9 else None)
    words = [["to", "run", "is", "walking", "green", "houses"][: chance.randint(3, 6)] for _ in range(count)]
    texts = [
        " ".join([*chance.sample(each, len(each)), *chance.choice(([], ["not"], ["3"], ["4", "km"]))]) for each in words
    ]
    return vectors, texts


def cosine(one, other):
    one, other = (np.array(each, np.float32).astype(float).tolist() for each in (one, other))
    if one == other:
        return 1.0
    lengths = math.sqrt(math.fsum(a * a for a in one) * math.fsum(a * a for a in other))
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths


def find_parting(one, other, guards=GUARDS):
    """Return the guards that part two texts."""
    facts, tokens = [read_facts(each) for each in (one, other)], [each.split() for each in (one, other)]
    parting = {guard for guard in guards if guard != "wording" and sorted(facts[0][guard]) != sorted(facts[1][guard])}
    differing = sum(a != b for a, b in zip(*tokens, strict=False))
    if "wording" in guards and len(tokens[0]) != len(tokens[1]):
        short, long = sorted(map(len, tokens))
        begin = next((n for n in range(short) if tokens[0][n] != tokens[1][n]), short)
        end = next((n for n in range(short - begin) if tokens[0][-1 - n] != tokens[1][-1 - n]), short - begin)
        parting |= {"wording"} if long <= 2 * (begin + end) else set()
    if "wording" in guards and len(tokens[0]) == len(tokens[1]) and differing:
        parting |= {"wording"} if differing * 2 <= len(tokens[0]) or sorted(tokens[0]) == sorted(tokens[1]) else set()
    return parting


def settle(documents, judged):
    """Return the edges but those of which an end has a neighbour, not clearly farther, that contradicts the other."""
    words = [sorted((text or "").split()) for _, text in documents]
    edges = {frozenset(pair) for pair, (holds, _) in judged.items() if holds}
    against = {frozenset(pair) for pair, (_, parting) in judged.items() if parting and parting <= {"names", "wording"}}
    near = {
        pair: round((1 - cosine(*(documents[each][0] for each in pair))) * 1e9)
        for pair in edges | against
        if pair in edges or len({tuple(words[each]) for each in pair}) == 1
    }

    def holds(one, other):
        rivals = [each for pair in near if one in pair for each in pair - {one, other}]
        return not any(
            near[frozenset((one, each))] * 0.75 <= near[frozenset((one, other))] and frozenset((each, other)) in against
            for each in rivals
        )

    return {tuple(sorted(pair)) for pair in edges if holds(*sorted(pair)) and holds(*sorted(pair)[::-1])}


def is_edge(one, other, threshold=THRESHOLD, guards=GUARDS):
    """Tell whether two documents are an edge, and which guards part them if their cosine says so."""
    if one[0] is None or other[0] is None or cosine(one[0], other[0]) < threshold:
        return False, set()
    parting = find_parting(one[1], other[1], guards)
    return not parting, parting


def elect(count, edges):
    """Return what goes, in favour of what, with linkage by representative: the first of each."""
    owners = {}
    for doc_id in range(count):
        if doc_id in owners:
            continue
        owners |= {
            other: doc_id for other in range(doc_id + 1, count) if (doc_id, other) in edges and other not in owners
        }
    return owners


@pytest.mark.parametrize("seed", range(6 if PROFILE == "full" else 3))
def test_it_finds_what_comparing_all_with_all_finds(seed):
    vectors, texts = draw(seed)
    documents = [*zip(vectors, texts, strict=True)]
    judged = {(a, b): is_edge(documents[a], documents[b]) for b in range(len(texts)) for a in range(b)}

    engine = TinyEngine([*enumerate(texts)], seed=seed, partitions=1 + seed % 3, vectors=vectors)
    found = make_layer().find(engine)

    edges = settle(documents, judged)
    told = {(row["left_id"], row["right_id"]): row["cosine"] for row in found.cosines.to_pylist()}
    assert {*told} == edges
    for (a, b), value in told.items():
        assert value == pytest.approx(cosine(vectors[a], vectors[b]), abs=1e-12)
    gone = {row["id"]: row["representative_id"] for row in found.removals.to_pylist()}
    assert gone == elect(len(texts), edges)
    assert found.details["guards"] == {
        guard: sum(guard in parting for _, parting in judged.values()) for guard in GUARDS
    }
    assert found.details["parted_by_guards"] == sum(bool(parting) for _, parting in judged.values())
    assert {row["jaccard"] for row in found.removals.to_pylist()} <= {None}


def make_families(seed, count, dimensions, spread):
    chance = np.random.default_rng(seed)
    centres = chance.normal(size=(count // 3, dimensions))
    return (
        centres[chance.integers(0, len(centres), count)] + spread * chance.normal(size=(count, dimensions))
    ).tolist()


def test_cells_find_near_neighbours_and_say_how_many(monkeypatch):
    monkeypatch.setattr(cells, "ONE_CELL", 100)
    monkeypatch.setattr(cells, "PART_BYTES", 1 << 15)
    vectors = make_families(1, 900 if PROFILE == "full" else 600, 16, 0.15)
    documents = [*enumerate("to be" for _ in vectors)]

    found = [
        make_layer().find(TinyEngine(documents, seed=seed, size=500, partitions=1 + seed, vectors=vectors))
        for seed in range(2)
    ]

    told = [
        sorted((row["left_id"], row["right_id"], row["cosine"]) for row in each.cosines.to_pylist()) for each in found
    ]
    assert told[0] == told[1]
    assert found[0].details == found[1].details
    matrix = np.array(vectors, np.float32).astype(float)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    near = np.argwhere(np.triu(matrix @ matrix.T >= THRESHOLD, 1))
    assert len(near) > len(vectors) / 3
    assert len({pair[:2] for pair in told[0]} & {*map(tuple, near.tolist())}) >= 0.99 * len(near)
    search = found[0].details["search"]
    assert search["cells"] > 1
    assert search["recall"] >= 0.99
    assert search["pairs"] > 20


@pytest.mark.parametrize(
    ("met", "count"),
    # Of nine pairs the usual; of ten what would leave out one of 200; of a thousand what leaves out no more of these.
    [([1] * 9, 8), ([1] * 6 + [2] * 3 + [3], 7), ([1] * 985 + [9] * 15, 9), ([1] * 10, 2), ([1] * 90 + [25] * 10, 24)],
)
def test_few_pairs_that_meet_ask_for_more_cells_than_they_meet_in(met, count):
    assert cells.choose_count(np.array(met), 24) == count


def test_many_copies_of_a_vector_are_no_square_of_edges():
    documents = [*enumerate("to be" for _ in range(60))]

    found = make_layer(most=5).find(TinyEngine(documents, size=100, vectors=[[1.0, 2.0]] * 60))

    pairs = sum(min(5, 59 - place) for place in range(60))
    assert found.details["edges"] == pairs
    # Those of the first are told as well, for which all others go.
    assert found.cosines.num_rows == pairs + 59 - 5
    assert found.details["uncompared"] == {"pairs_at_most": 60 * 59 // 2 - pairs}


def test_of_many_copies_one_stays_whichever_the_order_puts_first():
    # Nearly all that those of the second text are compared with differ from them.
    documents = [(f"{number:02}", "not to be" if number % 20 == 1 else "to be") for number in range(60)]

    found = make_layer(most=5).find(TinyEngine(documents, pa.string(), size=100, vectors=[[1.0, 2.0]] * 60))

    gone = {row["id"]: row["representative_id"] for row in found.removals.to_pylist()}
    assert gone == {f"{number:02}": "01" if number % 20 == 1 else "00" for number in range(2, 60)}
    told = {frozenset((row["left_id"], row["right_id"])): row["cosine"] for row in found.cosines.to_pylist()}
    named = [name for name, _ in documents]
    doc_ids = dict(zip(named, to_doc_ids(pa.array(named)).tolist(), strict=True))
    assert {told[frozenset((doc_ids[one], doc_ids[other]))] for one, other in gone.items()} == {1.0}


def test_copies_of_two_texts_are_held_against_each_other_once(monkeypatch):
    calls = []
    monkeypatch.setattr(verification, "are_exchanged", lambda *texts: calls.append(texts) or are_exchanged(*texts))
    texts = ["the plan for a bridge was approved", "approval came for a bridge that is new"]
    documents = [(number, texts[number % 2]) for number in range(60)]

    found = make_layer().find(TinyEngine(documents, size=100, vectors=[[1.0, 2.0]] * 60))

    assert found.cosines.num_rows == 60 * 59 // 2
    assert len(calls) < 60


FAULTS = [
    (
        [[1.0, 2.0], [math.nan, 1.0], None, [math.inf, 2.0]],
        "NaN or infinity in document 1, NaN or infinity in document 3",
    ),
    ([[1.0, 2.0], [0.0, 0.0]], "zeros alone in document 1"),
    ([[1.0, 2.0], [1.0, 2.0], [1.0]], "length 1 in document 2"),
    ([[1.0, None]], "NaN or infinity in document 0"),
]


@pytest.mark.parametrize(("vectors", "said"), FAULTS)
def test_vectors_that_are_none_are_named_before_any_search(vectors, said):
    engine = TinyEngine([*enumerate("abcd"[: len(vectors)])], vectors=vectors)

    with pytest.raises(DataError, match=r"semantic\.vector_column: vectors must have one length") as raised:
        make_layer().find(engine)

    assert f"(got {said})" in str(raised.value)
    assert [*engine.counted] == ["vectors"]


@pytest.mark.parametrize("vectors", [[None, None], [[1.0], None], [[1.0], []]])
def test_documents_without_a_vector_match_nothing(vectors):
    found = make_layer().find(TinyEngine([(0, "a"), (1, "a")], vectors=vectors))

    assert found.documents.num_rows == 2
    assert found.removals.num_rows == 0


calls = []


def encode(texts):
    """Return vectors of texts by their vowels."""
    calls.append(texts)
    return [[text.count(each) + 0.1 for each in "aeiou"] for text in texts]


def encode_wrongly(texts):
    return [[1.0]] * (len(texts) + 1)


def encode_raggedly(texts):
    return [[1.0, [2.0]] for _ in texts]


def encode_to_words(texts):
    return [["one", "two"] for _ in texts]


def encode_to_zeros(texts):
    return [[0.0, 0.0] for _ in texts]


def test_a_function_encodes_texts_and_empty_ones_have_no_vector():
    calls.clear()
    layer = replace(make_layer(), settings=Semantic(encoder=f"{__name__}:encode", threshold=THRESHOLD))
    texts = ["banana is in a van", "a van is in banana", "you do", "", " ", None]

    found = layer.find(TinyEngine([*enumerate(texts)], size=4))

    assert "" not in {text for each in calls for text in each}
    assert found.details["vectors"] == 3
    assert found.details["dimensions"] == 5
    assert found.details["guards"]["wording"] == 1
    with pytest.raises(DataError, match="must return a row for each text"):
        replace(layer, settings=Semantic(encoder=f"{__name__}:encode_wrongly", threshold=1.0)).find(
            TinyEngine([(0, "a")])
        )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("encode_raggedly", r"encode_raggedly must return rows of numbers, all of one length \("),
        ("encode_to_words", r"encode_to_words must return rows of numbers, all of one length \("),
        ("encode_to_zeros", r"vectors must have one length, .* zero \(got zeros alone in document 0, .* document 1\)$"),
    ],
)
def test_faults_of_an_encoder_are_told_by_its_name(function, said):
    layer = replace(make_layer(), settings=Semantic(encoder=f"{__name__}:{function}", threshold=1.0))

    with pytest.raises(DataError, match=r"^semantic\.encoder: .*" + said):
        layer.find(TinyEngine([(0, "a"), (1, "b")]))


def test_vectors_learned_from_the_corpus_are_those_of_any_partitioning(monkeypatch):
    monkeypatch.setattr(encoding, "SAMPLE", 40)
    texts = [text for triple in draw_triples(5, 25) for text in (triple.text, triple.paraphrase)]
    layer = replace(make_layer(), settings=Semantic(threshold=0.4), labels=None)

    found = [layer.find(TinyEngine([*enumerate(texts)], seed=seed, partitions=1 + seed)) for seed in range(RUNS)]

    told = [sorted(tuple(row.values()) for row in each.cosines.to_pylist()) for each in found]
    assert told == told[:1] * RUNS
    assert len(told[0]) > 10
    assert [each.details for each in found] == [found[0].details] * RUNS


def test_a_check_lists_removals_of_earlier_layers_whose_vectors_disagree():
    texts = ["a b c d"] * 4 + [f"text {n}" for n in range(40)]
    vectors = [[1.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 1.0, 0.0], None, *draw(3, 40, 3)[0]]
    removals = pa.table(
        [[1, 2, 3], [1, 2, 3], *([["near"] * 3] * 2), [0] * 3, [0] * 3, [1.0] * 3], schema=arrow.removals(pa.int64())
    )
    layer = replace(make_layer(), settings=Semantic(vector_column="v", action="check", threshold=0.8))

    for seed in range(3):
        engine = TinyEngine([*enumerate(texts)], seed=seed, partitions=1 + seed, vectors=vectors)
        found = layer.review(engine, removals)

        assert [*map(tuple, (row.values() for row in found.cosines.to_pylist()))] == [(0, 2, "disagreeing", 0.0)]
        assert found.removals is None
        told = {name: found.details[name] for name in ("removals", "removals_compared", "disagreeing")}
        assert told == {"removals": 3, "removals_compared": 2, "disagreeing": 1}


TEXTS = {
    "a": "The council of Bern approved the plan for the bridge.",
    "b": "For the bridge, approval of the plan came from the council of Bern.",
    "c": "The council of Bern did not approve the plan for the bridge.",
    "d": "The council of Bern approved the plan for the tunnel.",
    "e": "Cheese is made from milk.",
}
VECTORS = {"a": [3, 1, 0], "b": [3, 1.1, 0], "c": [3, 1, 0], "d": [3, 0.9, 0], "e": [0, 0, 1]}


def make_job(folder, output, kind="parquet", **settings):
    source = folder / kind
    source.mkdir(exist_ok=True)
    listed = [{"id": each, "text": TEXTS[each], "v": [float(value) for value in VECTORS[each]]} for each in TEXTS]
    for number in range(2):
        some = listed[number::2]
        if kind == "jsonl":
            (source / f"{number}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in some))
            continue
        values = pa.array([row["v"] for row in some], pa.list_(pa.float64()))
        if kind == "fixed":
            values = values.cast(pa.list_(pa.float32(), 3))
        elif kind == "decimal":
            values = values.cast(pa.list_(pa.decimal128(18, 12)))
        elif kind == "binary":
            values = pa.array([np.array(row["v"], "<f4").tobytes() for row in some], pa.binary())
        columns = {name: [row[name] for row in some] for name in ("id", "text")}
        pq.write_table(pa.table(columns | {"v": values}), source / f"{number}.parquet")
    given = {
        "input.id_column": "id",
        "layers": ["near", "semantic"],
        "semantic.vector_column": "v",
        "semantic.threshold": 0.95,
    }
    return Job(inputs=[str(source)], output=str(folder / output), config=load_config(settings=given | settings))


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "fixed", "decimal", "binary"])
def test_vectors_are_read_in_every_form(tmp_path, kind):
    report = run_in_memory(make_job(tmp_path, "out", kind))

    gone = pq.read_table(tmp_path / "out" / "duplicates").select(
        ["id", "layer", "kind", "representative_id", "jaccard"]
    )
    assert gone.to_pylist() == [
        {"id": "b", "layer": "semantic", "kind": "semantic", "representative_id": "a", "jaccard": None}
    ]
    # Of the bridge and the tunnel b is nearer to the first, so it is no edge of the second.
    [row] = pq.read_table(tmp_path / "out" / "cosines").to_pylist()
    assert [*row.values()][:3] == ["a", "b", "semantic"]
    assert row["cosine"] == pytest.approx(10.1 / math.sqrt(10 * 10.21))
    assert report["layers"][1]["removed"] == 1
    details = report["layers"][1]["details"]
    assert details["parted_by_neighbours"] == 1
    assert details["guards"] | {"negations": 3, "wording": 2} == details["guards"]
    assert "parted by guards" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("given", ["files", pytest.param("table", marks=pytest.mark.full)])
def test_spark_writes_the_same(spark, tmp_path, given):
    alone = {"layers": ["semantic"], "driver.search_bytes": 0}
    run_in_memory(make_job(tmp_path, "memory", **alone))
    table = {"table": spark.read.parquet(str(tmp_path / "parquet")), "inputs": []} if given == "table" else {}
    report = run(spark, replace(make_job(tmp_path, "spark", **alone), **table))

    assert report["search"] == "tasks"
    for name in ("duplicates", "cosines", "kept"):
        assert rows(str(tmp_path / "spark"), name) == rows(str(tmp_path / "memory"), name)


@pytest.mark.full
def test_it_goes_on_where_it_stopped(spark, tmp_path, monkeypatch):
    alone = {"layers": ["semantic"], "driver.search_bytes": 0}
    run_in_memory(make_job(tmp_path, "memory", **alone))
    job = make_job(tmp_path, "spark", **alone)
    with monkeypatch.context() as patch:
        patch.setattr("dedup.layers.semantic.electing.find_members", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(spark, job)
    run(spark, job)

    for name in ("duplicates", "cosines", "kept"):
        assert rows(str(tmp_path / "spark"), name) == rows(str(tmp_path / "memory"), name)


def test_a_removal_is_explained_by_its_cosine(tmp_path, capsys):
    run_in_memory(make_job(tmp_path, "out"))

    assert explain_cli.main([str(tmp_path / "out"), "--id", "b"]) == 0

    said = capsys.readouterr().out
    assert "layer semantic: cosine 0.9996" in said
    assert "Bern" in said


def test_a_run_with_a_check_removes_what_one_without_the_layer_does(tmp_path):
    settings = {"threshold": 0.2, "shingles.shingle_size": 1, "semantic.threshold": 0.9, "semantic.action": "check"}
    report = run_in_memory(make_job(tmp_path, "out", **settings))
    run_in_memory(make_job(tmp_path, "near", **settings | {"layers": ["near"], "semantic.action": "remove"}))

    assert rows(str(tmp_path / "out"), "duplicates") == rows(str(tmp_path / "near"), "duplicates")
    assert report["layers"][1]["removed"] == 0
    assert report["layers"][1]["details"]["removals"] >= 3
    # The cheese, if it is another's copy at so low a threshold, is none by its vector.
    disagreeing = pq.read_table(tmp_path / "out" / "cosines").to_pylist()
    assert {row["kind"] for row in disagreeing} <= {"disagreeing"}
    assert len(disagreeing) == report["layers"][1]["details"]["disagreeing"]


def test_several_of_a_cluster_stay_as_of_those_of_near(tmp_path):
    report = run_in_memory(make_job(tmp_path, "out", **{"keep.copies": 2}))

    assert [layer["removed"] for layer in report["layers"]] == [0, 0]


def test_components_that_the_limit_takes_apart_are_counted(tmp_path):
    settings = {"semantic.linkage": "component"}
    counted = [
        run_in_memory(make_job(tmp_path, f"out{most}", **settings, **{"cluster.max_component": most}))["layers"][1]
        for most in (0, 1)
    ]

    assert [layer["details"]["relinked"] for layer in counted] == [0, 1]


def test_texts_share_as_many_words_as_is_asked():
    texts = ["to run is walking", "walking is to run away from", "green houses", "a"]
    vectors = [[1.0, 0.1 * place] for place in range(4)]

    # The first two share four words of six.
    for share, edges in ((0.0, 6), (0.6, 1), (0.7, 0)):
        found = make_layer(overlap=share, guards=("quotes",)).find(TinyEngine([*enumerate(texts)], vectors=vectors))
        assert found.cosines.num_rows == edges
        assert found.details["guards"] == {"quotes": 0} | ({"overlap": 6 - edges} if share else {})


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"semantic.vector_column": "", "semantic.encoder": "none"}, ConfigError, 'must be "corpus" or a function'),
        ({"semantic.vector_column": "", "semantic.encoder": "math:nothing"}, ConfigError, "math:nothing.*no attribute"),
        (
            {"semantic.vector_column": "", "semantic.encoder": "math:pi"},
            ConfigError,
            '"math:pi", which is none',
        ),
        ({"semantic.action": "check", "layers": ["semantic"]}, ConfigError, '"check" needs a layer before'),
        (
            {"semantic.vector_column": "text"},
            SchemaError,
            "semantic.vector_column: column 'text' must be a list of numbers",
        ),
        ({"semantic.vector_column": "w"}, SchemaError, "semantic.vector_column: must be the name of one column"),
    ],
)
def test_settings_that_do_not_serve_are_refused(tmp_path, settings, error, said):
    with pytest.raises(error, match=said):
        run_in_memory(make_job(tmp_path, "out", **settings))

"""How much of each corpus is in each other by their sketches, beside exact counts."""

import json
import shutil
from itertools import product
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.cli import overlap as cli
from dedup.cli import run as run_cli
from dedup.cli import store as store_cli
from dedup.errors import ConfigError, StorageError
from dedup.kernels.sets import sketch
from dedup.run.local import run_in_memory
from dedup.run.sketches import estimate_overlaps
from tests.oracles import shingle_set
from tests.test_pipeline import make_job, make_texts

TEXTS = [*make_texts(11, originals=8, copies=4), "", "short one"]


def write(folder: Path, name: str, texts: list[str], first: int = 0) -> str:
    """Write texts of three sources, None among them."""
    table = {
        "id": [*range(first, first + len(texts))],
        "text": texts,
        "site": [(None, "a", "b")[len(text) % 3] for text in texts],
    }
    pq.write_table(pa.table(table), folder / f"{name}.parquet")
    return str(folder / f"{name}.parquet")


def make(folder: Path, name: str, texts: list[str], *overrides: str) -> dict[str | None, set]:
    """Run, and return the shingles of each source."""
    job = make_job(write(folder, name, texts), str(folder / name), "input.source_column=site", *overrides)
    run_in_memory(job)
    found: dict[str | None, set] = {}
    for text in texts:
        found.setdefault((None, "a", "b")[len(text) % 3], set()).update(shingle_set(text, 5))
    return found


def assert_counted(matrix: list[dict], sets: dict[str, set]) -> None:
    """Compare with exact counts, which have no error."""
    assert [(cell["snapshot"], cell["of"]) for cell in matrix] == [*product(sets, repeat=2)]
    for cell in matrix:
        one, other = sets[cell["snapshot"]], sets[cell["of"]]
        told = [cell[name] for name in ("shingles", "union", "jaccard", "share")]
        assert told == [len(one), len(one | other), len(one & other) / len(one | other), len(one & other) / len(one)]
        assert [cell[f"{name}_error"] for name in ("shingles", "union", "jaccard", "share")] == [0] * 4


def test_small_corpora_and_their_sources_are_counted_exactly(tmp_path, capsys):
    sides = {name: make(tmp_path, name, TEXTS[begin:]) for name, begin in (("one", 0), ("other", 10))}
    paths = [str(tmp_path / name) for name in sides]
    sets = {name: set().union(*own.values()) for name, own in sides.items()}

    assert cli.main([*paths, "--json", "--output", str(tmp_path / "page")]) == 0
    matrix = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert_counted(matrix, sets)
    assert json.loads((tmp_path / "page/matrix.json").read_text()) == matrix
    share = f"{len(sets['one'] & sets['other']) / len(sets['one']):.2%}"
    assert f">{share}</td>" in (tmp_path / "page/matrix.html").read_text()
    by_source = {
        f"{name}/{source or '(none)'}": own for name, found in sides.items() for source, own in found.items() if own
    }
    found = estimate_overlaps(paths, by_source=True)
    assert_counted(
        sorted(found, key=lambda cell: [[*by_source].index(cell[end]) for end in ("snapshot", "of")]), by_source
    )
    # Sketches that lie together are one, which is that of all documents.
    (tmp_path / "both").mkdir()
    for name in sides:
        [file] = (tmp_path / name / "sketch").glob("*.parquet")
        shutil.copy(file, tmp_path / "both" / f"{name}.parquet")
    assert_counted(estimate_overlaps([str(tmp_path / "both")]), {"both": sets["one"] | sets["other"]})
    assert cli.main(paths) == 0
    assert f"{len(sets['one'] | sets['other']):,}" in capsys.readouterr().out


def test_no_source_is_another_than_one_that_is_called_so(tmp_path):
    text = "one two three four five six"
    rows = {"id": [1, 2, 3], "text": [text, f"{text} seven", f"{text} seven eight"], "site": [None, "(none)", "a"]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    run_in_memory(make_job(str(tmp_path / "a.parquet"), str(tmp_path / "a"), "input.source_column=site"))

    found = estimate_overlaps([str(tmp_path / "a")], by_source=True)

    own = {cell["snapshot"]: cell["shingles"] for cell in found if cell["snapshot"] == cell["of"]}
    assert own == {"a/((none))": 2, "a/(none)": 3, "a/a": 4}


def test_a_sample_of_a_corpus_is_near_its_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(sketch, "KEPT", 256)
    sides = {name: make(tmp_path, name, TEXTS[begin:]) for name, begin in (("one", 0), ("other", 10))}
    one, other = (set().union(*own.values()) for own in sides.values())

    cell = estimate_overlaps([str(tmp_path / name) for name in sides])[1]

    exact = {"shingles": len(one), "union": len(one | other), "jaccard": len(one & other) / len(one | other)}
    for name, count in exact.items():
        assert 0 < abs(cell[name] - count) < 4 * cell[f"{name}_error"]


def test_a_store_is_sketched_from_its_sets_batch_by_batch(tmp_path):
    chance = Random(1)
    batches = {name: chance.sample(TEXTS, 15) for name in ("x", "y")}
    for place, (name, texts) in enumerate(batches.items()):
        source = write(tmp_path, name, texts, 100 * place)
        arguments = ["--input", source, "--output", str(tmp_path / name), "--store", str(tmp_path / "store")]
        assert run_cli.main([*arguments, "--batch", name, "--id-column", "id"]) == 0
    (tmp_path / "gone").write_text("0\n1\n")
    assert store_cli.main(["delete", str(tmp_path / "store"), "--ids", str(tmp_path / "gone")]) == 0

    left = {"x": batches["x"][2:], "y": batches["y"]}
    sets = {name: set().union(*(shingle_set(text, 5) for text in texts)) for name, texts in left.items()}
    store = str(tmp_path / "store")
    assert_counted(estimate_overlaps([store]), {"store": sets["x"] | sets["y"]})
    by_batch = {f"s/{name}": own for name, own in sets.items()}
    found = sorted(estimate_overlaps([f"s={store}"], by_source=True), key=lambda cell: (cell["snapshot"], cell["of"]))
    assert_counted(found, by_batch)


def test_what_cannot_be_compared_is_refused(tmp_path):
    make(tmp_path, "one", TEXTS)
    make(tmp_path, "other", TEXTS, "shingles.shingle_size=3", "lsh.bands=5")
    make(tmp_path, "same", TEXTS, "lsh.bands=5", "seed=1")
    make(tmp_path, "exact", TEXTS, "layers=['exact']")
    one = str(tmp_path / "one")

    assert estimate_overlaps([one, str(tmp_path / "same")])[1]["jaccard"] == 1
    with pytest.raises(ConfigError, match=r"shingle_size of other must be 5, as in the first corpus .got 3"):
        estimate_overlaps([one, str(tmp_path / "other")])
    with pytest.raises(StorageError, match=r"exact must be an output, a store, or a sketch .it has no sketch"):
        estimate_overlaps([str(tmp_path / "exact")])
    (tmp_path / "words.jsonl").write_text("{}", "utf-8")
    with pytest.raises(StorageError, match=r"words.jsonl must be an output, a store, or a sketch .it has no sketch"):
        estimate_overlaps([f"{tmp_path}/words.jsonl"])
    with pytest.raises(StorageError, match=r"one.parquet must be .*it has columns of others"):
        estimate_overlaps([f"{one}.parquet"])
    with pytest.raises(StorageError, match="must not exist yet"):
        estimate_overlaps([one], output=one)
    with pytest.raises(ConfigError, match="overlap: snapshots must have names of their own"):
        estimate_overlaps([one, one])


def test_a_damaged_sketch_is_named(tmp_path, capsys):
    make(tmp_path, "one", TEXTS)
    [file] = (tmp_path / "one" / "sketch").glob("*.parquet")
    content = file.read_bytes()
    for cut in (0, 100, len(content) - 20):
        file.write_bytes(content[:cut])
        assert cli.main([str(tmp_path / "one")]) == 2
        [said] = capsys.readouterr().err.splitlines()
        assert f"dedup: {file}: must be as the run has left it (" in said

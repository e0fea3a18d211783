"""How much of each snapshot is in each other."""

import json
from dataclasses import replace
from itertools import product
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup.cli import compare as cli
from dedup.errors import ConfigError
from dedup.run.comparing import name_snapshots
from dedup.store.comparing import compare
from dedup.store.snapshot import Snapshot
from dedup.store.tables import Tables
from tests.conftest import PROFILE
from tests.engine import SEARCH, Row
from tests.oracles import jaccard, shingle_set
from tests.store import add
from tests.test_pipeline import make_texts

SURE = replace(SEARCH, bands=60, rows=3)
"""Finds every pair of these texts."""
TEXT = "one two three four five six seven eight nine ten"


def expect(snapshots: dict[str, list[Row]]) -> dict[tuple[str, str], dict[int, float]]:
    """Compare all with all: of every two snapshots the documents found, and their greatest similarity."""
    sets = {id(row): shingle_set(row.text, 5) for rows in snapshots.values() for row in rows}
    found = {}
    for one, other in product(snapshots, repeat=2):
        best = {}
        for row, held in product(snapshots[one], snapshots[other]):
            if row is not held and sets[id(row)] and sets[id(held)]:
                exact = float(jaccard(sets[id(row)], sets[id(held)]))
                if exact >= SEARCH.threshold:
                    best[row.id] = max(best.get(row.id, 0), exact)
        found[one, other] = best
    return found


def tell(found) -> dict[tuple[str, str], dict[int, float]]:
    told = {(cell["snapshot"], cell["of"]): {} for cell in found.matrix}
    for row in found.duplicates.to_pylist():
        told[row["snapshot"], row["of"]][int(row["id"])] = row["jaccard"]
    assert {(cell["snapshot"], cell["of"]): cell["found"] for cell in found.matrix} == {
        pair: len(ids) for pair, ids in told.items()
    }
    return told


@pytest.mark.parametrize("seed", range(3 if PROFILE == "full" else 1))
def test_what_is_found_of_batches_and_of_stores_is_what_all_pairs_say(tmp_path, seed):
    texts = [*make_texts(seed, originals=6, copies=4), "", ""]
    chance = Random(seed)
    # The same ids in all snapshots, as of pages that are crawled again.
    snapshots = {name: [Row(number, text) for number, text in enumerate(chance.sample(texts, 14))] for name in "abc"}
    stores = {name: Tables(str(tmp_path / name)) for name in snapshots}
    for name, rows in snapshots.items():
        add(stores[name], "all", rows, SURE)
    found = compare({name: Snapshot.open(tables) for name, tables in stores.items()})
    assert tell(found) == expect(snapshots)
    assert [cell["documents"] for cell in found.matrix] == [14] * 9

    batches = {
        name: [Row(100 * place + row.id, row.text) for row in rows]
        for place, (name, rows) in enumerate(snapshots.items())
    }
    tables = Tables(str(tmp_path / "one"))
    for name, rows in batches.items():
        add(tables, name, rows, SURE)
    assert tell(compare({"x": Snapshot.open(tables)})) == expect(batches)
    both = tell(compare({"x": Snapshot.open(tables), "a": Snapshot.open(stores["a"])}))
    assert both == expect({**{f"x/{name}": rows for name, rows in batches.items()}, "a": snapshots["a"]})


def test_the_other_that_is_told_resembles_most(tmp_path):
    one, other = (Tables(str(tmp_path / name)) for name in ("one", "other"))
    add(one, "a", [Row(1, TEXT)], SEARCH)
    add(other, "b", [Row(3, f"{TEXT} eleven"), Row(4, TEXT), Row(5, TEXT)], SEARCH)

    rows = compare({"new": Snapshot.open(one), "old": Snapshot.open(other)}).duplicates.to_pylist()
    assert rows[0] == {"snapshot": "new", "id": "1", "of": "old", "other_id": "4", "jaccard": 1.0}
    assert [(row["id"], row["of"], row["other_id"]) for row in rows[1:]] == [
        ("3", "new", "1"),
        ("4", "new", "1"),
        ("5", "new", "1"),
        ("3", "old", "4"),
        ("4", "old", "5"),
        ("5", "old", "4"),
    ]


def test_documents_in_full_buckets_that_are_not_found_are_counted_as_unsure(tmp_path):
    search = replace(SEARCH, max_bucket=2, bands=2, rows=1)
    words = [f"w{number}" for number in range(60)]
    # 49 of 64 shingles shared with the document asked for: enough to fill its buckets, too little for duplicates.
    crowd = [
        Row(number, " ".join([*words[:53], *(f"x{number}y{place}" for place in range(7))])) for number in range(12)
    ]
    one, other = [Row(1, " ".join([*words, "last"]))], [*crowd, Row(99, " ".join([*words, "other"]))]
    stores = {name: Tables(str(tmp_path / name)) for name in "ab"}
    add(stores["a"], "", [*one, Row(2, "nothing of the kind here at all")], search)
    add(stores["b"], "", other, search)

    matrix = compare({name: Snapshot.open(tables) for name, tables in stores.items()}).matrix
    found = {(cell["snapshot"], cell["of"]): (cell["found"], cell["unsure"]) for cell in matrix}
    assert found == {("a", "a"): (0, 0), ("a", "b"): (0, 1), ("b", "a"): (0, 13), ("b", "b"): (0, 13)}
    assert [len(best) for best in expect({"a": one, "b": other}).values()] == [0, 1, 1, 0]


def write(path, texts):
    pq.write_table(pa.table({"id": list(texts), "text": list(texts.values())}), path)
    return str(path)


def test_files_and_stores_are_compared_by_the_command_and_stay_as_they_are(tmp_path, capsys):
    new = write(tmp_path / "new.parquet", {1: TEXT, 2: "other words that nobody else has at all", 3: ""})
    old = write(tmp_path / "old.parquet", {1: f"{TEXT} eleven", 2: TEXT})
    output = tmp_path / "out"
    arguments = ["--against", new, "--against", f"last <month>={old}", "--id-column", "id"]
    assert cli.main([*arguments, "--output", str(output)]) == 0

    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()[:3]] == [
        "snapshot",
        "new.parquet",
        "last <month>",
    ]
    matrix = json.loads((output / "matrix.json").read_text())
    assert [(cell["snapshot"], cell["of"], cell["found"], cell["documents"]) for cell in matrix] == [
        ("new.parquet", "new.parquet", 0, 3),
        ("new.parquet", "last <month>", 1, 3),
        ("last <month>", "new.parquet", 2, 2),
        ("last <month>", "last <month>", 2, 2),
    ]
    assert pq.read_table(output / "duplicates").num_rows == 5
    page = (output / "matrix.html").read_text()
    assert "in last &lt;month&gt;" in page
    assert "<month>" not in page
    assert "70.0%)" in page
    assert cli.main([*arguments, "--output", str(output)]) == 2
    assert "must not exist yet" in capsys.readouterr().err
    (output / "batches" / "_delta_log").mkdir(parents=True)
    assert cli.main([*arguments, "--output", str(output / "inner")]) == 2
    assert "must lie outside of every store" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.parquet", "old.parquet", "out"]


def test_batches_of_a_store_are_compared_by_the_command(tmp_path, capsys, caplog):
    tables = Tables(str(tmp_path / "one"))
    add(tables, "a", [Row(1, TEXT), Row(2, TEXT), Row(3, "other words that nobody else has"), Row(4, "")], SEARCH)
    add(tables, "b", [Row(5, f"{TEXT} eleven"), Row(6, "")], SEARCH)
    assert cli.main(["--against", tables.path]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["snapshot", "documents", "in", "a", "in", "b"],
        ["a", "4", "50.0%", "50.0%"],
        ["b", "2", "50.0%", "0.0%"],
    ]
    for given, words in (
        (["--threshold", "0.7"], "threshold must be 0.8, as in the store (got 0.7)"),
        (["--shingle-size", "3"], "shingle_size must be 5, as in the store (got 3)"),
        (["--set", "lsh.bands=4"], "bands must be 21, as in the store (got 4)"),
    ):
        assert cli.main(["--against", tables.path, *given]) == 2
        assert f"--against one: {words}" in capsys.readouterr().err
    assert cli.main(["--against", tables.path, "--id-column", "id", "--format", "csv"]) == 0
    assert "input.format, input.id_column: changes nothing where stores alone are compared" in caplog.text
    path = write(tmp_path / "x.parquet", {1: TEXT})
    arguments = ["--against", tables.path, "--against", path, "--id-column", "id"]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["x.parquet", "1", "100.0%", "100.0%", "0.0%"]
    assert cli.main([*arguments, "--set", "input.table=pages"]) == 2
    assert "input.table: must be empty, as --against names what is compared" in capsys.readouterr().err
    assert cli.main([*arguments, "--set", "lsh.bands=30", "--set", "lsh.rows=6"]) == 2
    assert "hash specification: bands must be 21, as in the first snapshot (got 30)" in capsys.readouterr().err
    assert cli.main([*arguments, "--set", "threshold=0.7", "--set", "lsh.bands=21", "--set", "lsh.rows=6"]) == 2
    assert "threshold must be 0.8, as in the first snapshot (got 0.7)" in capsys.readouterr().err


def test_a_snapshot_that_is_not_there_is_refused_before_another_is_read(tmp_path, capsys):
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"no parquet")
    arguments = ["--against", str(torn), "--against", str(tmp_path / "gone.parquet"), "--id-column", "id"]

    assert cli.main(arguments) == 2
    assert capsys.readouterr().err.startswith("dedup: --against gone.parquet: ")


def test_snapshots_are_named_by_the_user_or_by_their_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "date=2026-11").mkdir()
    given = ["a/b", "s3://x/date=2026-10", "old=c/d=e", "date=2026-11"]
    assert name_snapshots(given) == {
        "b": "a/b",
        "date=2026-10": "s3://x/date=2026-10",
        "old": "c/d=e",
        "date=2026-11": "date=2026-11",
    }
    with pytest.raises(ConfigError, match=r"'b' twice\): give NAME=PATH"):
        name_snapshots(["a/b", "c/b"])
    for nameless in ("=a", ""):
        with pytest.raises(ConfigError, match=rf"--against: must be PATH or NAME=PATH \(got '{nameless}'\)"):
            name_snapshots([nameless])
    with pytest.raises(ConfigError, match="--against: must be a Unicode string"):
        name_snapshots(["\udcff=a"])

"""Which files are read and as what, and an output that is there whole or not at all."""

import contextlib
import json
import os
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from dedup.engine.table import end
from dedup.errors import DataError, FinishedError, StorageError
from dedup.files.storage import Storage, find_result
from dedup.output.spark_tasks import save
from dedup.run.input import fingerprint, load_table, read_files
from dedup.run.job import Job
from dedup.run.pipeline import run
from dedup.run.storage import HadoopStorage
from dedup.run.tables import WorkspaceTables
from dedup.run.workspace import MARK, Workspace
from dedup.settings.files import load_config
from tests.damage import flip
from tests.engine.tables import settings

IDENTITY = {"version": "1", "settings": {"threshold": 0.8}, "input files": ["a", "b"]}
NUMBERS = T.StructType().add("number", T.LongType())


@pytest.fixture
def storage(spark):
    return HadoopStorage(spark)


@pytest.fixture
def enter(storage):
    """Return a function that makes a workspace, once the run before has ended."""
    with contextlib.ExitStack() as held:

        def make(output):
            held.close()
            return held.enter_context(Workspace(storage, output))

        yield make


def place(folder: Path, *names: str) -> str:
    """Make empty files, and the folders they are in."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return str(folder)


@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv"])
def test_files_that_are_not_there_are_no_table(spark, tmp_path, kind):
    with pytest.raises(StorageError, match=r"must be a table of Spark's catalog \(.*PATH_NOT_FOUND"):
        load_table(spark, f"{kind}.`{tmp_path}/none`")


# A sign in the path above the input makes no partition of what lies in it.
@pytest.mark.parametrize("folder", ["in", "run=5"])
@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_folder_of_folders_is_read_whole(spark, tmp_path, kind, folder):
    place(tmp_path, f"{folder}/a/b.file", f"{folder}/c/d/e.file")
    for file in tmp_path.rglob("*.file"):
        file.write_text("text\nx" if kind == "csv" else '{"text": "x"}')

    assert load_table(spark, f"{kind}.`{tmp_path}/{folder}`").count() == 2


def test_folders_that_are_named_by_a_value_are_a_column(spark, tmp_path):
    for name in ("lang=en", "lang=de"):
        place(tmp_path, f"in/{name}/a.csv")
        (tmp_path / f"in/{name}/a.csv").write_text("text\nx")

    found = load_table(spark, f"CSV.`{tmp_path}/in`")

    assert sorted(map(tuple, found.collect())) == [("x", "de"), ("x", "en")]


def test_a_line_ends_at_a_line_feed_and_the_carriage_return_before_it(spark, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1,\r"text": "a"}\r\n{"id":\r2}\r\n')

    assert [row["id"] for row in load_table(spark, f"json.`{tmp_path}`").collect()] == [1, 2]


def test_malformed_records_of_a_table_end_the_job_by_name(spark, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a"}\n{"id":\n')
    names = {"input.table": f"json.`{tmp_path}/a.jsonl`", "input.id_column": "id"}

    with pytest.raises((DataError, StorageError), match="Malformed records are detected"):
        run(spark, Job(inputs=[], output=f"{tmp_path}/out", config=load_config(settings=names)))


@pytest.mark.parametrize("readers", ["csv", ""], ids=["first version", "second version"])
def test_the_fingerprint_tells_files_that_came_went_or_were_written_again(spark, tmp_path, readers):
    name = f"csv.`{tmp_path}/in`"

    def tell():
        with settings(spark, **{"spark.sql.sources.useV1SourceList": readers}):
            return fingerprint(load_table(spark, name), name)

    place(tmp_path, "in/a.csv", "in/sub/b.csv")
    for file in tmp_path.rglob("*.csv"):
        file.write_text("text\nx")
    first = tell()
    assert tell() == first
    (tmp_path / "in/sub/b.csv").unlink()
    second = tell()
    os.utime(tmp_path / "in/a.csv", (0, 0))
    third = tell()
    (tmp_path / "in/a.csv").write_text("text\nlonger")
    os.utime(tmp_path / "in/a.csv", (0, 0))
    assert len({first, second, third, tell()}) == 4


CELLS = [
    "plain",
    "",
    None,
    'a "quote" and, a comma',
    '"',
    '""',
    "back\\slash",
    'back\\"slash',
    "\\",
    "two\nlines",
    "dos\r\nlines",
    "\n",
    "# no comment",
    "null",
    "007",
    "漢字 é",
]
SPACES = [" leading", "trailing ", "\ttab\t", " ", ' "quoted" ', " two\nlines "]


@pytest.mark.classic
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("cells", [CELLS, SPACES], ids=["cells", "spaces"])
def test_cells_come_back_from_the_output_as_they_were(spark, enter, output, cells, kind):
    table = [(number, cell, cell) for number, cell in enumerate(cells)]
    workspace = enter(output)
    workspace.open(IDENTITY, overwrite=False)
    frame = spark.createDataFrame(table, "id long, `a.b c` string, text string")
    save(frame.write, f"{workspace.result}/kept", kind)
    workspace.publish({})

    found = read_files(spark, HadoopStorage(spark), f"{output}/kept", kind).selectExpr(
        "int(id) AS id", "`a.b c` AS odd", "text"
    )

    if kind == "csv":
        # As Spark reads it, an empty cell is null.
        table = [(number, cell or None, text or None) for number, cell, text in table]
    assert sorted(map(tuple, found.collect())) == table


def test_numbers_in_csv_stay_as_they_are_written(spark, tmp_path):
    (tmp_path / "a.csv").write_text("id,text\n007,x\n1e3,y\n")

    assert load_table(spark, f"csv.`{tmp_path}/a.csv`").collect() == [("007", "x"), ("1e3", "y")]


@pytest.mark.classic
@pytest.mark.parametrize("by_workers", [False, True])
@pytest.mark.parametrize("name", ["out", "out {a,b} [1]*?", "ü 100% a+b"])
def test_a_table_is_there_once_finished_and_the_output_once_published(spark, enter, tmp_path, name, by_workers):
    output = tmp_path / name
    numbers = spark.createDataFrame([(number,) for number in range(5)], NUMBERS)
    workspace = enter(f"{output}/")
    workspace.open(IDENTITY, overwrite=False)

    def keep(*table):
        return WorkspaceTables(spark, workspace, by_workers=by_workers)(*table)

    def crash(*_):
        raise RuntimeError("pulled the plug")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "finish", crash)
        with pytest.raises(RuntimeError, match="pulled"):
            keep("numbers", NUMBERS, partial(end, numbers.limit(2)))
    assert workspace.finished("numbers") is None
    for build in (partial(end, numbers), crash):
        table = keep("numbers", NUMBERS, build)
        assert workspace.finished("numbers")["counts"] == table.tally == {"rows": 5}
        assert sorted(row.number for row in table.frame.collect()) == list(range(5))

    save(numbers.write, f"{workspace.result}/kept", "jsonl")
    assert not output.exists()
    workspace.publish({"report.json": "ünï"})
    assert (output / "report.json").read_text("utf-8") == "ünï"
    assert len(list((output / "kept").glob("*.json"))) > 0
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".crc"} == {name, f"{name}.lock"}


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def shorten(file):
    table = pq.read_table(file)
    pq.write_table(table.slice(0, table.num_rows - 1), file, compression="none")


def rename_column(file):
    pq.write_table(pq.read_table(file).rename_columns(["other"]), file, compression="none")


def without_checksum(harm):
    def both(file):
        harm(file)
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    return both


HARMS = {
    "flipped": flip,
    "flipped unseen": without_checksum(flip),
    "truncated": without_checksum(truncate),
    "rows gone": without_checksum(shorten),
    "another schema": without_checksum(rename_column),
    "file gone": Path.unlink,
}


@pytest.mark.classic
@pytest.mark.parametrize("by_workers", [False, True])
def test_a_damaged_table_is_made_again(spark, enter, output, caplog, by_workers):
    numbers = spark.range(1000).withColumnRenamed("id", "number").coalesce(1)
    workspace = enter(output)
    workspace.open(IDENTITY, overwrite=False)
    made = []

    def build(ending):
        made.append(True)
        return end(numbers, ending)

    for times, harm in enumerate([None, *HARMS.values(), None]):
        if harm:
            [file] = Path(workspace.table("numbers")).glob("[!_]*.parquet")
            harm(file)
        table = WorkspaceTables(spark, workspace, by_workers=by_workers)("numbers", NUMBERS, build)
        assert (table.count, table.frame.count()) == (1000, 1000)
        assert len(made) == min(times, len(HARMS)) + 1
    assert caplog.messages == ["numbers: the table of an earlier try is damaged; it is made again"] * len(HARMS)


@pytest.mark.classic
@pytest.mark.parametrize("by_workers", [False, True])
def test_a_whole_table_whose_columns_hold_no_null_is_not_made_again(spark, enter, output, caplog, by_workers):
    numbers = spark.range(3).select("id", F.array("id").alias("ids"))
    workspace = enter(output)
    workspace.open(IDENTITY, overwrite=False)

    for _ in range(2):
        table = WorkspaceTables(spark, workspace, by_workers=by_workers)(
            "numbers", numbers.schema, partial(end, numbers)
        )

    assert sorted(table.frame.collect()) == [(number, [number]) for number in range(3)]
    assert caplog.messages == []


@pytest.mark.classic
def test_a_table_whose_record_is_of_an_earlier_release_is_made_again(spark, enter, output):
    workspace = enter(output)
    workspace.open(IDENTITY, overwrite=False)
    keep = WorkspaceTables(spark, workspace, by_workers=True)
    workspace.finish("numbers", {"rows": 2})

    table = keep("numbers", NUMBERS, partial(end, spark.range(3).withColumnRenamed("id", "number")))

    assert (table.count, table.frame.count()) == (3, 3)
    with pytest.raises(ValueError, match="must have a name of its own \\(got a second 'numbers'\\)"):
        keep.of("num")("bers", NUMBERS, partial(end, spark.range(3).withColumnRenamed("id", "number")))


@pytest.mark.classic
def test_an_existing_output_is_refused_and_stays(enter, output):
    place(Path(output), "precious")

    with pytest.raises(StorageError, match=r"must not exist yet \(it does\); pass --overwrite"):
        enter(output).open(IDENTITY, overwrite=False)

    assert [path.name for path in Path(output).iterdir()] == ["precious"]
    assert not Path(f"{output}.partial").exists()


@pytest.mark.classic
def test_an_output_to_be_replaced_stays_until_the_new_one_is_whole(enter, output, monkeypatch):
    place(Path(output), "old", MARK)
    workspace = enter(output)
    workspace.open(IDENTITY, overwrite=True)
    steps = []

    def watch(name):
        step = getattr(HadoopStorage, name)

        def watched(storage, *paths):
            there = sorted(path.name for path in Path(output).glob("*")) if Path(output).exists() else None
            steps.append((name, Path(paths[0]).name, there))
            step(storage, *paths)

        monkeypatch.setattr(HadoopStorage, name, watched)

    watch("rename")
    watch("delete")
    workspace.publish({"new": ""})

    whole = ["._DEDUP.crc", "._SUCCESS.crc", ".new.crc", MARK, "_SUCCESS", "new"]
    assert steps == [
        ("rename", "output", [MARK, "old"]),
        ("rename", Path(workspace.result).name, None),
        ("delete", "run.json", whole),
        ("delete", "publishing", whole),
        ("delete", "output.partial", whole),
        ("delete", "old", whole),
        ("delete", "output.replaced", whole),
    ]
    assert {path.name for path in Path(output).parent.glob("[!.]*")} == {"output", "output.lock"}


@pytest.mark.classic
def test_a_rename_never_takes_the_place_of_another(storage, tmp_path):
    place(tmp_path, "source", "target/file")

    with pytest.raises(StorageError, match="target: must be free"):
        storage.rename(f"{tmp_path}/source", f"{tmp_path}/target")
    assert (tmp_path / "source").exists()
    assert (tmp_path / "target" / "file").exists()


def begin(enter, output, identity=IDENTITY):
    """Leave a run that finished one stage, was in the midst of another, and had written some of its result."""
    workspace = enter(output)
    workspace.open(identity, overwrite=False)
    workspace.finish("first", {"rows": 1})
    place(Path(workspace.new_table("second")), "part-0")
    place(Path(workspace.result), "kept/part-0")


@pytest.mark.classic
def test_an_equal_run_goes_on_where_the_other_stopped(enter, output):
    begin(enter, output)

    workspace = enter(output)
    workspace.open(json.loads(json.dumps(IDENTITY)), overwrite=False)

    assert workspace.finished("first") == {"rows": 1}
    assert workspace.finished("second") is None
    # Rows of a result cut short must not be published.
    assert not list(Path(workspace.partial).glob("result-*"))


@pytest.mark.classic
@pytest.mark.parametrize("key", list(IDENTITY))
def test_another_run_is_refused_and_named_until_it_may_overwrite(enter, output, key):
    begin(enter, output)
    other = {**IDENTITY, key: "other"}
    workspace = enter(output)

    with pytest.raises(StorageError, match=f"holds an unfinished run with another {key}") as caught:
        workspace.open(other, overwrite=False)
    assert repr(IDENTITY[key]) in str(caught.value)
    assert Path(f"{workspace.partial}/stages/first.json").exists()

    workspace.open(other, overwrite=True)
    assert workspace.finished("first") is None
    assert not list(Path(workspace.partial).glob("result-*"))
    workspace.finish("first", {"rows": 2})
    workspace = enter(output)
    workspace.open(other, overwrite=False)
    assert workspace.finished("first") == {"rows": 2}


@pytest.mark.classic
def test_a_record_cut_short_by_a_crash_counts_for_nothing(enter, storage, output):
    begin(enter, output)
    workspace = enter(output)

    storage.write_text(f"{workspace.partial}/stages/first.json", "")
    assert workspace.finished("first") is None

    storage.write_text(f"{workspace.partial}/run.json", '{"version')
    workspace.open(IDENTITY, overwrite=False)
    assert workspace.finished("first") is None


def refuse_records(method):
    """Return a method of a storage that gives no record of a run."""

    def refuse(storage, path):
        if path.endswith("/run.json"):
            raise StorageError(f"{path}: must be a path that can be read and written (AWS Error ACCESS_DENIED)")
        return method(storage, path)

    return refuse


def test_a_record_that_a_store_does_not_give_is_no_damaged_one(tmp_path, monkeypatch):
    output = str(tmp_path / "out")
    with Workspace(Storage(), output) as workspace:
        workspace.open(IDENTITY, overwrite=False)
        workspace.finish("first", {"rows": 2})
    with Workspace(Storage(), output) as workspace:
        with monkeypatch.context() as patch:
            patch.setattr(Storage, "read_text", refuse_records(Storage.read_text))
            with pytest.raises(StorageError, match="ACCESS_DENIED"):
                workspace.open(IDENTITY, overwrite=False)
        workspace.open(IDENTITY, overwrite=False)
        assert workspace.finished("first") == {"rows": 2}


def test_a_store_that_is_out_once_the_output_is_whole_fails_no_run(tmp_path, monkeypatch, caplog):
    output = str(tmp_path / "out")
    with Workspace(Storage(), output) as workspace:
        workspace.open(IDENTITY, overwrite=False)
        with monkeypatch.context() as patch:
            patch.setattr(Storage, "exists", refuse_records(Storage.exists))
            workspace.publish({})
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert "temporary files remain" in caplog.text


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_a_signal_once_the_output_is_whole_says_what_it_leaves(tmp_path, monkeypatch, caplog, kind):
    output = str(tmp_path / "out")

    def stop(*_):
        raise kind

    with Workspace(Storage(), output) as workspace:
        workspace.open(IDENTITY, overwrite=False)
        with monkeypatch.context() as patch:
            patch.setattr(Workspace, "discard", stop)
            with pytest.raises(kind):
                workspace.publish({})
    said = "is whole, but temporary files remain; repeat the command to remove them (interrupted)"
    assert caplog.messages == [f"{output}: {said}"]
    with Workspace(Storage(), output) as workspace, pytest.raises(FinishedError):
        workspace.open(IDENTITY, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.classic
@pytest.mark.parametrize("step", ["publish", "discard"])
def test_work_that_was_half_deleted_is_not_taken_up_again(enter, output, monkeypatch, step):
    begin(enter, output)
    workspace = enter(output)
    place(Path(workspace.new_table("first")), "part-0")
    delete = HadoopStorage.delete

    def crash(storage, path):
        if path == workspace.partial:
            delete(storage, f"{path}/stages/first.json")
            raise RuntimeError("pulled the plug")
        delete(storage, path)

    steps = {
        "publish": lambda: (workspace.open(IDENTITY, overwrite=False), workspace.publish({})),
        "discard": lambda: workspace.open({**IDENTITY, "version": "2"}, overwrite=True),
    }
    with monkeypatch.context() as patch:
        patch.setattr(HadoopStorage, "delete", crash)
        with pytest.raises(RuntimeError, match="pulled"):
            steps[step]()

    workspace.open(IDENTITY, overwrite=True)
    assert workspace.finished("first") is None


def test_an_input_that_was_mended_is_read_again(spark, output, tmp_path):
    source = tmp_path / "in.parquet"
    job = Job(inputs=[str(source)], output=output, config=load_config(None, None, ["input.id_column=id"]))
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "text": pa.array([], pa.string())}), source)
    with pytest.raises(DataError, match="must hold at least one document"):
        run(spark, job)

    pq.write_table(pa.table({"id": ["x", "x", "y"], "text": ["a text", "another", "b"]}), source)
    with pytest.raises(DataError, match=r"must be unique \(got 1 repeated ids: 'x' \(2 rows\)\)"):
        run(spark, job)
    pq.write_table(pa.table({"id": [None, "y"], "text": ["an orphan", "b"]}), source)
    with pytest.raises(DataError, match="1 nulls; their texts begin 'an orphan'"):
        run(spark, job)
    assert not Path(output).exists()


@pytest.mark.parametrize("is_object_store", [False, True])
def test_a_run_that_lost_its_lock_leaves_nothing_behind_its_successor(tmp_path, monkeypatch, is_object_store):
    monkeypatch.setattr(Storage, "can_rename", lambda *_: not is_object_store)
    output = str(tmp_path / "out")
    with Workspace(Storage(), output) as held_up:
        held_up.open(IDENTITY, overwrite=False)
        (tmp_path / "out.lock").unlink()
        with Workspace(Storage(), output) as successor:
            successor.open(IDENTITY, overwrite=False)
            place(Path(successor.result), "kept/part-0")
            successor.publish({})
        place(Path(held_up.new_table("first")), "part-0")
        place(Path(held_up.checkpoints), "a")
        with pytest.raises(StorageError, match="must stay this run's"):
            held_up.finish("first", {})

    assert {path.name for path in tmp_path.iterdir()} == {"out"}


def test_tables_of_an_earlier_layout_on_an_object_store_never_pass_for_a_new_run(tmp_path, monkeypatch):
    """As a copy of an output of a disk has it."""
    monkeypatch.setattr(Storage, "can_rename", lambda *_: False)
    output = place(tmp_path / "out", "kept/part-0", "_SUCCESS")
    (tmp_path / "out" / MARK).write_text("{}")
    with Workspace(Storage(), output) as crashed:
        crashed.open(IDENTITY, overwrite=True)

    with (
        Workspace(Storage(), output) as workspace,
        pytest.raises(StorageError, match="must not exist yet"),
    ):
        workspace.open(IDENTITY, overwrite=False)


def test_the_version_before_stays_until_the_next_is_published(tmp_path, monkeypatch):
    monkeypatch.setattr(Storage, "can_rename", lambda *_: False)
    output = str(tmp_path / "out")
    versions = []
    for number in range(3):
        with Workspace(Storage(), output) as workspace:
            workspace.open({**IDENTITY, "version": str(number)}, overwrite=True)
            place(Path(workspace.result), "kept/part-0")
            workspace.publish({})
            versions.append(Path(workspace.result).name)
        # What repeats a finished command publishes nothing.
        with Workspace(Storage(), output) as workspace, pytest.raises(FinishedError):
            workspace.open({**IDENTITY, "version": str(number)}, overwrite=False)
        assert {path.name for path in (tmp_path / "out").glob("version-*")} == set(versions[-2:])
        assert find_result(Storage(), output) == f"{output}/{versions[-1]}"

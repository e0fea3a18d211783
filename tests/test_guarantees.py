"""What every run promises, held on whole jobs of the memory engine, which take milliseconds."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from dedup.errors import AlertError, DataError, DedupError, FinishedError, StorageError
from dedup.files import sink
from dedup.files.formats import records
from dedup.files.storage import Storage
from dedup.kernels.hashing import key_fingerprint
from dedup.layers.near.layer import NearLayer
from dedup.output import file_output
from dedup.run import execution, local, opening, start
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.run.workspace import MARK
from dedup.settings.files import load_config

KEY = "a secret of 24 characters"
WORDS = [f"word{number}" for number in range(60)]
TEXTS = [" ".join(WORDS), " ".join([*WORDS[:-1], "end"]), " ".join(WORDS).upper(), "something else", "", None]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"id": range(len(TEXTS)), "text": TEXTS}), tmp_path / "in" / "a.parquet")
    return tmp_path / "in"


@pytest.fixture
def deduplicate(corpus, output):
    """Return a function that runs the job with these settings."""

    def act(*settings, id_column="id", **options):
        config = load_config(None, None, [f"input.id_column={id_column}", *settings])
        return run_in_memory(Job(inputs=[str(corpus)], output=output, config=config, **options))

    return act


@pytest.fixture
def cut_short(deduplicate, monkeypatch):
    """Leave an unfinished run."""

    def fail(*_, **__):
        raise RuntimeError("pulled the plug")

    with monkeypatch.context() as patch:
        patch.setattr(NearLayer, "find", fail)
        with pytest.raises(RuntimeError, match="pulled"):
            deduplicate()


def ids(output, name):
    return sorted(ds.dataset(Path(output) / name).to_table()["id"].to_pylist())


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


# Rows


def test_kept_and_removed_are_the_input_and_the_report_counts_them(deduplicate, output):
    report = deduplicate("lsh.bands=60", "lsh.rows=3")

    assert (ids(output, "kept"), ids(output, "removed")) == ([0, 3, 4, 5], [1, 2])
    assert report["kept"] + report["identical"] + report["near"] == report["documents"] == len(TEXTS)
    assert (report["identical"], report["near"]) == (1, 1)


def test_documents_that_a_chain_joins_are_identical_or_near_too(corpus, deduplicate):
    chain = [" ".join([*[f"new{n}" for n in range(step)], *WORDS[step:]]) for step in range(0, 12, 2)]
    pq.write_table(pa.table({"id": range(6), "text": chain}), corpus / "a.parquet")
    report = deduplicate("lsh.bands=60", "lsh.rows=3")

    assert report["chained"] > 0
    assert (report["kept"], report["identical"], report["near"]) == (1, 0, 5)


def test_of_equal_rows_one_stays_and_all_go_with_a_duplicate(corpus, deduplicate, output):
    texts = ["twin", "twin", "twin", TEXTS[0], TEXTS[0], TEXTS[1], TEXTS[1]]
    pq.write_table(pa.table({"text": texts}), corpus / "a.parquet")
    report = deduplicate(id_column="")

    kept = ds.dataset(f"{output}/kept").to_table()["text"].to_pylist()
    removed = ds.dataset(f"{output}/removed").to_table()["text"].to_pylist()
    assert sorted(kept + removed) == sorted(texts)
    assert (kept.count("twin"), len(kept), report["kept"], report["removed"]) == (1, 2, 2, 5)


@pytest.mark.parametrize("lost", [0, -1])
def test_rows_that_are_written_and_not_those_found_are_not_published(deduplicate, output, monkeypatch, lost):
    edit = file_output._edit

    def forget(batches, **kwargs):
        for batch in edit(batches, **kwargs):
            yield batch.take(pa.array(np.delete(np.arange(batch.num_rows), lost)))

    monkeypatch.setattr(file_output, "_edit", forget)
    with pytest.raises(DedupError, match=r"must be the 4 and 2 documents found \(got 5 and 1\)"):
        deduplicate()
    assert not Path(output).exists()


def test_an_input_that_changes_while_it_is_read_is_not_published(corpus, deduplicate, output, monkeypatch):
    find = NearLayer.find

    def change(*args, **kwargs):
        pq.write_table(pa.table({"id": [9], "text": ["late"]}), corpus / "late.parquet")
        return find(*args, **kwargs)

    monkeypatch.setattr(NearLayer, "find", change)
    with pytest.raises(DataError, match="must not change while the job reads it"):
        deduplicate()
    assert not Path(output).exists()
    assert not Path(f"{output}.partial").exists()


# Publication


def test_success_is_written_last_once_the_result_has_its_name(deduplicate, output, monkeypatch):
    steps = []
    for name in ("rename", "write_text"):
        step = getattr(Storage, name)

        def watched(storage, path, second, step=step):
            step(storage, path, second)
            if not path.endswith(".lock"):
                steps.append((path.removeprefix(output), Path(output, "report.json").exists()))

        monkeypatch.setattr(Storage, name, watched)
    deduplicate()

    assert steps[-1] == ("/_SUCCESS", True)
    assert [step for step in steps if step[0].endswith("_SUCCESS")] == steps[-1:]
    assert Path(output, "_SUCCESS").exists()


def test_an_output_that_is_replaced_is_there_until_the_new_one_is_whole(deduplicate, output, monkeypatch):
    deduplicate()
    before = content(output)
    rename = Storage.rename

    def crash(storage, source, target):
        if target == output:
            raise StorageError("pulled the plug")
        rename(storage, source, target)

    monkeypatch.setattr(Storage, "rename", crash)
    with pytest.raises(StorageError, match="pulled"):
        deduplicate("threshold=0.7", overwrite=True)

    assert content(f"{output}.replaced") == before


def test_an_existing_output_is_not_overwritten_unasked(deduplicate, output):
    deduplicate()
    before = content(output)

    with pytest.raises(FinishedError, match="is finished"):
        deduplicate()
    with pytest.raises(StorageError, match="must not exist yet"):
        deduplicate("threshold=0.7")
    assert content(output) == before


@pytest.mark.parametrize("name", ["output", "output.partial", "output.replaced"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_without_the_mark_is_refused_and_stays(deduplicate, output, name, overwrite):
    theirs = Path(output).parent / name
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")

    with pytest.raises(StorageError, match=rf"must be missing or a folder that dedup made.*{MARK}|must not exist yet"):
        deduplicate(overwrite=overwrite)
    assert content(theirs) == {"thesis.txt": b"years of work"}


def test_a_run_whose_lock_is_taken_before_it_publishes_publishes_nothing(deduplicate, output, monkeypatch):
    build = execution.build_report

    def lose(*args, **named):
        Path(f"{output}.lock").write_text('{"run": "other", "host": "elsewhere", "pid": 7}')
        return build(*args, **named)

    monkeypatch.setattr(execution, "build_report", lose)
    with pytest.raises(StorageError, match="must stay this run's until it ends"):
        deduplicate()
    assert not Path(output).exists()


def test_a_breach_that_is_to_fail_publishes_nothing_and_another_limit_may(deduplicate, output):
    with pytest.raises(AlertError, match=r"removal_rate is 0\.333333, above its limit of 0\.1"):
        deduplicate("alerts.removal_rate_above=0.1", "alerts.on_breach=fail")
    assert not Path(output).exists()
    assert Path(f"{output}.partial/report/report.html").exists()

    assert deduplicate("alerts.removal_rate_above=0.5", "alerts.on_breach=fail")["alerts"] == []
    assert ids(output, "kept") == [0, 3, 4, 5]


# Going on


@pytest.mark.usefixtures("cut_short")
def test_other_settings_do_not_go_on_with_an_unfinished_run(deduplicate, output):
    with pytest.raises(StorageError, match=r"another setting threshold \(it had 0\.8, this run has 0\.7\)"):
        deduplicate("threshold=0.7")

    deduplicate("alerts.removal_rate_above=0.9")
    assert ids(output, "removed") == [1, 2]


@pytest.mark.usefixtures("cut_short")
def test_another_key_does_not_go_on_with_an_unfinished_run(deduplicate, keyed):
    found = key_fingerprint(KEY.encode())
    with pytest.raises(StorageError, match=rf"another hash key \(it had '', this run has '{found}'\)"):
        deduplicate(keyed)


@pytest.fixture
def keyed(tmp_path):
    file = tmp_path / "key"
    file.touch(0o600)
    file.write_text(f"{KEY}\n")
    return f"hash.key_file={file}"


def test_a_key_is_written_nowhere_and_its_fingerprint_in_the_report(deduplicate, output, keyed):
    report = deduplicate(keyed)

    assert report["hash"]["key"] == key_fingerprint(KEY.encode())
    assert json.loads(Path(output, "report.json").read_text())["hash"] == report["hash"]
    assert [name for name, found in content(output).items() if KEY.encode() in found] == []
    assert ids(output, "removed") == [1, 2]


# Where


@pytest.mark.parametrize(("share", "chosen"), [(0.49, "memory"), (0.51, "spark")])
def test_memory_is_chosen_where_half_of_what_is_free_suffices(corpus, output, monkeypatch, share, chosen):
    job = Job(inputs=[str(corpus)], output=output, config=load_config())
    need = start.estimate_need(local.list_input(job), job.config)
    monkeypatch.setattr(start, "free_bytes", lambda: int(need / share))

    assert start.choose_engine(job) == chosen


def test_a_copy_of_a_file_that_has_changed_is_not_made(corpus, deduplicate, output, monkeypatch):
    """A file of which no row goes is copied without being read."""
    write = sink.write

    def change(source, number, *args, **kwargs):
        pq.write_table(pa.table({"id": [9], "text": ["other"]}), corpus / "a.parquet")
        return write(source, number, *args, **kwargs)

    monkeypatch.setattr(sink, "write", change)
    with pytest.raises(DataError, match="must not change while the job reads it"):
        deduplicate("threshold=1.0")
    assert not Path(output).exists()


@pytest.mark.parametrize("mode", ["lsh", "exact"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst", "a.csv", "a.csv.gz", "a.parquet"])
def test_a_file_of_many_blocks_is_read_and_written_as_one_of_few(tmp_path, output, monkeypatch, name, mode):
    """Duplicates, and the examples of the report, lie far from the beginning of their file."""
    texts = [f"{number} {' '.join(WORDS[number % 7 :])} {number}" for number in range(80)]
    texts += [f"{text} again" for text in texts[60:]]
    table = pa.table({"id": range(len(texts)), "text": texts})
    (tmp_path / "in").mkdir(exist_ok=True)
    source = tmp_path / "in" / name
    if name.endswith("parquet"):
        pq.write_table(table, source, row_group_size=10)
    else:
        lines = [json.dumps(row) for row in table.to_pylist()]
        if ".csv" in name:
            lines = ["id,text", *(f"{row['id']},{row['text']}" for row in table.to_pylist())]
        with pa.output_stream(source, compression="detect") as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())
    monkeypatch.setattr(records, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(opening, "SPLIT_BYTES", 8000)
    monkeypatch.setattr(opening, "ALONE_BYTES", 4000)
    config = load_config(None, None, ["input.id_column=id", f"mode={mode}"])
    report = run_in_memory(Job(inputs=[str(tmp_path / "in")], output=output, config=config))

    assert report["documents"] == 100
    assert report["near"] >= 20
    examples = [each for one in report["largest_components"] for each in one["examples"]]
    assert len(examples) > 3
    assert all(each["text"] == " ".join(texts[int(each["id"])][:200].split()) for each in examples)
    if ".jsonl" in name or ".csv" in name:
        read = [pa.input_stream(Path(output) / part / name).read().splitlines() for part in ("kept", "removed")]
        header = [lines[0]] if ".csv" in name else []
        assert sorted([*read[0], *read[1]]) == sorted(line.encode() for line in [*header, *lines])

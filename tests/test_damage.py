"""The small files of a run, each of their bytes cut off or flipped; and paths and settings that are none."""

import json

import pytest

import dedup.run.lock
from dedup.cli import run as cli
from dedup.errors import ConfigError, DedupError, FinishedError, StorageError
from dedup.files.storage import Storage
from dedup.files.systems import resolve
from dedup.run.lock import Lock
from dedup.run.workspace import MARK, Workspace
from dedup.settings.files import load_config

IDENTITY = {"version": "1", "setting threshold": 0.8, "input": "2 files"}
SEEN = {"rows": 5, "bytes": 120}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    for name, seconds in {"SETTLE_SECONDS": 0, "BEAT_SECONDS": 0.001, "PATIENCE_SECONDS": 0.002}.items():
        monkeypatch.setattr(dedup.run.lock, name, seconds)


def damage(content):
    """Yield what a cut before each of the bytes leaves, and all with that byte flipped, most of them still ASCII."""
    for place in range(len(content)):
        yield content[:place]
        yield content[:place] + bytes([content[place] ^ (0x80 if place % 8 == 7 else 1)]) + content[place + 1 :]


def begin(output):
    """Leave a run that finished one stage."""
    with Workspace(Storage(), output) as workspace:
        workspace.open(IDENTITY, overwrite=False)
        workspace.finish("first", SEEN)


def test_no_damage_of_a_record_passes_for_a_finished_stage(tmp_path):
    begin(f"{tmp_path}/out")
    record = tmp_path / "out.partial" / "stages" / "first.json"
    whole = record.read_bytes()
    with Workspace(Storage(), f"{tmp_path}/out") as workspace:
        workspace.open(IDENTITY, overwrite=False)
        assert workspace.finished("first") == SEEN
        for content in damage(whole):
            record.write_bytes(content)
            assert workspace.finished("first") is None


def test_damage_of_the_run_s_own_record_is_refused_or_begins_anew(tmp_path):
    output, record = f"{tmp_path}/out", tmp_path / "out.partial" / "run.json"
    begin(output)
    whole = record.read_bytes()
    ends = set()
    for content in damage(whole):
        begin(output)
        record.write_bytes(content)
        with Workspace(Storage(), output) as workspace:
            try:
                workspace.open(IDENTITY, overwrite=False)
                ends.add(workspace.finished("first") is None)
            except StorageError as error:
                ends.add("refused" if "holds an unfinished run with another" in str(error) else str(error))
        record.write_bytes(whole)
    assert ends == {True, "refused"}


def test_damage_of_a_finished_output_s_mark_is_no_reason_to_replace_it(tmp_path):
    output, mark = f"{tmp_path}/out", tmp_path / "out" / MARK
    with Workspace(Storage(), output) as workspace:
        workspace.open(IDENTITY, overwrite=False)
        workspace.publish({"report.json": "{}"})
    whole = mark.read_bytes()
    for content in [whole, *damage(whole)]:
        mark.write_bytes(content)
        # White space may differ.
        kinds = FinishedError if content == whole else (FinishedError, StorageError)
        with Workspace(Storage(), output) as workspace, pytest.raises(kinds):
            workspace.open(IDENTITY, overwrite=False)
        assert (tmp_path / "out" / "_SUCCESS").exists()


def test_damage_of_a_dead_run_s_lock_is_taken_over_or_refused(tmp_path):
    file = tmp_path / "out.lock"
    dead = {"run": "f" * 32, "host": "elsewhere pid:[1]", "pid": 1, "beat": 3}
    ends = set()
    for content in damage(json.dumps(dead).encode()):
        file.write_bytes(content)
        lock = Lock(Storage(), str(file))
        try:
            lock.acquire()
            lock.release()
            ends.add("taken")
            assert not file.exists()
        except StorageError as error:
            ends.add("refused" if "must be missing or the lock of a run" in str(error) else str(error))
            kept = file.read_bytes()
            assert kept == content
    assert ends == {"taken", "refused"}


@pytest.mark.parametrize("name", ["a:b", "2026-11-22T08:00:00", "ü 漢", "a%20b", "[x]{y}*", "-dash"])
def test_a_name_of_any_characters_is_a_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a"}\n')

    assert cli.main(["--input", "in.jsonl", f"--output={name}", "--id-column", "id", "--engine", "memory"]) == 0
    assert (tmp_path / name / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("path", "rule"),
    [("", "it is empty"), ("a\0b", "NUL"), ("x" * 256, "names of at most 255 bytes"), ("ü" * 128, "of at most 255")],
)
def test_what_is_no_path_is_refused(path, rule):
    with pytest.raises(StorageError, match=rule):
        resolve(path)


def test_a_folder_in_the_lock_s_place_is_refused(tmp_path, capsys):
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "a"}\n')
    (tmp_path / "out.lock").mkdir()

    status = cli.main(["--input", f"{tmp_path}/in.jsonl", "--output", f"{tmp_path}/out", "--id-column", "id"])

    assert status == 2
    assert "out.lock: must be missing or the lock of a run (it is something else)" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["threshold = " + "[" * 100_000, "a." * 2_000 + "b = 1", "a = " + "{b=" * 9_999])
def test_settings_nested_without_end_are_refused(tmp_path, text):
    (tmp_path / "deep.toml").write_text(text)

    with pytest.raises(ConfigError) as refused:
        load_config(str(tmp_path / "deep.toml"))
    assert len(str(refused.value)) < 1000
    with pytest.raises(DedupError):
        load_config(None, None, [text])

"""Drivers killed, stopped and started twice; devices full; tables damaged."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.chaos.conftest import DEADLINE_SECONDS, STAGED, STAGES, await_, finish, kill, read, start


def finished(output: Path) -> dict[str, int]:
    """Return the tables of an unfinished run that are whole, and when they were."""
    folder = Path(f"{output}.partial") / "stages"
    return {path.stem: path.stat().st_mtime_ns for path in folder.glob("*.json") if path.stat().st_size}


def leftovers(output: Path) -> set[str]:
    return {path.name for path in output.parent.iterdir()} - {output.name}


def kill_driver(process: psutil.Popen) -> None:
    family = process.children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == [], "no process of a killed driver lives on"


def terminate(process: psutil.Popen) -> None:
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    status, said = finish(process)
    assert time.monotonic() - begin < 10
    assert status == 128 + signal.SIGTERM
    [line] = said.splitlines()
    assert line.startswith("dedup: stopped by SIGTERM; nothing was published. The same command ")


def kill_jvm(process: psutil.Popen) -> None:
    [jvm] = [child for child in process.children(recursive=True) if child.name() == "java"]
    jvm.kill()
    status, said = finish(process)
    assert (status, said.count("\n")) == (2, 1), said[-2000:]
    assert said.startswith("dedup: Spark was killed")


def test_a_driver_ended_again_and_again_in_every_way_goes_on_where_it_was(corpus, undisturbed, tmp_path):
    """After every third stage, so that each start has finished tables to find and one to be made again; then late."""
    output = tmp_path / "out"
    before: dict[str, int] = {}
    for stage, end in zip(STAGES[::3], (kill_driver, terminate, kill_jvm), strict=True):
        process = start(corpus, output, *STAGED)
        await_(lambda stage=stage: stage in finished(output), process)
        end(process)
        now = finished(output)
        # What earlier tries finished was not made again.
        assert before.items() <= now.items()
        assert not output.exists()
        # Who ends by himself gives the lock back.
        assert leftovers(output) == {"out.partial", *(["out.lock"] if end is kill_driver else [])}
        before = now
    process = start(corpus, output, *STAGED)
    await_(lambda: [*tmp_path.glob("out.partial/result-*/kept"), *tmp_path.glob("out")], process)
    kill(process)
    assert not (output / "_SUCCESS").exists(), "what is not published looks whole"
    status, said = finish(start(corpus, output, *STAGED))

    assert (status, said) == (0, "")
    assert read(output) == undisturbed
    assert leftovers(output) == set()


AGAIN = """
import sys, threading, time
from pathlib import Path
import psutil
from dedup import deduplicate
source, output = sys.argv[1:]
def kill():
    while not Path(f"{output}.partial/stages/near_identical.json").exists():
        time.sleep(0.02)
    [jvm] = [child for child in psutil.Process().children() if child.name() == "java"]
    jvm.kill()
threading.Thread(target=kill, daemon=True).start()
for _ in range(2):
    try:
        deduplicate(source, output, id_column="doc_id", engine="spark", settings={"driver.search_bytes": 0})
    except Exception as error:
        print(error)
"""


@pytest.mark.full
def test_a_process_whose_spark_was_killed_starts_another(corpus, undisturbed, tmp_path):
    command = [sys.executable, "-c", AGAIN, str(corpus), str(tmp_path / "out")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE_SECONDS)

    assert done.stdout.startswith("Spark was killed")
    assert done.stdout.count("\n") == 1
    assert read(tmp_path / "out") == undisturbed
    assert leftovers(tmp_path / "out") == set()


@pytest.mark.full
def test_of_two_runs_on_one_output_one_works_and_the_other_says_so(corpus, undisturbed, tmp_path):
    # By tasks, which takes longer than one looks for a sign of life of the other.
    runs = [start(corpus, tmp_path / "out", *STAGED) for _ in range(2)]
    ends = sorted(finish(run) for run in runs)

    assert ends[0] == (0, "")
    assert ends[1][0] == 2
    assert ends[1][1].count("\n") <= 2
    assert "out.lock" in ends[1][1]
    assert read(tmp_path / "out") == undisturbed
    assert leftovers(tmp_path / "out") == set()


@pytest.fixture
def small_device(tmp_path):
    """Mount a device of so many bytes."""
    mounted = []

    def mount(size):
        folder = tmp_path / f"device-{size}"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.full
def test_a_full_device_is_one_clear_line_and_no_output(corpus, undisturbed, small_device):
    """First in a stage, then, with more room, in the result."""
    folder = small_device(1 << 20)
    for more in (6 << 20, 200 << 20):
        status, said = finish(start(corpus, folder / "out", *STAGED))

        assert status == 2
        assert said.count("\n") == 1
        assert said.startswith("dedup: no space is left")
        assert not (folder / "out").exists()
        assert ("near_members" in finished(folder / "out")) == (more > 6 << 20)
        subprocess.run(["mount", "-o", f"remount,size={more}", folder], check=True)
    assert finish(start(corpus, folder / "out", *STAGED)) == (0, "")
    assert read(folder / "out") == undisturbed


@pytest.mark.full
def test_a_text_of_100_megabytes_passes_a_heap_that_is_too_small_for_it(tmp_path):
    """Workers read the files themselves; what a JVM out of memory says is held in tests/test_faults.py."""
    with (tmp_path / "in.jsonl").open("w") as lines:
        lines.write('{"doc_id": 1, "text": "' + "some words of a text " * 5_000_000 + '"}\n')
    small = {"PYSPARK_SUBMIT_ARGS": "--driver-memory 480m pyspark-shell"}

    assert finish(start(tmp_path / "in.jsonl", tmp_path / "out", **small)) == (0, "")

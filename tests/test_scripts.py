"""The scripts as a shell user meets them, in a copy of the project that nothing has been set up in."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from dedup.run.session import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir() if path.suffix not in {".md", ".py"})
LOCKS = ("requirements.lock", "requirements-spark.lock", "requirements-dev.lock")
TOOLS = "requirements-tools.lock"


def run(program, *arguments, **environment):
    """Run a script with no more of an environment than a login has."""
    return subprocess.run(
        [program, *arguments],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        stdin=subprocess.DEVNULL,
        timeout=60,
    )


@pytest.fixture
def bare(tmp_path):
    """Return a copy of the scripts with nothing that a set-up leaves."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    for name in (*LOCKS, TOOLS):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("word", ["--help", "-h"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_help_says_what_a_script_does_and_sets_nothing_up(bare, script, word):
    before = sorted(bare.rglob("*"))
    # Neither Java nor a Python with the job's packages is at hand, and no network is asked.
    done = run(bare / "scripts" / script, word, JAVA_HOME="/nonexistent", PYTHON="/nonexistent")

    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"[A-Z][^\n]{30,}", done.stdout)
    assert f"scripts/{script}" in done.stdout
    assert sorted(bare.rglob("*")) == before


@pytest.fixture
def ready(bare):
    """Return the copy as a set-up leaves it."""
    (bare / ".venv" / "bin").mkdir(parents=True)
    (bare / ".venv" / "bin" / "python").symlink_to(sys.executable)
    for name in LOCKS:
        shutil.copy(ROOT / name, bare / ".venv")
    (bare / "jars").mkdir()
    (bare / "jars" / "graphframes.jar").touch()
    return bare


def test_modules_are_compiled_once_where_the_shell_forbids_it_and_not_beside_their_sources(ready):
    (ready / "chosen.py").touch()
    script = ready / "scripts" / "each"
    script.write_text('. "$(dirname "$0")/setup"\n"$PYSPARK_PYTHON" -c "import chosen; print(chosen.__cached__)"\n')
    done = run("sh", script, PYTHONDONTWRITEBYTECODE="1")

    [compiled] = (ready / ".venv").rglob("chosen.*.pyc")
    assert (done.stderr, done.stdout) == ("", f"{compiled}\n")
    assert [*ready.rglob("__pycache__")] == []


@pytest.fixture
def no_java(tmp_path):
    """Return a PATH on which no program is named java, for a user who may not install one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "basename", "dirname", "readlink", "sed", "cmp", "cat", "grep", "find"):
        (folder / name).symlink_to(shutil.which(name))
    (folder / "id").write_text("#!/bin/sh\necho 1000\n")
    (folder / "id").chmod(0o755)
    return str(folder)


PROGRAM = """#!/bin/sh
case "$*" in
    "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
    "-m pip install "*)
        for word; do last=$word; done
        echo "$(basename "$last")" >>"$0.installed"
        echo "Collecting numpy==1 (from -r requirements.lock)"
        echo "  Downloading numpy-1.whl"
        echo "Collecting scipy==1 (from -r requirements.lock)"
        [ -z "${FAILS:-}" ] || { echo "ERROR: no such package" && exit 1; }
        echo "Installing collected packages: numpy, scipy" ;;
    *-c*) ;;
    *) echo "ran $*" ;;
esac
"""
"""A Python that makes environments of itself, and packages of nothing."""


@pytest.fixture
def program(bare, tmp_path):
    """Return what sets up with a Python that fetches nothing, beside a Java."""
    (tmp_path / "programs").mkdir()
    java = "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"
    for name, text in (("python3", PROGRAM), ("java", java)):
        (tmp_path / "programs" / name).write_text(text)
        (tmp_path / "programs" / name).chmod(0o755)
    (bare / "jars").mkdir()
    (bare / "jars" / "graphframes.jar").touch()
    return {"PATH": f"{tmp_path}/programs:{os.environ['PATH']}"}


def test_spark_is_fetched_when_it_is_asked_for_and_stays(bare, program):
    installed = bare / ".venv" / "bin" / "python.installed"
    done = run(bare / "scripts" / "dedup", "run", **program)
    assert (done.returncode, done.stdout) == (0, "ran -m dedup run\n")
    assert done.stderr == "scripts/dedup: installing the packages of requirements.lock into .venv ...\n"
    assert installed.read_text().split() == ["requirements.lock"]

    assert run(bare / "scripts" / "setup", **program).returncode == 0
    assert installed.read_text().split()[1:] == ["requirements-spark.lock"]
    assert run(bare / "scripts" / "dedup", "run", **program).stderr == ""
    (bare / "requirements-spark.lock").write_text("other==1\n")
    run(bare / "scripts" / "dedup", "run", **program)
    assert installed.read_text().split()[2:] == ["requirements-spark.lock"]


def test_a_set_up_that_fails_says_why_and_starts_over(bare, program):
    done = run(bare / "scripts" / "dedup", "run", FAILS="1", **program)

    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == [
        "ERROR: no such package",
        "scripts/dedup: the packages of requirements.lock could not be installed",
    ]
    assert run(bare / "scripts" / "dedup", "run", **program).returncode == 0


@pytest.mark.parametrize("missing", ["cmp", "packages"])
def test_an_environment_that_others_use_is_not_cleared(ready, no_java, tmp_path, missing):
    (ready / ".venv").rename(tmp_path / "others")
    (ready / ".venv").symlink_to(tmp_path / "others")
    if missing == "cmp":
        Path(no_java, "cmp").unlink()
    else:
        (ready / "requirements.lock").write_text("other==1\n")
    Path(no_java, "python3").symlink_to(sys.executable)
    before = sorted(tmp_path.rglob("*"))

    done = run(ready / "scripts" / "dedup", "run", PATH=no_java)

    assert done.returncode == 2
    said = {"cmp": "cmp is needed", "packages": f"{ready}/.venv is a link, and the packages behind it are not those"}
    assert said[missing] in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_terminal_shows_on_one_line_how_far_a_set_up_is(bare, program):
    far, near = os.openpty()
    done = subprocess.run([bare / "scripts" / "dedup", "run"], stderr=near, stdout=near, env=program, check=False)
    os.close(near)
    said = ""
    # At its end, which one read may not reach, a terminal is an error.
    with contextlib.suppress(OSError), open(far, encoding="utf-8", newline="") as screen:  # noqa: PTH123 - no path
        for line in screen:
            said += line

    assert done.returncode == 0
    total = len(re.findall(r"^[\w-]+.*==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    first, _, rest = said.partition("\r\n")
    assert first == "scripts/dedup: installing the packages of requirements.lock into .venv ..."
    assert rest.split("\r\x1b[K") == [
        "",
        *(f"{number} of {total} packages" for number in (1, 2)),
        f"unpacking {total} packages",
        "ran -m dedup run\r\n",
    ]


def test_java_is_looked_for_before_anything_is_fetched(bare, no_java):
    setup = bare / "scripts" / "setup"
    # As on a machine without the folders where Javas lie.
    setup.write_text(setup.read_text("utf-8").replace("/usr/lib/jvm/", "/nonexistent/"), "utf-8")
    done = run(setup, PATH=no_java)

    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert re.search(
        r"Java 17 or 21 is needed \(on Debian and Ubuntu: apt-get install openjdk-\d\d-jre-headless\)", line
    )
    assert not (bare / ".venv").exists()


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ('ID=debian\nVERSION_ID="12"\n', "openjdk-17-jre-headless"),
        ('ID=debian\nVERSION_ID="13"\n', "openjdk-21-jre-headless"),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "openjdk-21-jre-headless"),
        ("ID=debian\n", "openjdk-21-jre-headless"),
    ],
)
def test_the_hint_names_a_java_that_the_release_has(bare, no_java, tmp_path, release, package):
    (tmp_path / "os-release").write_text(release)
    setup = bare / "scripts" / "setup"
    text = setup.read_text("utf-8").replace("/usr/lib/jvm/", "/nonexistent/")
    setup.write_text(text.replace("/etc/os-release", str(tmp_path / "os-release")), "utf-8")

    assert f"apt-get install {package})" in run(setup, PATH=no_java).stderr


def test_each_list_of_packages_has_those_of_the_one_before_in_the_same_versions():
    def read(name):
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / name).read_text("utf-8"), re.MULTILINE))

    plain, spark, developers = map(read, LOCKS)

    assert plain.items() < spark.items() < developers.items()
    assert {"numba", "pyarrow", "deltalake"} <= plain.keys()
    assert not {"pyspark", "graphframes-py", "pandas"} & plain.keys()
    assert {"pyspark", "graphframes-py", "pandas"} <= spark.keys()
    assert not {"pytest", "ruff", "mypy", "moto", "hypothesis"} & spark.keys()


KNOWN = {"name": "numpy", "version": "2.0", "vulns": []}
HARMED = {"name": "orjson", "version": "3.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}]}
ABSENT = {"name": "xxhash", "skip_reason": "Dependency not found on PyPI and could not be audited"}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([KNOWN], 0, "1 of 1 packages asked about, 0 advisories\n"),
        ([KNOWN, ABSENT], 2, "1 of 2 packages asked about, 0 advisories\n"),
        ([KNOWN, HARMED, ABSENT], 1, "orjson 3.0  PYSEC-1  fixed in: 3.1\n2 of 3 packages asked about, 1 advisories\n"),
    ],
)
def test_an_audit_tells_what_it_found_and_what_it_could_not_ask_about(ready, packages, status, said):
    program = ready / "dist" / "tools" / "bin" / "pip-audit"
    program.parent.mkdir(parents=True)
    shutil.copy(ROOT / TOOLS, ready / "dist" / "tools")
    # As pip-audit does, with status 1 where there are advisories.
    program.write_text(
        f"#!{sys.executable}\nimport sys\nassert '--require-hashes' in sys.argv\n"
        f"open(sys.argv[sys.argv.index('--output') + 1], 'w').write({json.dumps({'dependencies': packages})!r})\n"
        f"sys.exit({status == 1})\n"
    )
    program.chmod(0o755)
    done = run(ready / "scripts" / "audit")

    assert (done.returncode, done.stdout) == (status, said)
    assert done.stderr.count("\n") == (ABSENT in packages)
    assert ("has no answer about xxhash;" in done.stderr) == (ABSENT in packages)


def test_nothing_is_fetched_that_is_not_known_by_its_hash():
    scripts = {name: (ROOT / "scripts" / name).read_text("utf-8").replace("\\\n", " ") for name in SCRIPTS}
    fetches = [line for text in scripts.values() for line in text.splitlines() if "pip install" in line]
    assert len(fetches) == 2
    assert all("--require-hashes" in line for line in fetches)
    images = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    assert images
    assert all(re.fullmatch(r"[\w.:-]+@sha256:[0-9a-f]{64}", image) for image in images)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert all("<" in each for each in project["build-system"]["requires"]), "no later one builds before it was tried"
    locks = [(ROOT / name).read_text("utf-8") for name in (*LOCKS, TOOLS)]
    assert all(re.findall(r"^[a-z0-9-]+==.*\\\n    --hash=", lock, re.MULTILINE) for lock in locks)


@pytest.fixture
def project(bare):
    """Return a copy of what scripts/package reads, with this environment as its .venv."""
    shutil.copytree(ROOT / "dedup", bare / "dedup", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", bare)
    (bare / ".venv").mkdir()
    shutil.copy(ROOT / "requirements-spark.lock", bare / ".venv")
    return bare


def need(project, package):
    """Let the project need this package alone."""
    (project / "pyproject.toml").write_text(
        f'[project]\ndependencies = ["{package}"]\noptional-dependencies = {{spark = []}}\n'
    )


@pytest.mark.parametrize("umask", [pytest.param(0o022, marks=pytest.mark.full), 0o077])
def test_packages_follow_the_umask_and_are_whole_when_six_are_made_at_once(project, umask):
    # numpy alone stands for the environment, which takes half a minute.
    (project / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy"]\noptional-dependencies = {spark = []}\n'
    )
    program = (sys.executable, project / "scripts" / "package.py")
    runs = [subprocess.Popen(program, stderr=subprocess.PIPE, umask=umask) for _ in range(6)]
    said = [run.communicate(timeout=120)[1] for run in runs]

    assert [run.returncode for run in runs] == [0] * 6
    assert sum(bool(each) for each in said) == 1, "one makes the environment, the others wait for it"
    dist = project / "dist"
    assert {path.name for path in dist.iterdir()} == {"dedup.zip", "environment.tar.gz", "package.lock"}
    assert {path.stat().st_mode & 0o777 for path in dist.iterdir()} == {0o666 & ~umask}
    assert zipfile.ZipFile(dist / "dedup.zip").testzip() is None
    read = "from dedup.settings.files import load_config; print(load_config(None, 'code').lsh)"
    assert "Lsh(" in run(sys.executable, "-c", read, PYTHONPATH=str(dist / "dedup.zip")).stdout, "presets are inside"
    with tarfile.open(dist / "environment.tar.gz") as archive:
        members = archive.getmembers()
    assert all(member.mode & 0o444 == 0o444 and member.uid == 0 for member in members)
    times = {member.name: member.mtime for member in members}
    assert {"./bin/python", "./pyvenv.cfg"} <= times.keys()
    # What was compiled is known by the time of its source, of which archives keep whole seconds.
    own = [time for name, time in times.items() if "/dedup/" in name and name.endswith(".py")]
    assert own
    assert all(time == int(time) for time in own)


def test_the_packed_environment_runs_where_it_is_unpacked(project, tmp_path):
    (project / "pyproject.toml").write_text(
        '[project]\ndependencies = ["xxhash"]\noptional-dependencies = {spark = []}\n'
    )
    subprocess.run([sys.executable, project / "scripts" / "package.py"], check=True, capture_output=True)
    with tarfile.open(project / "dist" / "environment.tar.gz") as archive:
        # Without a filter where Python has none yet: it was made just now.
        trusted = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
        archive.extractall(tmp_path / "environment", **trusted)  # noqa: S202
    imported = "import sys, dedup, xxhash; print(sys.prefix, dedup.__file__, xxhash.__file__)"
    done = run(tmp_path / "environment" / "bin" / "python", "-I", "-c", imported)

    folder = str(tmp_path / "environment")
    assert [Path(each).is_relative_to(folder) for each in done.stdout.split()] == [True, True, True], done.stderr


@pytest.mark.parametrize(
    ("options", "driver"),
    [
        ("", "{root}/.venv/bin/python"),
        ("--deploy-mode client --conf spark.executor.memory=8g", "{root}/.venv/bin/python"),
        ("--deploy-mode cluster --queue batch", "./environment/bin/python"),
        ("--queue batch --conf spark.submit.deployMode=cluster", "./environment/bin/python"),
    ],
)
def test_a_driver_on_the_cluster_has_the_python_of_the_archive(bare, options, driver):
    for name in LOCKS:
        (bare / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(bare / name, bare / ".venv" / name)
    (bare / ".venv" / "bin" / "python").symlink_to("/bin/true")
    (bare / ".venv" / "bin" / "spark-submit").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (bare / ".venv" / "bin" / "spark-submit").chmod(0o755)
    done = run(bare / "scripts" / "submit", "--input", "a b", MASTER="yarn", SUBMIT_OPTIONS=options)

    words = done.stdout.splitlines()
    assert f"spark.pyspark.driver.python={driver.format(root=bare)}" in words, done.stderr
    assert "spark.pyspark.python=./environment/bin/python" in words
    assert words[-3:] == [f"{bare}/jobs/deduplicate.py", "--input", "a b"]


def test_no_script_names_a_host():
    texts = {name: (ROOT / "scripts" / name).read_text("utf-8") for name in [*SCRIPTS, "package.py"]}
    hosts = {(name, host) for name, text in texts.items() for host in re.findall(r"https?://([^\s:/\"]+)", text)}

    assert hosts == {("submit", "host")}, "package registries are those that pip and Ivy are configured for"


def test_a_late_run_of_the_cron_line_keeps_the_next_from_starting(tmp_path):
    [line] = re.findall(
        r"^    15 2 \* \* \* (flock .*)$", (ROOT / "docs" / "operations.md").read_text("utf-8"), re.MULTILINE
    )
    # What cron makes of it, with the folders of a test and a job that lasts.
    command = line.replace("\\%", "%").replace("/opt/", f"{tmp_path}/").replace("/var/log/", f"{tmp_path}/")
    command = command.replace("/data/", f"{tmp_path}/")
    job = tmp_path / "dedup" / "scripts" / "dedup"
    job.parent.mkdir(parents=True)
    job.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/runs\nread -r end <{tmp_path}/end\n')
    job.chmod(0o755)
    os.mkfifo(tmp_path / "end")
    first = subprocess.Popen(["sh", "-c", command])
    while not (tmp_path / "runs").exists():
        assert first.poll() is None

    assert subprocess.run(["sh", "-c", command], check=False, timeout=10).returncode == 75
    (tmp_path / "end").write_text("now\n")
    assert first.wait(10) == 0
    [run] = (tmp_path / "runs").read_text().splitlines()
    assert re.fullmatch(
        rf"run --input {tmp_path}/corpus --output {tmp_path}/dedup/\d{{4}}-\d\d-\d\d --id-column id", run
    )

"""The words of a command line: short names of settings, several inputs, and what a wrong word is answered with."""

import json
import re
import subprocess
import sys

import pytest

from dedup import cli
from dedup.cli.common import OPTIONS, READING, SEARCH, Parser, add_options, add_settings, read_settings
from dedup.cli.run import parse_arguments
from dedup.settings.files import find_field, list_presets, load_config, to_dict
from dedup.settings.rules import list_choices

CORPUS = ["--input", "a.jsonl", "--output", "out"]


def refuse(arguments, capsys):
    """Return the line that a command line is refused with."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(arguments)
    captured = capsys.readouterr()
    assert captured.out == ""
    [line] = captured.err.splitlines()
    return line


def test_an_unquoted_glob_is_several_inputs(tmp_path):
    for name in ("a", "b", "c"):
        rows = [{"id": f"{name}{number}", "text": f"{number} words that are all their own"} for number in range(3)]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    command = f"{sys.executable} -m dedup run --input *.jsonl --id-column id --engine memory --output out"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)  # noqa: S602

    assert re.search(r"^documents +9$", done.stdout, re.MULTILINE)
    assert sorted(path.name for path in (tmp_path / "out" / "kept").iterdir()) == ["a.jsonl", "b.jsonl", "c.jsonl"]
    several = ["--input", "a", "b", "--output", "out", "--input", "c"]
    assert parse_arguments(several).input == ["a", "b", "c"]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_short_name_is_of_a_setting_whose_choices_and_default_help_tells(name, capsys):
    option = OPTIONS[name]
    entry = find_field(option.setting)
    cli_parser = Parser(prog="x")
    add_options(cli_parser, name)
    add_settings(cli_parser)
    cli_parser.print_help()
    told = re.sub(r"\s+", " ", capsys.readouterr().out)

    assert all(choice in told for choice in list_choices(entry))
    assert not entry.default or str(entry.default).strip("(),'") in told
    default = to_dict(load_config())
    table, _, last = option.setting.rpartition(".")
    value = {"threshold": "0.5", "layers": "exact,near"}.get(option.setting, "7")
    value = list_choices(entry)[-1] if list_choices(entry) and option.setting != "layers" else value
    changed = to_dict(read_settings(cli_parser.parse_args([name, value])))
    assert (changed[table] if table else changed)[last] != (default[table] if table else default)[last]
    assert read_settings(cli_parser.parse_args([])) == load_config()


def test_a_short_name_wins_over_what_is_set_and_is_checked_as_its_setting():
    options = parse_arguments([*CORPUS, "--threshold", "0.7", "--set", "threshold=0.9", "--layers", "exact,near"])

    config = read_settings(options)
    assert (config.threshold, config.layers) == (0.7, ("exact", "near"))
    assert {*READING, *SEARCH} <= OPTIONS.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", *CORPUS, "--treshold", "0.7"], "unknown option --treshold; did you mean --threshold?"),
        # Before what is missing, as the missing one may be the one misspelt.
        (["run", "--inputs", "a", "--output", "b"], "unknown option --inputs; did you mean --input?"),
        (["run", *CORPUS, "--bands=30"], "unknown option --bands; did you mean --set lsh.bands=VALUE?"),
        (["run", *CORPUS, "--max_bucket", "3"], "unknown option --max_bucket; did you mean --set buckets.max_bucket"),
        (["run", *CORPUS, "--zzz"], "unknown option --zzz (dedup run --help tells more)"),
        (["run", "a.jsonl", "--output", "b"], "no option takes 'a.jsonl'; did you mean --input a.jsonl?"),
        (["run", "--input", "a", "--output", "b", "c"], "no option takes 'c'; did you mean --input c?"),
        (["run", *CORPUS, "-q"], "no option takes '-q' (dedup run --help"),
        (["run", *CORPUS, "--layers", "exact", "near"], "no option takes 'near'; did you mean --layers exact,near?"),
        (["run", *CORPUS, "--set", "lsh.bands", "30"], "no option takes '30'; did you mean --set lsh.bands=30?"),
        (["compare", "--against", "a", "b"], "no option takes 'b'; did you mean --against b?"),
        (
            ["run", *CORPUS, "--preset", "code", "--preset", "gpt3"],
            "--preset: must be given once (got 'code' and 'gpt3')",
        ),
        (["plan", "--config", "a.toml", "--config", "b.toml"], "--config: must be given once (got 'a.toml' and 'b.t"),
        (["run", *CORPUS, "--log-level", "warn"], "must be one of debug, info, warning, error (got 'warn'; did you me"),
        (["explain", "out", "--top", "0"], "argument --top: must be a whole number of at least 1 (got '0')"),
        (["run", *CORPUS, "--thresh", "0.7"], "unknown option --thresh; did you mean --threshold?"),
        (["explain", "out", "--top", "5", "--full"], "argument --full: needs --id"),
        (["explain", "out", "--idd", "1"], "unknown option --idd; did you mean --id?"),
        (["lookup", "s", "--input", "-", "--threshold", "2"], "--threshold: must be a number above 0 and at most 1"),
        (["plan", "--documents", "many"], "argument --documents: must be a whole number of at least 1 (got 'many')"),
        (["plan", "--mean-tokens", "x"], "argument --mean-tokens: must be a number (got 'x')"),
        (["store", "check", "s", "--mends"], "unknown option --mends; did you mean --mend?"),
        (["store", "chek", "s"], "(got 'chek'; did you mean check?)"),
        (["store", "migrate", "s", "--to", "n", "--input", "x"], "argument --input: must be BATCH=PATH (got 'x')"),
        (["evaluate", "--input", "a", "--planted", "0"], "--planted: must be a whole number of at least 1 (got '0')"),
        (["erase", "s", "--ids", "f", "--key-file", "k"], "argument --key-file: needs --texts"),
        (["explian", "out"], "(got 'explian'; did you mean explain?)"),
    ],
)
def test_a_wrong_word_is_answered_in_a_line_with_the_nearest(words, said, capsys):
    line = refuse(words, capsys)

    assert line.startswith("dedup: ")
    assert said in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--threshold", "80"], "--threshold: threshold must be a number above 0 and at most 1 (got 80)"),
        (["--layers", "exact,neer"], '(got ["exact", "neer"]; did you mean near?)'),
        (["--format", "jsnl"], '--format: input.format must be one of "auto", "parquet"'),
        (["--preset", "fine-web"], "did you mean fineweb?"),
        (
            ["--set", "keep.order=longest,latest:date"],
            '(got \'longest,latest:date\'; several are a list, ["longest", "lat',
        ),
        (["--set", "keep.merge=count,urls:url"], '(got \'count,urls:url\'; several are a list, ["count", "urls:url"])'),
        (["--output-files", "x"], "--output-files: output.files must be an integer from 0 to 1000000 (got"),
    ],
)
def test_a_wrong_value_is_answered_in_a_line_with_its_option(words, said, capsys):
    assert cli.main(["run", *CORPUS, *words]) == 2
    [line] = capsys.readouterr().err.splitlines()

    assert said in line


def test_help_opens_with_two_examples_that_are_taken_and_lists_the_presets(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["run", "--help"])
    said = capsys.readouterr().out
    examples = re.findall(r"^    dedup run (.*)$", said.partition("\noptions:")[0], re.MULTILINE)
    assert len(examples) == 2
    for example in examples:
        read_settings(parse_arguments(example.split()))
    assert f"named settings: {', '.join(list_presets())}" in re.sub(r"\s+", " ", said)

    with pytest.raises(SystemExit, match="0"):
        cli.main([])
    assert "    dedup run --input " in capsys.readouterr().out


def test_a_program_that_calls_a_command_ends_as_it_would_without():
    # Packages made with nanobind tell of all that is not collected as Python ends.
    code = "import dedup.cli, duckdb; kept = duckdb.sql('select 1'); dedup.cli.main(['run', '--input', 'a'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=False)

    assert done.returncode == 2
    assert done.stderr.splitlines()[1:] == []

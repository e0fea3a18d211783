"""Settings: the documented defaults, where they come from, and what a wrong one is answered with."""

import ast
import inspect
import logging
import re
import subprocess
import sys
import tomllib
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.errors import ConfigError, DedupError
from dedup.layers import LAYERS, load_layer, load_table
from dedup.layers.layer import SHARED
from dedup.run.job import Job
from dedup.run.start import choose_work
from dedup.settings import files as config_module
from dedup.settings.alerts import Alerts
from dedup.settings.files import GONE, find_field, list_settings, load_config, name_setting, to_dict, to_toml
from dedup.settings.options import Buckets, Components, Config, Input, Keep, Lsh, Output, Shingles
from dedup.settings.rules import Copies, Count, Limit, Records, Tables, Texts, check, list_choices

ROOT = Path(__file__).resolve().parent.parent
DEFAULTS = ROOT / "conf" / "dedup.toml"
PRESETS = sorted((ROOT / "dedup" / "settings" / "presets").glob("*.toml"))
OF_LAYERS = {name: table for name in LAYERS if (table := load_table(name))}
TABLES = {
    name: table
    for entry in fields(Config)
    for name, table in (OF_LAYERS if entry.type == Tables else {entry.name: entry.type}).items()
    if is_dataclass(table)
}
SETTINGS = {
    f"{table}.{entry.name}".removeprefix("."): (owner, entry)
    for table, owner in {"": Config, **TABLES}.items()
    for entry in fields(owner)
    if entry.type not in (Tables, *TABLES.values())
}
SOME_LAYERS = f"layers must be a list of some of {', '.join(LAYERS)}, each once"
INT64_MAX = 2**63 - 1
RANGES = {
    "threshold": (sys.float_info.min, 1),
    "shingles.shingle_size": (1, 64),
    "limits.per_source": (0, INT64_MAX),
    "cluster.max_component": (0, INT64_MAX),
    "output.files": (0, 1_000_000),
    "passages.tokens": (10, 1000),
    "passages.drop_share": (sys.float_info.min, 1),
    "passages.min_tokens_left": (0, INT64_MAX),
    "seed": (0, INT64_MAX),
    "lsh.bands": (1, 4096),
    "lsh.rows": (1, 128),
    "lsh.recall": (0, 1),
    "buckets.max_bucket": (2, INT64_MAX),
    "input.max_text_bytes": (1, INT64_MAX),
    "driver.search_bytes": (0, INT64_MAX),
    "lines.documents": (1, INT64_MAX),
    "lines.min_characters": (1, INT64_MAX),
    "containment.threshold": (sys.float_info.min, 1),
    "containment.min_shingles": (1, INT64_MAX),
    "semantic.threshold": (sys.float_info.min, 1),
    "semantic.overlap": (0, 1),
    "contamination.match_tokens": (1, 64),
    "contamination.margin": (0, 10_000),
    "contamination.common": (0, INT64_MAX),
    "alerts.removal_rate_above": (0, 1),
    "alerts.removal_rate_below": (0, 1),
    "alerts.removal_rate_change_above": (0, 1),
    "alerts.text_bytes_per_doc_change_above": (0, sys.float_info.max),
    "alerts.tokens_per_doc_change_above": (0, sys.float_info.max),
    "alerts.shingles_per_doc_change_above": (0, sys.float_info.max),
    "alerts.similarity_drift_above": (0, 1),
    "alerts.bucket_drift_above": (0, 1),
    "alerts.survival_by_source_below": (0, 1),
    "alerts.empty_rate_above": (0, 1),
    "alerts.candidate_pairs_per_doc_above": (0, sys.float_info.max),
    "alerts.bucket_size_p99_above": (0, sys.float_info.max),
    "alerts.verify_drop_rate_above": (0, 1),
    "alerts.recall_on_labeled_set_below": (0, 1),
    "alerts.signature_bytes_above": (0, sys.float_info.max),
    "alerts.index_bytes_above": (0, sys.float_info.max),
    "alerts.stage_seconds_above": (0, sys.float_info.max),
}

SETS = ["mmlu:question:tests/*.jsonl", "b:a.b:s3://bucket/x.parquet", 'é":x:y']
MERGES = ["count", "urls:url", "first:date", "last:a.b", 'x_1:"é"']
PROFILES = [
    {"name": "code", "when": {"type": ["py", 'a"b'], "é.x": [1, True]}, "threshold": 0.7},
    {"name": "a-b_1", "when": {"y": "", "z": "\n"}, "lsh": {"bands": 4}, "text": {"case": "keep"}},
]
COLUMNS = ["title", "a.b * 3", "é * 9"]
RULES = ["smallest_id", "longest", "latest:date", 'lowest:é."', "source:a,b", "sql:length(title) * 2"]


@cache
def read_docstrings():
    """Return the attribute docstrings of the settings module by (class, field), and its class docstrings by class."""
    attributes, classes = {}, {}
    files = {inspect.getsourcefile(table) for table in (Config, *TABLES.values())}
    for node in [each for file in files for each in ast.parse(Path(file).read_text(encoding="utf-8")).body]:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = ast.get_docstring(node)
            for entry, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(entry, ast.AnnAssign) and isinstance(after, ast.Expr):
                    attributes[node.name, entry.target.id] = " ".join(ast.literal_eval(after.value).split())
    return attributes, classes


@cache
def read_comments():
    """Return the comment above each key and table of the defaults file, as one line by dotted name."""
    comments, table, block = {}, "", []
    for line in DEFAULTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            block.append(line.removeprefix("#").strip())
            continue
        if header := re.fullmatch(r"\[(\w+)\]", line):
            table = header[1]
            comments[table] = " ".join(block)
        elif key := re.match(r"(\w+) = ", line):
            comments[f"{table}.{key[1]}".removeprefix(".")] = " ".join(block)
        block = []
    return comments


def read_rule(name):
    """Return the rule of a setting as its error message states it."""
    owner, entry = SETTINGS[name]
    with pytest.raises(ConfigError) as caught:
        owner(**{entry.name: None})
    return re.fullmatch(rf"{owner.__name__}: {entry.name} must be (.+) \(got null\)", str(caught.value))[1]


def write(folder, text, name="my.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def message_of(*args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        load_config(*args, **kwargs)
    return str(caught.value)


# Documentation


def test_defaults_file_holds_the_defaults_and_every_setting():
    assert load_config(str(DEFAULTS)) == Config() == load_config()
    assert tomllib.loads(DEFAULTS.read_text(encoding="utf-8")) == to_dict(Config())


def test_defaults_are_the_operating_point_of_the_design():
    config = Config()

    assert (config.threshold, config.banding, config.signature_size) == (0.8, (21, 6), 126)
    assert config.shingles.shingle_size == 5


@pytest.mark.parametrize("name", SETTINGS)
def test_comment_in_defaults_file_is_the_docstring_beside_the_field(name):
    owner, entry = SETTINGS[name]

    assert read_comments()[name] == read_docstrings()[0][owner.__name__, entry.name]


@pytest.mark.parametrize("name", TABLES)
def test_comment_above_a_table_is_the_docstring_of_its_class(name):
    assert read_comments()[name] == read_docstrings()[1][TABLES[name].__name__]
    assert ("Config", name) in read_docstrings()[0] or name in OF_LAYERS


@pytest.mark.parametrize("name", SETTINGS)
def test_docstring_states_the_range_or_explains_every_choice(name):
    owner, entry = SETTINGS[name]
    docstring = read_docstrings()[0][owner.__name__, entry.name]

    if choices := list_choices(entry):
        assert all(f'"{choice}"' in docstring for choice in choices if choice != "auto")
    elif entry.type is not str:
        assert read_rule(name) in docstring


# Precedence


def test_later_sources_win_and_leave_the_other_settings_alone(tmp_path):
    path = write(tmp_path, "threshold = 0.7\n[lsh]\nbands = 30\nrows = 5\n")

    config = load_config(path, "code", ["lsh.rows=4", "lsh.rows=3", "output.mode=ids"])

    assert config == Config(
        threshold=0.7,
        shingles=Shingles(shingle_size=8),
        lsh=Lsh(bands=30, rows=3),
        output=Output(mode="ids"),
    )


def test_file_wins_over_preset(tmp_path):
    path = write(tmp_path, "[shingles]\nshingle_size = 3\n")

    assert load_config(path, "code").shingles.shingle_size == 3


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("threshold=0.75", Config(threshold=0.75)),
        (" threshold = 0.75 # of shingles", Config(threshold=0.75)),
        ("mode=exact", Config(mode="exact")),
        ('mode="exact"', Config(mode="exact")),
        ("input.id_column=", Config(input=Input(id_column=""))),
        ("input.text_column= the text ", Config(input=Input(text_column="the text"))),
        ("input.text_column=a=b", Config(input=Input(text_column="a=b"))),
        ('input.text_column="2024"', Config(input=Input(text_column="2024"))),
        ("input.text_column=1\nmode = 2", Config(input=Input(text_column="1\nmode = 2"))),
        ("input.text_column=2024", Config(input=Input(text_column="2024"))),
        ("layers=exact", Config(layers=("exact",))),
        ("layers=exact, near", Config(layers=("exact", "near"))),
        ('layers="exact"', Config(layers=("exact",))),
        ('layers=["exact", "near"]', Config(layers=("exact", "near"))),
        ("keep.order=longest,smallest_id", Config(keep=Keep(order=("longest", "smallest_id")))),
        ("keep.order=source:A,B", Config(keep=Keep(order=("source:A,B",)))),
        ("keep.merge=", Config()),
        ("input.name_filter=*.{py,md}", Config(input=Input(name_filter="*.{py,md}"))),
        ("seed=1_000", Config(seed=1000)),
        ("components.engine=driver", Config(components=Components(engine="driver"))),
        ("lsh={bands = 9, rows = 13}", Config(lsh=Lsh(bands=9, rows=13))),
        ("alerts.removal_rate_above=.5", Config(alerts=Alerts(removal_rate_above=0.5))),
        ("input.text_column=.5", Config(input=Input(text_column=".5"))),
        ("alerts.removal_rate_above=1", Config(alerts=Alerts(removal_rate_above=1.0))),
        ("alerts.removal_rate_above=", Config()),
    ],
)
def test_override_is_toml_or_else_a_string(override, expected):
    assert load_config(overrides=[override]) == expected


def test_file_may_begin_with_a_byte_order_mark(tmp_path):
    assert load_config(write(tmp_path, "\ufeffthreshold = 0.5\n")).threshold == 0.5


# Presets


def test_code_preset_changes_the_shingle_size_only():
    assert load_config(preset="code") == Config(shingles=Shingles(shingle_size=8))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_preset_loads_and_changes_nothing_but_what_it_names(path):
    chosen = tomllib.loads(path.read_text(encoding="utf-8"))
    config, expected = load_config(preset=path.stem), to_dict(Config())
    # A preset says all that its source does, also where the defaults are the same today.
    for name, value in chosen.items():
        expected[name] = expected[name] | value if name in TABLES else value

    assert to_dict(config) == expected
    assert config != Config()


@pytest.mark.parametrize(("name", "nearest"), [("cod", "code"), ("fine-web", "fineweb"), ("../dedup", ""), ("", "")])
def test_unknown_preset_is_refused_with_the_existing_ones(name, nearest):
    existing = ", ".join(f'"{path.stem}"' for path in PRESETS)
    hint = f"; did you mean {nearest}?" if nearest else ""

    assert message_of(preset=name) == f'--preset: name must be one of {existing} (got "{name}"{hint})'


def test_fault_in_a_preset_names_the_preset(tmp_path, monkeypatch):
    write(tmp_path, "[lsh]\nband = 3", "broken.toml")
    monkeypatch.setattr(config_module, "_PRESETS", tmp_path)

    assert message_of(preset="broken") == "preset broken: unknown key lsh.band (did you mean lsh.bands?)"


# Refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("threshold = 0", "threshold must be a number above 0 and at most 1 (got 0)"),
        ("threshold = 1.01", "threshold must be a number above 0 and at most 1 (got 1.01)"),
        ("threshold = nan", "threshold must be a number above 0 and at most 1 (got NaN)"),
        ("threshold = true", "threshold must be a number above 0 and at most 1 (got true)"),
        ("threshold = '0.8'", 'threshold must be a number above 0 and at most 1 (got "0.8")'),
        ("[threshold]", "threshold must be a number above 0 and at most 1 (got {})"),
        ("mode = 'fast'", 'mode must be one of "lsh", "exact" (got "fast")'),
        ("mode = ['lsh']", 'mode must be one of "lsh", "exact" (got ["lsh"])'),
        ("lsh.bands = 0", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got 0)'),
        ("lsh.bands = 4097", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got 4097)'),
        ("lsh.bands = 21.0", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got 21.0)'),
        ("lsh.bands = true", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got true)'),
        ("lsh.rows = 129", 'lsh.rows must be an integer from 1 to 128, or "auto" (got 129)'),
        ("seed = -1", "seed must be a 64-bit integer of at least 0 (got -1)"),
        (f"seed = {INT64_MAX + 1}", f"seed must be a 64-bit integer of at least 0 (got {INT64_MAX + 1})"),
        ("shingles.shingle_size = 65", "shingles.shingle_size must be an integer from 1 to 64 (got 65)"),
        ("buckets.max_bucket = 1", "buckets.max_bucket must be a 64-bit integer of at least 2 (got 1)"),
        (
            "alerts.bucket_size_p99_above = inf",
            "alerts.bucket_size_p99_above must be a finite number of at least 0, or empty (got Infinity)",
        ),
        ("input.text_column = 3", "input.text_column must be a Unicode string (got 3)"),
        ("input.text_column = 2026-11-21", 'input.text_column must be a Unicode string (got "2026-11-21")'),
        ("output.mode = 'a\\nb'", 'output.mode must be one of "filter", "annotate", "ids", "weights" (got "a\\\\nb")'),
        ('output.mode = "a\\nb"', 'output.mode must be one of "filter", "annotate", "ids", "weights" (got "a\\nb")'),
        (
            "alerts.removal_rate_above = 30",
            "alerts.removal_rate_above must be a number of at least 0 and at most 1, or empty (got 30)",
        ),
        (
            "alerts.removal_rate_above = '30%'",
            'alerts.removal_rate_above must be a number of at least 0 and at most 1, or empty (got "30%")',
        ),
        (
            "alerts.index_bytes_above = inf",
            "alerts.index_bytes_above must be a finite number of at least 0, or empty (got Infinity)",
        ),
        ("keep.order = 'longest'", 'keep.order must be a list of Unicode strings (got "longest")'),
        ("keep.order = [1]", "keep.order must be a list of Unicode strings (got [1])"),
        ("lsh = 5", "lsh must be a table (got 5)"),
        ("[[lsh]]\nbands = 5", 'lsh must be a table (got [{"bands": 5}])'),
        ("lsh.bands = 4096\nlsh.rows = 5", "lsh.bands * lsh.rows must be at most 16384 (got 20480)"),
        ("lsh.bands = 'most'", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got "most")'),
    ],
)
def test_value_out_of_rule_is_refused_in_one_line(tmp_path, text, message):
    path = write(tmp_path, text)

    assert message_of(path) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("3", "--set: profile must be a list of tables (got 3)"),
        ("[3]", "--set: profile must be a list of tables (got [3])"),
        ("[{}]", 'profile: every entry must have a name of lower-case letters, digits, "-" and "_", other than '),
        ('[{name = "default", when = {a = 1}}]', "profile: every entry must have a name of lower-case letters, digits"),
        ('[{name = "a"}]', 'profile "a": when must be a table of columns, each with strings, integers or booleans'),
        ('[{name = "a", when = {}}]', 'profile "a": when must be a table of columns, each with strings'),
        ('[{name = "a", when = {x = []}}]', 'profile "a": when must be a table of columns, each with strings'),
        ('[{name = "a", when = {x = 1.5}}]', 'profile "a": when must be a table of columns, each with strings'),
        ('[{name = "a", when = "x"}]', 'profile "a": when must be a table of columns, each with strings'),
        (
            '[{name = "a", when = {x = 1}, keep.order = []}]',
            'profile "a": keys must be name, when, threshold, shingles.',
        ),
        ('[{name = "a", when = {x = 1}, treshold = 2}]', 'profile "a": keys must be name, when, threshold, shingles.'),
        (
            '[{name = "a", when = {x = 1}, threshold = 2}]',
            'profile "a": Config: threshold must be a number above 0 and',
        ),
        ('[{name = "a", when = {x = 1}, lsh = {bands = 4096, rows = 9}}]', 'profile "a": Lsh: bands * rows must be at'),
        (
            '[{name = "a", when = {x = 1}}, {name = "a", when = {x = 2}}]',
            "profile: every entry must have a name of its",
        ),
    ],
)
def test_a_profile_that_is_none_is_refused(entry, message):
    assert message_of(overrides=[f"profile={entry}"]).startswith(message)


def test_a_profile_has_its_own_settings_and_the_others_of_all(tmp_path):
    text = """
threshold = 0.6
[lsh]
recall = 0.9
[[profile]]
name = "code"
when.type = ["py", "c", "py"]
shingles.shingle_size = 8
[profile.text]
tokens = "punctuation"
[[profile]]
name = "b"
when = {lang = "zh", n = [1, true]}
threshold = 0.9
"""
    config = load_config(write(tmp_path, text))
    own = config.by_profile

    assert [*own] == ["code", "b", "default"]
    assert [each.when for each in config.profile] == [
        (("type", ("py", "c")),),
        (("lang", ("zh",)), ("n", ("1", "true"))),
    ]
    assert [each.threshold for each in own.values()] == [0.6, 0.9, 0.6]
    assert [each.shingles.shingle_size for each in own.values()] == [8, 5, 5]
    assert [each.text.tokens for each in own.values()] == ["punctuation", "words", "words"]
    assert own["code"].banding == own["default"].banding != own["b"].banding
    assert own["default"] == replace(config, profile=())
    # Numbers in place of "auto" are those of each.
    settled = config.settle()
    assert {name: each.banding for name, each in settled.by_profile.items()} == {
        name: each.banding for name, each in own.items()
    }
    assert settled.settle() == settled == load_config(settings=config_module.flatten(to_dict(settled)))


@pytest.mark.parametrize("entry", ["", "newest", "latest", "latest:", "longest:text", "longest:", "source", "sql: "])
def test_an_entry_of_the_order_that_is_no_rule_is_refused_with_those_there_are(entry):
    known = "smallest_id, longest, shortest, latest:COLUMN, earliest:COLUMN, highest:COLUMN, lowest:COLUMN"

    assert message_of(settings={"keep.order": ["longest", entry]}) == (
        f"keep.order: must have entries of {known}, source:A,B, sql:EXPRESSION (got {entry!r})"
    )


@pytest.mark.parametrize(
    ("text", "unknown", "nearest"),
    [
        ("lsh.band = 3", "lsh.band", "lsh.bands"),
        ("treshold = 0.8", "treshold", "threshold"),
        ("[lhs]\nbands = 3", "lhs.bands", "lsh.bands"),
        ("[shingle]\nshingle_size = 3", "shingle.shingle_size", "shingles.shingle_size"),
        ("[outputs]", "outputs", "output.files"),
        ("bands = 3", "bands", "lsh.bands"),
        ("max-bucket = 3", "max-bucket", "buckets.max_bucket"),
        ("[shingles]\nbands = 3", "shingles.bands", "lsh.bands"),
        ("[lsh]\nthreshold = 0.8", "lsh.threshold", "threshold"),
        ('"lsh.bands" = 3', '"lsh.bands"', "lsh.bands"),
        ('"a\\nb".bands = 3', '"a\\nb".bands', "lsh.bands"),
    ],
)
def test_unknown_key_is_refused_with_the_nearest_known_one(tmp_path, text, unknown, nearest):
    path = write(tmp_path, text)

    assert message_of(path) == f"{path}: unknown key {unknown} (did you mean {nearest}?)"


@pytest.mark.parametrize(
    ("gone", "advice"),
    [
        ("shingles.seed = 3", "shingles.seed is no setting any more: set seed, one for all hashes"),
        ("[lsh]\nseed = 3", "lsh.seed is no setting any more: set seed, one for all hashes"),
        (
            "candidates.estimate_sigmas = 4.0",
            "candidates.estimate_sigmas is no setting any more: it is always 4; raise",
        ),
        ("components.driver_edges = 1", "components.driver_edges is no setting any more: it is always 5,000,000; set "),
        ('input.format = "delta"', 'input.format = "delta" is no setting any more: name the folder as a table'),
        ("url.scheme = 'ignore'", "url.scheme is no setting any more: leave it out, since http and https are always"),
    ],
)
def test_a_setting_of_an_earlier_release_is_refused_with_what_takes_its_place(tmp_path, gone, advice):
    path = write(tmp_path, gone)

    assert message_of(path).startswith(f"{path}: {advice}")


def test_a_keyword_of_an_earlier_release_is_refused_with_what_takes_its_place():
    with pytest.raises(ConfigError, match=r"settings: keep\.copies_per_source is no setting any more"):
        load_config(settings={name_setting("copies_per_source"): 3})


def test_each_setting_that_is_gone_is_unknown_and_in_the_changelog():
    assert not GONE.keys() & SETTINGS.keys()
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")

    assert [name for name in GONE if f"`{name}`" not in changes] == []


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("threshold=2", "threshold must be a number above 0 and at most 1 (got 2)"),
        ("lsh.band=2", "unknown key lsh.band (did you mean lsh.bands?)"),
        ("lsh.bands.x=2", 'lsh.bands must be an integer from 1 to 4096, or "auto" (got {"x": 2})'),
        ("lsh=2", "lsh must be a table (got 2)"),
        ("input.text_column=\udcff", 'input.text_column must be a Unicode string (got "\udcff")'),
        ("mode=exat", 'mode must be one of "lsh", "exact" (got "exat"; did you mean exact?)'),
        (
            "layers=exact,nere",
            f'{SOME_LAYERS} (got ["exact", "nere"]; did you mean near?)',
        ),
        ("layers=near,near", f'{SOME_LAYERS} (got ["near", "near"])'),
        ("layers=[{}]", f"{SOME_LAYERS} (got [{{}}])"),
        ("threshold", 'override must be key=value (got "threshold")'),
    ],
)
def test_wrong_override_is_refused(override, message):
    assert message_of(overrides=[override]) == f"--set: {message}"


def test_what_an_option_takes_is_a_value_as_it_stands():
    given = {"--id-column": ("input.id_column", '"1"'), "--layers": ("layers", "exact,near")}
    config = load_config(overrides=["layers=url", "input.id_column=x"], options=given)

    assert (config.input.id_column, config.layers) == ('"1"', ("exact", "near"))
    assert message_of(options={"--threshold": ("threshold", "80")}) == (
        "--threshold: threshold must be a number above 0 and at most 1 (got 80)"
    )


def test_wrong_value_is_refused_even_when_a_later_source_replaces_it(tmp_path):
    path = write(tmp_path, "threshold = 3")

    assert message_of(path, overrides=["threshold=0.5"]).startswith(f"{path}: threshold must be")


def test_oversized_signature_names_the_last_source_that_shaped_it(tmp_path):
    path = write(tmp_path, "[lsh]\nbands = 4096\nrows = 4\n")

    assert load_config(path, overrides=["threshold=0.9"]).signature_size == 16384
    assert message_of(path, overrides=["lsh.rows=5", "threshold=0.9"]) == (
        "--set: lsh.bands * lsh.rows must be at most 16384 (got 20480)"
    )
    large = write(tmp_path, "lsh.bands = 4096\nlsh.rows = 5\n", "large.toml")
    assert message_of(large, overrides=["threshold=0.9"]).startswith(f"{large}: lsh.bands * lsh.rows")
    assert load_config(path, overrides=["lsh.rows=5", "lsh.bands=3000"]).signature_size == 15000


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("mode = 'lsh'\n\nthreshold = \n", "(at line 3, column 13)"),
        ("mode = 'lsh'\nmode = 'exact'\n", "(at line 2, "),
        ("mode = 'lsh'\ninput.text_column = '''\nx\n\n", "(at end of document, line 3)"),
    ],
)
def test_syntax_error_names_file_and_line(tmp_path, text, where):
    path = write(tmp_path, text)
    message = message_of(path)

    assert message.startswith(f"{path}: ")
    assert where in message
    assert "\n" not in message


def test_unreadable_file_is_named(tmp_path):
    missing = str(tmp_path / "none.toml")

    assert message_of(missing) == f"{missing}: must be a readable file (got No such file or directory)"
    assert message_of(str(tmp_path)) == f"{tmp_path}: must be a readable file (got Is a directory)"
    assert message_of("a\0b") == "a\0b: must be a readable file (got embedded null byte)"


def test_file_that_is_not_utf8_names_byte_and_line(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes("mode = 'lsh'\ninput.text_column = 'tête'\n".encode("latin-1"))

    assert message_of(str(path)) == f"{path}: must be UTF-8 (got byte 0xea at line 2)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: replace(Config(), threshold=0), "Config: threshold must be a number above 0 and at most 1 (got 0)"),
        (lambda: Config(lsh={"bands": 3}), 'Config: lsh must be a table of type Lsh (got {"bands": 3})'),
        (lambda: Lsh(bands=0), 'Lsh: bands must be an integer from 1 to 4096, or "auto" (got 0)'),
        (lambda: Lsh(bands=4096, rows=5), "Lsh: bands * rows must be at most 16384 (got 20480)"),
        (lambda: Alerts(bucket_size_p99_above=10**400), None),
    ],
)
def test_settings_made_in_code_obey_the_same_rules(build, message):
    with pytest.raises(ConfigError) as caught:
        build()

    assert message is None or str(caught.value) == message


def test_config_error_is_a_dedup_error_and_a_value_error():
    assert issubclass(ConfigError, DedupError)
    assert issubclass(ConfigError, ValueError)


# Values


@pytest.mark.parametrize("name", RANGES)
def test_ends_of_every_range_are_allowed(name):
    owner, entry = SETTINGS[name]
    others = {"bands": {"rows": 1}, "rows": {"bands": 1}}.get(entry.name, {})

    for value in RANGES[name]:
        assert getattr(owner(**{entry.name: value}, **others), entry.name) == value


def test_ranges_are_known_for_every_numeric_setting():
    assert RANGES.keys() == {name for name, (_, entry) in SETTINGS.items() if entry.type in (int, float, Limit, Count)}


def test_integer_for_a_float_becomes_a_float():
    config = Config(threshold=1)

    assert isinstance(config.threshold, float)
    assert to_toml(config) == to_toml(load_config(overrides=["threshold=1.0"]))


@pytest.mark.parametrize("table", [Config, *TABLES.values()])
def test_settings_are_immutable_hashable_and_without_a_dict(table):
    settings = table()
    first = fields(table)[0].name

    with pytest.raises(FrozenInstanceError):
        setattr(settings, first, getattr(settings, first))
    assert hash(settings) == hash(table())
    assert not hasattr(settings, "__dict__")
    with pytest.raises(TypeError, match="positional"):
        table(getattr(settings, first))


def strategy_of(owner):
    """Return valid instances of a table, drawn from the annotations and ranges of its fields."""
    if owner is Lsh:
        sizes = st.integers(1, 4096).flatmap(
            lambda bands: st.tuples(st.just(bands), st.integers(1, min(128, 16384 // bands)))
        )
        return st.builds(lambda size, recall: Lsh(bands=size[0], rows=size[1], recall=recall), sizes, st.floats(0, 1))
    values = {}
    for entry in fields(owner):
        bounds = entry.metadata.get("range")
        if choices := list_choices(entry):
            several = st.lists(st.sampled_from(choices), min_size=1, unique=True).map(tuple)
            # Weights take no other format and number of files.
            single = st.sampled_from([each for each in choices if each != "weights"])
            values[entry.name] = several if entry.type == Texts else single
        elif entry.type is str:
            values[entry.name] = st.text()
        elif entry.type is bool:
            values[entry.name] = st.booleans()
        elif entry.type in (int, Count, Copies):
            numbers = st.integers(bounds.low, bounds.high or INT64_MAX)
            words = () if entry.type is int else get_args(get_args(entry.type)[1])
            values[entry.name] = st.one_of(*map(st.just, words), numbers)
        elif entry.type == Texts:
            known = {"merge": MERGES, "sets": SETS, "columns": COLUMNS}.get(entry.name, RULES)
            least = 2 if entry.name == "columns" else 0
            values[entry.name] = st.lists(st.sampled_from(known), unique=True, min_size=least).map(tuple)
        elif entry.type in (Records, Tables):
            profiles = st.lists(st.sampled_from(PROFILES), unique_by=lambda each: each["name"]).map(tuple)
            of_layers = st.tuples(*map(strategy_of, OF_LAYERS.values()))
            values[entry.name] = profiles if entry.type == Records else of_layers
        elif entry.type in (float, Limit):
            numbers = st.floats(
                bounds.low, bounds.high, exclude_min=bounds.above, allow_nan=False, allow_infinity=False
            )
            values[entry.name] = numbers if entry.type is float else st.one_of(st.just(""), numbers)
        else:
            values[entry.name] = strategy_of(entry.type)
    return st.builds(owner, **values)


@given(config=strategy_of(Config))
def test_written_settings_read_back_equal(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("settings") / "dedup.toml"
    path.write_text(to_toml(config), encoding="utf-8")

    assert load_config(str(path)) == config


@given(text=st.text())
def test_any_string_survives_as_a_quoted_override(text):
    written = to_toml(Config(input=Input(text_column=text)))
    # Not splitlines(), which also breaks at characters that TOML lets stand inside a string.
    quoted = next(line for line in written.split("\n") if line.startswith("text_column = ")).partition(" = ")[2]

    assert load_config(overrides=[f"input.text_column={quoted}"]).input.text_column == text


def test_written_settings_are_whole_and_in_the_order_of_the_defaults_file():
    keys = [line for line in DEFAULTS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]

    # The file divides the digits of great numbers.
    whole = [re.sub(r"(?<=\d)_(?=\d{3})", "", key) for key in keys]
    assert [line for line in to_toml(Config()).splitlines() if line] == whole


def test_dictionary_is_plain_and_nested():
    changed = to_dict(Config(buckets=Buckets(max_bucket=7)))

    assert changed["buckets"] == {"max_bucket": 7}
    assert list(changed) == ["threshold", "engine", "mode", "layers", "seed", "profile", *TABLES]


def test_settings_load_without_the_heavy_packages():
    code = (
        "import sys; from dedup.settings.files import load_config; load_config(preset='code');"
        "print({'pyspark', 'numpy', 'pandas', 'pyarrow'} & sys.modules.keys())"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert run.stdout == "set()\n"


@pytest.mark.parametrize(
    ("settings", "idle"),
    [
        ({"layers": ["exact"], "threshold": 0.7, "mode": "exact", "buckets.max_bucket": 9}, 3),
        ({"passages.tokens": 30}, 1),
        ({"passages.tokens": 30, "layers": ["exact", "passages"], "keep.order": ["longest"]}, 0),
        ({"layers": ["lines"], "keep.order": ["longest"], "seed": 2}, 1),
        ({"layers": ["url"], "url.column": "url", "shingles.unit": "set", "shingles.shingle_size": 1}, 0),
        ({"layers": ["containment"], "shingles.shingle_size": 3, "buckets.max_bucket": 9}, 0),
    ],
)
def test_settings_that_no_layer_reads_are_told_in_a_line(caplog, settings, idle):
    with caplog.at_level(logging.WARNING, "dedup"):
        Job(inputs=[], output="", config=load_config(settings=settings)).settle()

    told = [each.partition(": changes nothing with layers = ")[0].split(", ") for each in caplog.messages]
    assert [len(each) for each in told] == [idle] * bool(idle)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"mode": "exact", "lsh.bands": 9, "lsh.rows": 2},
            ['lsh.bands, lsh.rows: changes nothing with mode = "exact"'],
        ),
        ({"lsh.bands": 9, "lsh.rows": 2}, []),
        (
            {"layers": ["passages"], "passages.drop_share": 0.9, "passages.min_tokens_left": 3},
            ['passages.drop_share: changes nothing with passages.action = "cut"'],
        ),
        ({"layers": ["passages"], "passages.action": "drop", "passages.drop_share": 0.9}, []),
        (
            {"layers": ["semantic"], "semantic.vector_column": "v", "semantic.encoder": "json:loads"},
            ['semantic.encoder: changes nothing with semantic.vector_column = "v"'],
        ),
        ({"layers": ["exact"], "mode": "exact", "lsh.rows": 9}, ["mode, lsh.rows: changes nothing with layers"]),
    ],
)
def test_settings_that_another_one_makes_idle_are_told(caplog, settings, told):
    with caplog.at_level(logging.WARNING, "dedup"):
        Job(inputs=[], output="", config=load_config(settings=settings)).settle()

    said = [each for each in caplog.messages if "changes nothing" in each]
    assert [each[: len(words)] for each, words in zip(said, told, strict=True)] == told


def test_settings_need_values_that_there_are():
    for name in list_settings():
        other, *wanted = find_field(name).metadata.get("needs", ["threshold", 0.8])
        for value in wanted:
            check("", other, value, find_field(other))


def test_settings_of_files_are_told_where_spark_reads_a_table_and_paths_are_no_tables(caplog):
    settings = {"input.table": "parquet.`/data/a`", "output.files": 3, "input.format": "csv", "output.format": "csv"}
    Job(inputs=[], output="", config=load_config(settings=settings)).settle()

    assert caplog.messages == [
        "input.format, output.files: changes nothing of a table, whose files Spark reads and writes"
    ]
    for name in ("data/a.parquet", "parquet.`/data/a"):
        with pytest.raises(
            ConfigError, match=r"input.table: must be a table of Spark's catalog, or files named as one"
        ):
            Job(inputs=[], output="", config=load_config(settings={"input.table": name})).settle()


def test_layers_read_settings_that_there_are():
    assert all({*load_layer(name).reads} <= {*SHARED} <= {*list_settings()} for name in LAYERS)


def test_a_run_without_a_store_says_that_it_holds_no_shingle_sets(caplog):
    job = Job(inputs=[], output="", config=load_config(settings={"shingles.stored": False}))

    assert choose_work(job, None) == (job, None)
    assert caplog.messages == ["shingles.stored: changes nothing without --store, as only a store holds shingle sets"]

"""Runs drawn at random: corpora with hostile documents, settings of all tables together, and what holds of every end.

`python -m tests.draws FIRST COUNT` makes those of so many seeds in memory, and tells of those that break a rule.
"""

import csv
import io
import json
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self
from unittest.mock import patch

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import ipc

from dedup.errors import AlertError, DedupError
from dedup.layers import LAYERS
from dedup.report import figures  # noqa: F401 - what is loaded is drawn with in a thread, not in a process
from dedup.report.show import to_table
from dedup.run.growing import Growth
from dedup.run.job import Job
from dedup.run.local import run_in_memory
from dedup.settings.files import load_config
from dedup.store.deleting import delete_ids
from dedup.store.lookup import View
from dedup.store.tables import Tables
from dedup.store.upkeep import check as check_store
from dedup.store.upkeep import compact
from tests.strategies import CASING, EXPANDING, MARKS, SEPARATORS, UNSPACED, WORDS

FIELDS = ("id", "text", "site", "url", "lang", "date", "quality")
TEXT_TYPES = (pa.string(), pa.large_string(), pa.binary())
MALFORMED = ('{"id": 1, "text": "cut', "nonsense", "[1, 2]", '"text"', '{"id": 1} x', "\0")
SEMANTIC = "semantic"
NAMED = ("quiz.jsonl", "pairs.jsonl", "key")
"""Files that settings name."""
PIECES = (
    *("dedup.run.opening.SPLIT_BYTES", "dedup.run.opening.LEAST_SPLIT_BYTES"),
    *("dedup.run.spark_input.SPLIT_BYTES", "dedup.files.formats.records.BLOCK_BYTES"),
)
FAULTS = ("must add up to", "must be the", "did the input change", "must not change")
"""Parts of messages that here tell of a fault of the program."""
TOKENLESS = ("", None, " ", "\n\n", "...!", "- - -")
EMPTY = (*TOKENLESS, "\u200b", "\u0301", "\0", "\ufeff")
SITES = ("a", "b", "", None, "ü\n<b>", "\x1b[31m")
URLS = (
    *("https://example.org/a", "http://example.org/a?utm_source=x", "https://example.org/b#c", None, ""),
    *("no address", "http://[::1", "https://xn--a.example/%zz", "http://\u0661.example:99999/", "data:,x"),
)
LANGUAGES = ("en", "de", None, "")
DATES = ("2024-01-31", "2024-01-31T10:00:00Z", "1970-01-01", None)
NUMBERS = (0.0, -1.5, 1e300, None, float("inf"), float("nan"))
VOCABULARY = tuple(f"word{number}" for number in range(80))
TEXTS = (
    {"text.case": "keep", "text.accents": "drop"},
    {"text.digits": "zero", "text.tokens": "punctuation", "seed": 2**63 - 1},
)
HOSTILE: tuple[Callable[[Random], str], ...] = (
    lambda chance: "a" + "".join(chance.choices("\u0301\u0323\u0327\u0345\u05b0", k=3000)),
    lambda chance: "".join(chance.choices(MARKS + UNSPACED + SEPARATORS + CASING + EXPANDING + WORDS, k=200)),
    lambda chance: "".join(chr(chance.randrange(0xD7FF)) for _ in range(300)),
    lambda chance: "".join(chr(chance.randrange(0xE000, 0x110000)) for _ in range(100)),
    lambda _: "<div><p>" * 400 + "x" + "</p></div>" * 400,
    lambda _: "\n" * 3000 + "end",
    lambda _: "\r\n\u2028\u2029\x0b\x0c\x85".join(VOCABULARY[:30]),
    lambda _: "x" * 50_000,
    lambda _: "\ufdfa" * 300,
    lambda chance: "\u202e" + " ".join(chance.choices("\u05d0\u0627\u0628\u200f", k=200)),
    lambda _: "漢" * 400,
    lambda _: '{"id": 1, "text": "a,b\\"c"}\n"a","b\n',
    lambda _: "\U0001f468\u200d\U0001f469\u200d\U0001f467 " * 60,
    lambda _: "https://a.b/c?d=e&f " * 60,
    lambda _: "' OR 1=1; -- \x00 ${jndi:ldap://x} {{7*7}} %s \\",
)
LARGE: tuple[Callable[[Random], str], ...] = (
    lambda _: "again " * 20_000,
    lambda chance: " ".join(f"n{chance.randrange(10**6)}" for _ in range(4000)),
    lambda chance: " ".join(chance.choices(VOCABULARY, k=12)) * 400,
    lambda chance: "\n".join(f"{number} {chance.choice(VOCABULARY)}" for number in range(3000)),
)


def draw_texts(chance: Random) -> list[str | None]:
    """Return the texts of a corpus."""
    count = chance.choice((0, 1, 2, 3, 8, 16, 16, 30, 30, 60))
    kind = chance.random()
    empty = chance.choice((EMPTY, TOKENLESS))
    if kind < 0.07:
        return chance.choices(empty, k=count)
    if kind < 0.14:
        own = [" ".join(f"w{number}x{place}" for place in range(12)) for number in range(chance.choice((1, 24, 24)))]
        return [own[number % len(own)] for number in range(chance.choice((40, 600, 600)))]
    bases = [chance.choices(VOCABULARY, k=chance.choice((1, 3, 12, 40, 150))) for _ in range(chance.randint(1, 5))]
    lines = [" ".join(chance.choices(VOCABULARY, k=chance.randint(1, 8))) for _ in range(3)]
    texts = [_draw_text(chance, bases, lines) for _ in range(count)]
    texts += chance.choices(texts, k=chance.choice((0, 0, 1, 5))) if texts else []
    if kind < 0.25:
        texts = [*chance.choices(empty, k=9), *texts]
    else:
        chance.shuffle(texts)
    return texts


def _draw_text(chance: Random, bases: Sequence[Sequence[str]], lines: Sequence[str]) -> str | None:  # noqa: C901
    words = list(chance.choice(bases))
    kind = chance.randrange(100)
    if kind < 10:
        return chance.choice(EMPTY)
    if kind < 18:
        return chance.choice(HOSTILE)(chance)
    if kind < 19:
        return chance.choice(LARGE)(chance)
    if kind < 25:
        return chance.choice(("a", "A", " a! ", "\uff21", "word1", "漢"))
    if kind < 45:
        for _ in range(chance.randint(1, 4)):
            place = chance.randint(0, len(words))
            words[place : place + chance.randint(0, 1)] = chance.choices(VOCABULARY, k=chance.randint(0, 1))
    elif kind < 55:
        begin = chance.randrange(len(words))
        words = words[begin : chance.randint(begin, len(words))]
    elif kind < 60:
        words += chance.choice(bases)
    elif kind < 65:
        words = [word.upper() if chance.random() < 0.5 else f"{word}," for word in words]
    if kind >= 80:
        rows = [*chance.choices(lines, k=2), " ".join(words), chance.choice(lines)]
        return chance.choice(("\n", "\r\n", "\n\n")).join(rows)
    return " ".join(words)


def _rarely(chance: Random, settings: dict[str, Any], **values: Sequence[Any]) -> None:
    """Set some of the settings, named with `__` for the dot, to one of their values."""
    for name, each in values.items():
        if chance.random() < 0.2:
            settings[name.replace("__", ".")] = chance.choice(each)


def draw_settings(chance: Random, *, is_text: bool) -> dict[str, Any]:  # noqa: C901
    """Return settings by their dotted keys, few of which are refused."""
    named = not is_text
    settings: dict[str, Any] = {"shingles.shingle_size": chance.choice((1, 2, 3, 5))}
    if named and chance.random() < 0.7:
        settings["input.id_column"] = "id"
    if named and chance.random() < 0.6:
        settings["input.source_column"] = "site"
    layers = chance.choice((["near"], ["exact", "near"]))
    if chance.random() < 0.6:
        layers = chance.sample(
            [each for each in LAYERS if each != SEMANTIC], chance.choice((1, 1, 2, 3, len(LAYERS) - 1))
        )
    settings["layers"] = layers if named else [each for each in layers if each != "url"] or ["near"]
    _rarely(
        chance,
        settings,
        threshold=(0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 1.0),
        mode=("exact",),
        shingles__shingle_size=(64,),
        lsh__recall=(0.0, 0.5),
        seed=(0, 2**63 - 1),
        buckets__max_bucket=(2, 3, 5),
        cluster__linkage=("representative",),
        cluster__max_component=(1, 2, 3),
        exact__compare=("text",),
        url__tracking=(["*"],),
        alerts__on_breach=("fail",),
        alerts__removal_rate_above=(0.0, 0.5),
        alerts__empty_rate_above=(0.0, 0.5),
    )
    kind = chance.random()
    if kind < 0.15:
        _rarely(chance, settings, output__files=(1, 3), output__mode=("ids",))
        settings["output.format"] = chance.choice(("input", "parquet", "jsonl", "csv"))
    elif kind < 0.3:
        settings["output.mode"] = chance.choice(("annotate", "ids", "weights"))
    elif kind < 0.4 and not is_text:
        settings["keep.merge"] = chance.sample(["count", "first:date", "urls:url", "sites:site"], chance.randint(1, 4))
    if chance.random() < 0.2:
        settings["lsh.bands"], settings["lsh.rows"] = chance.choice(((1, 1), (64, 2), (1, 128), (9, "auto"), (100, 4)))
    # Each makes tables of its own, half a second.
    settings |= chance.choice((*[{}] * 16, *TEXTS))
    _rarely(
        chance,
        settings,
        lines__unit=("paragraph",),
        lines__compare=("text",),
        lines__action=("ignore", "mark"),
        containment__threshold=(0.3, 1.0),
        contamination__action=("cut", "mark"),
        contamination__margin=(1, 5),
        contamination__common=(1,),
        passages__action=("drop", "mark"),
        passages__keep_first=(False,),
        passages__drop_share=(0.1, 1.0),
        passages__min_tokens_left=(0, 1),
        passages__ends=("sentence",),
    )
    if "near" in settings["layers"]:
        _rarely(chance, settings, keep__copies=(2, "log2", "sqrt"))
    settings["lines.documents"], settings["lines.min_characters"] = chance.choice((1, 3)), chance.choice((1, 20))
    settings["containment.min_shingles"] = chance.choice((1, 20))
    settings["contamination.match_tokens"] = chance.choice((1, 3, 13))
    settings["passages.tokens"] = chance.choice((10, 12, 50))
    if named:
        order = ("longest", "shortest", "smallest_id", "latest:date", "highest:quality", "lowest:quality", "source:b,a")
        order = order if "input.source_column" in settings else order[:-1]
        settings["url.column"] = "url"
        _rarely(
            chance,
            settings,
            keep__order=[chance.sample(order, chance.randint(0, 3))],
        )
        if "input.source_column" in settings:
            _rarely(
                chance,
                settings,
                limits__per_source=(1, 2),
                alerts__survival_by_source_below=(0.0, 0.9),
            )
        if chance.random() < 0.15:
            own: dict[str, Any] = {"threshold": 0.5, "shingles": {"shingle_size": 2}, "text": {"case": "keep"}}
            chosen = chance.sample([*own], chance.randint(0, 3))
            settings["profile"] = [
                {"name": "german", "when": {"lang": "de"}} | {name: own[name] for name in chosen},
                {"name": "rest", "when": {"lang": ["", "fr"]}},
            ][: chance.randint(1, 2)]
    return settings


def draw_vectors(seed: int, layers: Sequence[str]) -> dict[str, Any]:
    """Return what adds the layer semantic to some draws, which are otherwise those without it; it takes longest."""
    chance = Random(f"{SEMANTIC} {seed}")
    if chance.random() > 0.1:
        return {}
    return {
        "layers": [*layers, SEMANTIC],
        "semantic.threshold": chance.choice(("", 0.3, 0.8)),
        "semantic.linkage": chance.choice(("representative", "component")),
        "semantic.action": chance.choice(("remove", "remove", "check")),
        "semantic.overlap": chance.choice((0.0, 0.5)),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """A corpus, and the settings to run with."""

    seed: int
    kind: str
    """What the names of its files end in."""
    rows: list[dict[str, Any]]
    settings: dict[str, Any]
    batches: int = 0
    """Of a store; 0 for a run without one."""
    piece_bytes: int = 0
    """Of a split, and of a block that is read at once; 0 for those of any run."""

    @classmethod
    def of(cls, seed: int) -> Self:
        """Draw by a seed."""
        chance = Random(seed)
        kind = chance.choice(("parquet", "parquet", "arrow", "jsonl", "jsonl.gz", "csv", "txt"))
        texts, settings = draw_texts(chance), draw_settings(chance, is_text=kind == "txt")
        ids: list[Any] = chance.sample(range(-(2**61), 2**61), len(texts))
        if kind == "csv" or chance.random() < 0.4:
            ids = [f"{chance.choice(SITES) or ''}{number}" for number in range(len(texts))]
        # No number of JSON is infinite.
        numbers = NUMBERS[:4] if "json" in kind else NUMBERS
        rows = [
            {
                "id": own,
                "text": text,
                "site": chance.choice(SITES),
                "url": chance.choice(URLS),
                "lang": chance.choice(LANGUAGES),
                "date": chance.choice(DATES),
                "quality": chance.choice(numbers),
            }
            for own, text in zip(ids, texts, strict=True)
        ]
        if "input.id_column" not in settings and rows:
            rows += chance.choices(rows, k=chance.choice((0, 1, 4)))
        batches = chance.choice((1, 2, 3)) if chance.random() < 0.1 else 0
        if batches:
            unknown = ("mode", "layers", "profile", "limits.per_source", "keep.merge", "keep.copies")
            settings = {name: value for name, value in settings.items() if name not in unknown and value != "weights"}
        elif "input.id_column" in settings and "profile" not in settings and chance.random() < 0.1:
            settings["evaluation.labeled_pairs"] = "pairs.jsonl"
        if not batches:
            settings |= draw_vectors(seed, settings["layers"])
        if "json" in kind and chance.random() < 0.3:
            settings["input.on_bad_record"] = "quarantine"
        if chance.random() < 0.05:
            settings["hash.key_file"] = "key"
        piece_bytes = chance.choice((700, 9000)) if chance.random() < 0.2 else 0
        return cls(seed=seed, kind=kind, rows=rows, settings=settings, batches=batches, piece_bytes=piece_bytes)

    @property
    def is_named(self) -> bool:
        """Whether an id that the input has tells which row is meant."""
        return self.kind == "txt" or "input.id_column" in self.settings

    def write(self, folder: Path) -> None:
        """Write the rows as some files, one folder for each batch, and what the settings name."""
        chance, parts = Random(self.seed), max(self.batches, 1)
        for part in range(parts):
            below = folder / f"in {part}"
            below.mkdir(parents=True)
            own, count = self.rows[part::parts], chance.randint(1, 3)
            for number in range(count):
                self._write_file(below / f"part {number}.{self.kind}", own[number::count], chance)
        prompts = ["", "...", *chance.choices([row["text"] or "" for row in self.rows] or [""], k=3)]
        pairs = [chance.sample(self.rows, 2) for _ in range(4)] if len(self.rows) > 1 else []
        labels = [{"left_id": left["id"], "right_id": right["id"]} for left, right in pairs]
        for name, lines in (("quiz.jsonl", [{"q": each} for each in prompts]), ("pairs.jsonl", labels)):
            (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "key").touch(0o600)
        (folder / "key").write_text("a secret of 24 characters")

    def _write_file(self, path: Path, rows: Sequence[dict[str, Any]], chance: Random) -> None:
        if self.kind == "txt":
            for number, row in enumerate(rows):
                path.with_name(f"{number} of {path.name}").write_bytes((row["text"] or "").encode())
        elif "json" in self.kind:
            lines = [json.dumps(row, ensure_ascii=chance.random() < 0.5) for row in rows]
            if "input.on_bad_record" in self.settings:
                lines += chance.choices(MALFORMED, k=chance.randint(0, 3))
                chance.shuffle(lines)
            with pa.output_stream(path, compression="detect") as stream:
                stream.write("".join(f"{line}\n" for line in lines).encode())
        elif self.kind == "csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(rows)
        elif self.kind == "parquet":
            pq.write_table(self._to_table(rows), path, row_group_size=chance.choice((3, 1000)))
        else:
            table = self._to_table(rows)
            with ipc.new_file(path, table.schema) as stream:
                stream.write_table(table, max_chunksize=7)

    def _to_table(self, rows: Sequence[dict[str, Any]]) -> pa.Table:
        types = dict.fromkeys(FIELDS, pa.string())
        types |= {"quality": pa.float64(), "text": TEXT_TYPES[self.seed % len(TEXT_TYPES)]}
        if all(isinstance(row["id"], int) for row in self.rows):
            types["id"] = pa.int64()
        table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})
        nested = [[{"n": len(row["url"] or "")}] * (len(row["url"] or "") % 3) for row in rows]
        return table.append_column("more", pa.array(nested, pa.list_(pa.struct([("n", pa.int32())]))))

    def make(
        self,
        folder: Path,
        name: str = "out",
        *,
        run: Callable[[Job], dict[str, Any]] = run_in_memory,
        add: Callable[[Job, Growth], dict[str, Any]] = run_in_memory,
        baseline: str | None = None,
        **further: object,
    ) -> list[int]:
        """Make the run, or add the batches; return the exit status of each.

        Parameters
        ----------
        folder
            As `write` has left it.
        name
            With which outputs, and the store, begin.
        run, add
            Of an engine.
        further
            Settings by dotted key.
        """
        settings = {"contamination.sets": ["quiz:q:quiz.jsonl"], **self.settings, **further}
        for file in NAMED:
            settings = {key: _place(value, file, folder) for key, value in settings.items()}
        ends, store = [], f"{folder}/{name} store"
        with in_pieces(self.piece_bytes):
            for number, given in enumerate(sorted(folder.glob("in *"))):
                output = folder / f"{name} {number}"

                def act(given: Path = given, output: Path = output, number: int = number) -> dict[str, Any]:
                    config = load_config(settings=settings)
                    job = Job(inputs=[str(given)], output=str(output), config=config, baseline=baseline)
                    growth = Growth(store=store, batch=f"{number}", anew=bool(self.seed % 2))
                    return add(job, growth) if self.batches else run(job)

                status, report = end(act)
                ends.append(status)
                assert output.exists() == (not status)
                if report is not None:
                    self._check(given, output, report)
        if self.batches and not any(ends):
            self._look_into(store)
        return ends

    def make_twice(self, folder: Path) -> list[int]:
        """Make the run in memory, and where it is made in pieces hold it against one made as a whole."""
        self.write(folder)
        ends = self.make(folder)
        if self.piece_bytes and not self.batches:
            baseline = None if any(ends) else f"{folder}/out 0"
            assert replace(self, piece_bytes=0).make(folder, "whole", baseline=baseline) == ends
            assert tell(folder, "out") == tell(folder, "whole")
        return ends

    def _check(self, given: Path, output: Path, report: dict[str, Any]) -> None:
        """Assert that kept and removed rows together are the input exactly, and that the report lacks nothing."""
        assert report["left_out"] == {}, report["left_out"]
        assert to_table(report)
        before, settings = read(given), self.settings
        rows = [row for _, each in before.values() for row in each]
        assert report["documents"] == len(rows) == report["kept"] + report["removed"]
        gone = [str(each) for each in ds.dataset(output / "duplicates").to_table()["id"].to_pylist()]
        assert len(gone) == report["removed"]
        if settings.get("output.mode") == "annotate":
            marked = {name: strip(each) for name, (_, each) in read(output / "annotated").items()}
            assert marked == {name: strip(each) for name, (_, each) in before.items()}
            return
        if settings.get("output.mode") == "weights":
            weights = ds.dataset(output / "weights").to_table().to_pylist()
            assert len(weights) == len(rows)
            known = Counter(each["representative_id"] for each in weights)
            assert all(each["documents"] == known[each["representative_id"]] for each in weights if each["weight"])
            return
        kept, removed = (read(output / name) for name in ("kept", "removed"))
        if settings.get("output.mode") == "ids" or {"output.files", "output.format"} & settings.keys():
            stays = [row for _, each in kept.values() for row in each]
            assert len(stays) == report["kept"]
            if "input.id_column" in settings:
                found = Counter(gone) + Counter(str(row["id"]) for row in stays)
                assert found == Counter(str(row["id"]) for row in rows)
            return
        texts = {self._name(given / name, row): row["text"] for name, (_, own) in before.items() for row in own}
        cuts = self._read_cuts(texts, output)
        # Without a name for its row nothing tells which text a cut one was.
        hidden = {"text"} if cuts and not self.is_named else set()
        for name, (schema, own) in before.items():
            left, stays = kept.get(name, (schema, []))
            assert left == schema or "keep.merge" in settings
            whole = [self._put_back(given / name, row, texts, cuts) for row in stays]
            assert Counter(strip([*whole, *removed.get(name, (None, []))[1]], hidden)) == Counter(strip(own, hidden))

    def _name(self, path: Path, row: Mapping[str, Any]) -> str:
        return str(path) if self.kind == "txt" else str(row["id"])

    def _read_cuts(self, texts: Mapping[str, Any], output: Path) -> dict[str, list[tuple[int, int]]]:
        """Return the spans cut out of texts by the name of their row; assert that they are what they are said to be."""
        cuts: dict[str, list[tuple[int, int]]] = {}
        if (output / "spans").exists():
            for row in ds.dataset(output / "spans").to_table().to_pylist():
                if self.is_named:
                    assert to_text(texts[str(row["id"])])[row["begin"] : row["end"]] == row["text"]
                if row["effect"] == "cut":
                    cuts.setdefault(str(row["id"]), []).append((row["begin"], row["end"]))
        return cuts

    def _put_back(
        self, path: Path, row: dict[str, Any], texts: Mapping[str, Any], cuts: Mapping[str, list[tuple[int, int]]]
    ) -> dict[str, Any]:
        """Return a row that was kept with its text as it was; assert that it has what the cuts leave of that."""
        name = self._name(path, row)
        if not self.is_named or name not in cuts:
            return row
        gone = {place for begin, end in cuts[name] for place in range(begin, end)}
        left = "".join(char for place, char in enumerate(to_text(texts[name])) if place not in gone)
        assert to_text(row["text"]) == left
        return row | {"text": texts[name]}

    def _look_into(self, path: str) -> None:
        """Assert that a store is whole, knows its texts, and is whole again once some are deleted."""
        chance, tables = Random(self.seed), Tables(path)
        assert check_store(tables, mend=False) == []
        texts = [text for row in self.rows if (text := row["text"])]
        for found in View.open(path).look_up(texts):
            assert not found or found[0].jaccard == 1
        if "input.id_column" in self.settings and self.rows:
            gone = chance.sample([str(row["id"]) for row in self.rows], chance.randint(1, len(self.rows)))
            delete_ids(tables, gone, readmit=chance.random() < 0.5)
            compact(tables)
            assert check_store(tables, mend=False) == []


def _place(value: object, name: str, folder: Path) -> object:
    """Return a setting with the place of the file that it names."""
    if isinstance(value, list):
        return [_place(each, name, folder) for each in value]
    return f"{value.removesuffix(name)}{folder}/{name}" if isinstance(value, str) and value.endswith(name) else value


@contextmanager
def in_pieces(size: int) -> Iterator[None]:
    """Let files be cut and read in pieces of so many bytes; of 0 as ever."""
    with ExitStack() as patches:
        for name in PIECES if size else ():
            patches.enter_context(patch(name, size))
        yield


def end(act: Callable[[], dict[str, Any]]) -> tuple[int, dict[str, Any] | None]:
    """Return the exit status of a run, and its report; an error for which the status would be 1 is raised."""
    try:
        # Nothing that an earlier run has left in its thread is there.
        with ThreadPoolExecutor(1) as anew:
            return 0, anew.submit(act).result()
    except DedupError as error:
        if not str(error) or any(said in str(error) for said in FAULTS):
            raise
        REFUSED[str(error).split(" (got")[0][:80]] += 1
        return 3 if isinstance(error, AlertError) else 2, None


REFUSED: Counter[str] = Counter()
"""Messages of runs that ended in 2 or 3, as they begin."""


def read(folder: Path) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Return the schema, if it has one, and the whole rows of each file of a folder by its name."""
    found = {}
    # Hadoop lays checksums beside its files, in hidden ones.
    for path in sorted(each for each in folder.glob("[!.]*") if each.is_file()):
        schema: Any = None
        if path.suffix in {".parquet", ".arrow"}:
            table = pq.read_table(path) if path.suffix == ".parquet" else ipc.open_file(path).read_all()
            schema, rows = table.schema, table.to_pylist()
        elif path.suffix == ".txt":
            rows = [{"text": path.read_bytes()}]
        else:
            with pa.input_stream(path, compression="detect") as stream:
                content = stream.read()
            if ".csv" in path.name:
                rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
            else:
                rows = [json.loads(line) for line in content.splitlines() if line.decode() not in MALFORMED]
        found[path.name] = schema, rows
    return found


def tell(folder: Path, name: str) -> dict[str, Counter[str]]:
    """Return the rows of all tables of the outputs of a name, whatever file they are in."""
    parts = ("kept", "removed", "annotated", "duplicates", "edges", "near_misses", "spans", "quarantine", "changes")
    found = {}
    for output in sorted(folder.glob(f"{name} [0-9]")):
        for part in parts:
            rows = [row for _, each in read(output / part).values() for row in each]
            found[f"{output.name[len(name) :]} {part}"] = Counter(map(repr, rows))
    return found


def to_text(value: str | bytes | None) -> str:
    """Return a text as layers see it."""
    return value.decode() if isinstance(value, bytes) else value or ""


def strip(rows: Sequence[Mapping[str, Any]], names: Collection[str] = ()) -> list[str]:
    """Write rows without these columns, and without those that a run adds."""
    return [
        repr({name: value for name, value in row.items() if name not in names and not name.startswith("dedup_")})
        for row in rows
    ]


def main(first: int, count: int) -> int:
    """Make runs in memory; return 1 if one breaks a rule."""
    logging.disable(logging.WARNING)
    ends, begin, broken = Counter[int](), time.monotonic(), []
    for seed in range(first, first + count):
        # Plots take four fifths of a small run.
        with patch("dedup.report.summary.draw_plots", lambda *_: {}), tempfile.TemporaryDirectory() as scratch:
            try:
                ends.update(Draw.of(seed).make_twice(Path(scratch)))
            except Exception:  # noqa: BLE001 - any is a fault
                broken.append(seed)
                print(f"seed {seed}: {traceback.format_exc()}")
    print(f"exit statuses {dict(ends)} in {time.monotonic() - begin:.0f} s; {len(broken)} broke a rule: {broken}")
    print(*(f"{times:5} {said}" for said, times in REFUSED.most_common()), sep="\n")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

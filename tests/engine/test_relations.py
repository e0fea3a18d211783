"""Relations that workers evaluate by themselves: the rows of the same words in Python, whatever is asked for."""

from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest

from dedup.engine.engine import Tally
from dedup.engine.relations import Fragment, Join, Map, NotNull, Projection, TableScan, Union
from dedup.engine.spark_rows import SparkRows, share
from dedup.engine.table import WrittenFiles
from dedup.run.tables import _list_fragments
from tests.engine.tables import make_table

NUMBERS = pa.schema({"doc_id": pa.int64(), "size": pa.int64(), "name": pa.string()})
OF = pa.schema({"of": pa.int64()})
CELLS = pa.schema({"key": pa.int64(), "target": pa.int64()})


@dataclass(frozen=True)
class Given:
    """Rows of which each batch is a fragment."""

    rows: list[pa.RecordBatch]

    @property
    def schema(self):
        return self.rows[0].schema

    @property
    def fragments(self):
        return [Fragment("", number, batch.nbytes) for number, batch in enumerate(self.rows)]

    def read(self, number, columns):
        return [self.rows[number].select([*columns])] if self.rows[number].num_rows else []


def draw(chance, schema, rows, most):
    """Return rows with nulls and repetitions, some fragments empty."""
    values = [
        [None if chance.random() < 0.1 else int(chance.integers(-most, most)) for _ in range(rows)] for _ in schema
    ]
    columns = [pa.array(each, pa.int64()).cast(field.type) for each, field in zip(values, schema, strict=True)]
    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
    bounds = [0, *sorted(chance.integers(0, rows + 1, 4).tolist()), rows]
    return [whole.slice(begin, end - begin) for begin, end in pairwise(bounds)]


def read(relation, columns):
    """Return the rows of all fragments, by fragment."""
    found = [batch for number in range(len(relation.fragments)) for batch in relation.read(number, columns)]
    assert all(batch.num_rows and batch.schema.names == [*columns] for batch in found)
    return sorted((tuple(row.values()) for batch in found for row in batch.to_pylist()), key=repr)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize(("count", "others"), [(40, 30), (40, 0), (0, 10), (300, 3)])
def test_a_join_is_that_of_the_words(how, count, others):
    chance = np.random.default_rng(count + others)
    rows, cells = draw(chance, NUMBERS, count, 9), draw(chance, CELLS, others, 9)
    added = pa.schema([CELLS.field("target")]) if how in {"inner", "left"} else pa.schema([])

    joined = Join(Given(rows), Given(cells), "size", "key", added, how)

    known = [row for batch in cells for row in batch.to_pylist() if row["key"] is not None]
    expected = []
    for row in chain.from_iterable(batch.to_pylist() for batch in rows):
        targets = [each["target"] for each in known if each["key"] == row["size"]]
        if how in {"semi", "anti"}:
            expected += [(row["name"],)] if bool(targets) == (how == "semi") else []
        else:
            expected += [(row["name"], each) for each in targets or ([None] if how == "left" else [])]
    assert read(joined, ["name", *added.names]) == sorted(expected, key=repr)
    # The same rows, whether columns of one side or of both are asked for.
    assert [row[:1] for row in read(joined, ["name", *added.names])] == read(joined, ["name"])


def test_words_follow_one_another():
    chance = np.random.default_rng(4)
    rows, more = draw(chance, NUMBERS, 50, 5), draw(chance, NUMBERS, 20, 5)

    def double(batches):
        yield Tally(seen=1)
        for batch in batches:
            yield pa.record_batch({"of": [2 * value for value in batch["n"].to_pylist()]})

    named = Projection(Union([Given(rows), Given(more)]), {"n": "size", "name": "name"})
    assert read(Map(NotNull(named, "n"), ["n"], double, OF), ["of"]) == sorted(
        (
            (2 * row["size"],)
            for row in chain.from_iterable(batch.to_pylist() for batch in [*rows, *more])
            if row["size"] is not None
        ),
        key=repr,
    )


def refuse():
    raise AssertionError("a DataFrame is planned that nobody reads")


@pytest.mark.parametrize("cores", [1, 3])
def test_workers_read_what_they_have_written(spark, tmp_path, monkeypatch, cores):
    """Files of several row groups, of which each is of one task."""
    monkeypatch.setattr("dedup.engine.spark_rows.READ_BYTES", 100)
    monkeypatch.setattr("dedup.engine.relations.SENT_BYTES", 100)
    chance = np.random.default_rng(cores)
    whole = pa.Table.from_batches(draw(chance, NUMBERS, 200, 9))
    table = make_table(spark, [tuple(row.values()) for row in whole.to_pylist()], NUMBERS).repartition(3)
    written = WrittenFiles(folder=str(tmp_path), rows=table.schema)
    files = table.mapInArrow(written(iter), written.schema).toArrow().to_pylist()

    relation = _list_fragments(str(tmp_path), files, NUMBERS)
    found = replace(SparkRows.of(table), relation=relation, plan=refuse).select("size", "name")
    passed = found.mapInArrow(iter, table.select("size", "name").schema).toArrow()

    assert isinstance(relation, TableScan)
    assert len(share(relation, cores)) > 1
    assert sorted(passed.to_pylist(), key=repr) == sorted(whole.select(["size", "name"]).to_pylist(), key=repr)

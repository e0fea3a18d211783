"""A store that an earlier release has written is read and grown by this one."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dedup.errors import ConfigError, StorageError
from dedup.settings.hashspec import HashSpec
from dedup.settings.options import Config
from dedup.store import state
from dedup.store.deleting import delete
from dedup.store.state import read_state
from dedup.store.tables import Tables
from dedup.store.upkeep import check, note_outputs
from tests.engine import SEARCH, Corpus, Row
from tests.store import add, edges_of, find_union, list_edges, list_members, take_down
from tests.test_pipeline import make_texts

ROWS = [Row(number, text) for number, text in enumerate(make_texts(7, originals=3))]

TEXT = "one two three four five six seven"


def test_a_store_of_format_1_is_read_and_grown(tmp_path):
    shutil.copytree(Path(__file__).parent / "kept", tmp_path / "store")
    tables = Tables(str(tmp_path / "store"))
    assert check(tables, mend=False) == []
    assert list_edges(tables) == edges_of(find_union(ROWS, SEARCH))
    assert {told[1] for told in list_members(tables).values()} == {True, False}
    new = Row(100, ROWS[-1].text)
    add(tables, "c", [new], SEARCH)
    take_down(tables, [ROWS[-1].id])
    assert list_edges(tables) == edges_of(find_union([*ROWS[:-1], new], SEARCH))


def test_a_store_of_a_later_format_is_refused(tmp_path, monkeypatch):
    tables = Tables(str(tmp_path / "store"))
    add(tables, "a", ROWS, SEARCH)
    note_outputs(tables, "a", [str(tmp_path / "out")])
    monkeypatch.setattr(state, "FORMAT", 1)

    with pytest.raises(StorageError, match="must be a store of this release"):
        read_state(tables)


def test_moments_that_an_earlier_release_stored_are_compared_with_newer_ones(tmp_path, monkeypatch):
    tables, search = Tables(str(tmp_path / "store")), replace(SEARCH, rules=(("latest", "value"),))
    add(tables, "old", [Row(1, TEXT, value=5), Row(2, TEXT, value=4)], search)
    plain = Corpus._order_keys
    # A nanosecond later than what was stored by the microsecond.
    monkeypatch.setattr(
        Corpus, "_order_keys", lambda self, of: np.pad(plain(self, of), ((0, 0), (0, 1)), constant_values=-1)
    )
    add(tables, "new", [Row(3, TEXT, value=5)], search, anew=True)

    assert {number: told[1] for number, told in list_members(tables).items()} == {1: False, 2: False, 3: True}


@pytest.mark.parametrize(("name", "several"), [("keep.copies", 2), ("keep.copies_per_source", 1)])
def test_a_store_of_an_earlier_release_that_kept_several_documents_of_a_group_is_read_alone(tmp_path, name, several):
    tables = Tables(str(tmp_path / "store"))
    add(tables, "a", ROWS, SEARCH)
    found = read_state(tables)
    assert found.check_kept() is None
    earlier = replace(found, settings={**found.settings, name: several})

    with pytest.raises(ConfigError, match=f"{name} must be .*one document of a group .*begun with {several}"):
        earlier.check(Config(), HashSpec(**found.spec), found.kind)
    with pytest.raises(ConfigError, match=f"{name} must be"):
        delete(tables, earlier, pa.array([ROWS[0].id]), readmit=False)

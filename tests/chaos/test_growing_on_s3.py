"""The life of a store on an object store."""

import pytest

from dedup import lookup
from dedup.cli import store as cli
from dedup.store.folder import Conflict
from dedup.store.tables import Tables
from dedup.store.upkeep import check
from tests.engine import SEARCH, Row
from tests.store import edges_of, find_union, list_edges, prepare
from tests.store.test_batches import Place, numbered
from tests.stores import serve_bucket
from tests.test_pipeline import make_texts

TEXTS = make_texts(7, originals=6, copies=5)


class OnStore(Place):
    """Batches from this machine, in a store on an object store."""

    def __init__(self, folder, store) -> None:
        super().__init__(folder)
        self.store = store


@pytest.fixture(scope="module")
def bucket():
    with serve_bucket() as bucket:
        yield bucket


def test_a_store_on_s3_grows_shrinks_and_is_looked_up(bucket, tmp_path, capsys):
    place = OnStore(tmp_path, f"{bucket}/stores/one")
    assert place.add("a", numbered(TEXTS[:20])) == 0
    assert place.add("b", numbered(TEXTS[20:], 20)) == 0
    tables = Tables(place.store)
    rows = [Row(number, text) for number, text in enumerate(TEXTS)]
    assert list_edges(tables) == edges_of(find_union(rows, SEARCH))
    (tmp_path / "ids").write_text("6\n21\n", "utf-8")
    assert cli.main(["delete", place.store, "--ids", str(tmp_path / "ids")]) == 0
    assert cli.main(["compact", place.store]) == 0
    assert cli.main(["vacuum", place.store, "--hours", "0"]) == 0
    capsys.readouterr()
    assert cli.main(["check", place.store]) == 0
    assert capsys.readouterr().out == "sound\n"
    left = [row for row in rows if row.id not in {6, 21}]
    assert list_edges(tables) == edges_of(find_union(left, SEARCH))
    assert {match.id for match in lookup(place.store, [TEXTS[7]])[0]} >= {7}


def test_of_two_writers_on_s3_the_second_is_told_to_start_over(bucket):
    tables = Tables(f"{bucket}/stores/two")
    one, other = (prepare(tables, name, [Row(len(name), name * 9)], SEARCH) for name in ("a word ", "another word "))
    one.finish("add")
    with pytest.raises(Conflict):
        other.finish("add")
    assert check(tables, mend=False, hours=0) == []

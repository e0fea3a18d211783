"""What tasks count of the components that they decide on is what one that decides on all counts."""

import json
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest

from dedup.store.election import elect, find_components, gather
from dedup.store.growth import Links
from dedup.store.joins.election import merge_elected
from dedup.store.snapshot import Snapshot
from dedup.store.tables import Tables
from dedup.tables.counts import Elected
from tests.engines import SEARCH, Row
from tests.store import prepare
from tests.test_pipeline import make_texts


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_counts_of_parts_of_the_components_add_up(tmp_path, parts):
    tables = Tables(str(tmp_path / "store"))
    rows = [Row(number, text) for number, text in enumerate(make_texts(7, originals=9, copies=4))]
    _, grown = prepare(tables, "a", rows, SEARCH)
    state = replace(grown.state, number=0)
    snapshot = Snapshot(tables=tables, state=state, extra={"sets": grown.writing.files["sets"]})
    voters = grown.voters
    told = []
    for part in range(parts):
        chosen = voters.rows.filter(pa.array(voters.least % parts == part))
        verdict = elect(
            snapshot,
            gather(chosen, find_components(grown.links, chosen["set"].to_numpy())),
            grown.links,
            before=snapshot.members(),
            new=np.sort(chosen["doc_id"].to_numpy()),
            search=SEARCH,
            anew=False,
            readmit=False,
            threads=1,
        )
        told.append(json.loads(json.dumps(asdict(verdict.counts))))

    whole = grown.verdict.counts
    assert whole.near
    assert merge_elected(told) == whole


def test_nothing_to_decide_on_counts_nothing():
    assert merge_elected([asdict(Elected(rows=0))]) == merge_elected([]) == Elected(rows=0)


def test_a_task_needs_no_more_memory_for_sets_of_great_numbers():
    first = 10**15
    links = Links(np.array([first, first + 5]), np.array([first + 5, first + 9]), np.ones(2))

    found = find_components(links, first + np.arange(10))

    assert (found - first).tolist() == [0, 1, 2, 3, 4, 0, 6, 7, 8, 0]
    assert find_components(Links(*np.empty((3, 0), int)), np.array([first])).tolist() == [first]

"""What a limit on the removals of one source holds against."""

from dataclasses import replace

import pytest

from tests.engine import SEARCH, Corpus, Row

LIMITED = replace(SEARCH, mode="exact", per_source=1)
VICTIMS = 10


def words(name, count=60):
    return [f"{name}{number}" for number in range(count)]


def make_near(number):
    """Return three texts, of which the first and last resemble the second, but not each other."""
    base = words(f"v{number}x")
    return tuple(" ".join(each) for each in (base[:-6], base, base[6:]))


def spared(rows, search=LIMITED):
    found = Corpus(rows).find(search)
    removed = [row["id"] for row in found.members.to_pylist() if row["kind"] != "kept"]
    return found.elected.spared, removed


def test_a_bridge_between_documents_of_one_source_is_charged_to_who_built_it():
    rows = []
    for number in range(VICTIMS):
        first, bridge, last = make_near(number)
        rows += [
            Row(number, first, "victim"),
            Row(100 + number, last, "victim"),
            Row(1000 + number, bridge, "attacker"),
        ]

    count, removed = spared(rows)

    # Of the victim's one document goes by the limit; the attacker's own are nobody else's loss but the victim's own.
    assert [one for one in removed if 100 <= one < 1000] == [100]
    assert count >= VICTIMS - 1


def test_nobody_is_charged_for_the_bridge_of_a_stranger():
    rows = []
    for number in range(VICTIMS):
        first, bridge, last = make_near(number)
        rows += [Row(number, first, "honest"), Row(100 + number, last, "other"), Row(1000 + number, bridge, "attacker")]
    members = Corpus(rows).find(LIMITED).members.to_pylist()

    charged = {row["id"]: row["charged"] for row in members}
    assert all(charged[number] == [] for number in range(VICTIMS))
    assert all(charged[100 + number] == ["attacker"] for number in range(VICTIMS))
    # Its own documents resemble those of the honest directly.
    assert all(charged[1000 + number] == ["honest"] for number in range(VICTIMS))


def test_copies_with_lesser_ids_are_charged_to_their_source():
    texts = [" ".join(words(f"c{number}x")) for number in range(VICTIMS)]
    rows = [Row(number, text, "attacker") for number, text in enumerate(texts)]
    rows += [Row(100 + number, text, "victim") for number, text in enumerate(texts)]

    count, removed = spared(rows)

    assert removed == [100]
    assert count == VICTIMS - 1


@pytest.mark.parametrize("source", ["victim", None])
def test_what_a_source_removes_of_its_own_is_nobody_s(source):
    rows = []
    for number in range(VICTIMS):
        first, bridge, last = make_near(number)
        rows += [Row(3 * number + place, text, source) for place, text in enumerate((first, bridge, last))]

    assert spared(rows) == (0, [row.id for row in rows if row.id % 3])

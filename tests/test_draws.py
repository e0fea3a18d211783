"""Runs drawn at random end in 0, 2 or 3, and what they keep and remove together is their input exactly."""

from datetime import UTC, datetime

import pytest

from tests.conftest import PROFILE
from tests.draws import Draw

PARTS, COUNT = (4, 300) if PROFILE == "full" else (4, 30)
FIRST = datetime.now(UTC).toordinal() * 10_000 if PROFILE == "full" else 0
"""Every night has seeds of its own."""


@pytest.mark.parametrize("part", range(PARTS))
def test_runs_drawn_at_random_end_in_order(tmp_path, part):
    ends = []
    for seed in range(FIRST + part, FIRST + PARTS * COUNT, PARTS):
        try:
            ends += Draw.of(seed).make_twice(tmp_path / f"{seed}")
        except Exception as error:
            error.add_note(f"seed {seed}: python -m tests.draws {seed} 1")
            raise

    assert {*ends} <= {0, 2, 3}
    # Most are no refusals.
    assert ends.count(0) > 0.7 * len(ends)

"""Runs drawn at random end in 0, 2 or 3, and what they keep and remove together is their input exactly."""

from datetime import UTC, datetime
from functools import partial

import pytest

from dedup.run import pipeline
from tests.conftest import PROFILE
from tests.draws import Draw, tell

PARTS, COUNT, ON_SPARK = (4, 300, range(12)) if PROFILE == "full" else (2, 6, (1,))
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


@pytest.mark.parametrize("number", ON_SPARK)
def test_runs_drawn_at_random_end_on_spark_as_in_memory(spark, tmp_path, number):
    draw = Draw.of(FIRST + 7 * number)
    draw.write(tmp_path)
    ends = draw.make(tmp_path, "memory")
    further = {"driver.search_bytes": 10**9 * (number % 2)}

    found = draw.make(tmp_path, "spark", run=partial(pipeline.run, spark), add=partial(pipeline.run, spark), **further)

    assert found == ends
    assert tell(tmp_path, "spark") == tell(tmp_path, "memory")

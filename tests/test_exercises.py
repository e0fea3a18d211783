"""The exercises of docs/exercises.md print what the page shows."""

import contextlib
import io
import re

import pytest

from tests.house import ROOT

PAGE = (ROOT / "docs/exercises.md").read_text("utf-8")
EXERCISES = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), EXERCISES, ids=range(1, len(EXERCISES) + 1))
def test_an_exercise_prints_what_is_shown(program, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        exec(program, {"__name__": "exercise"})  # noqa: S102 - as a reader runs it

    assert told.getvalue() == printed


def test_there_are_four():
    assert len(EXERCISES) == 4

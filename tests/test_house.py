"""What the figures of the house count."""

from pathlib import Path

from tests.house import count_code, find_circle

SOURCE = '''"""A docstring.

In two paragraphs.
"""

# A comment
NAME = """a text
of two lines"""
"""An attribute's docstring."""


def add(one, two):
    """Another."""
    return (  # with a comment
        one

        + two
    )
'''


def test_a_code_line_holds_a_token_that_is_no_comment_and_no_docstring(tmp_path):
    (tmp_path / "source.py").write_text(SOURCE)

    assert count_code(tmp_path / "source.py") == 7


def test_a_circle_is_told_by_its_modules():
    one, two, three = (Path(f"{name}.py") for name in ("one", "two", "three"))

    assert set(find_circle({one: {two}, two: {three}, three: {two}})) == {two, three}
    assert find_circle({one: {two, three}, two: {three}, three: set()}) == []

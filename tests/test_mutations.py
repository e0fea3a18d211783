"""The list of faults that scripts/mutations tries: each can still be put in, and names what finds it."""

import ast

import pytest

from tests.mutations import MUTATIONS, ROOT


def test_there_are_enough_faults_of_names_of_their_own():
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 40


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_fault_can_be_put_in_and_names_its_tests(mutation):
    source = (ROOT / "dedup" / mutation.file).read_text("utf-8")

    assert source.count(mutation.old) == 1, "the code has moved: mend tests/mutations.py"
    broken = source.replace(mutation.old, mutation.new)
    assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))
    for each in mutation.tests:
        file, _, test = each.partition("::")
        tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
        assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}

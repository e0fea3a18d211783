"""The ground floor of the kernels stands on NumPy alone."""

import json
import subprocess
import sys

import pytest

COSTLY = {"numba", "scipy", "pyarrow", "pandas", "pyspark"}


def imported(modules):
    """Return the packages that a process has imported after these modules."""
    code = f"import json, sys, {modules}; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    return {
        *json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    }


@pytest.mark.parametrize("module", ["hashing", "curve", "runs"])
def test_the_ground_floor_imports_neither_numba_nor_scipy_nor_pyarrow(module):
    packages = imported(f"dedup.kernels.{module}")

    assert "numpy" in packages
    assert packages & COSTLY == set()


@pytest.mark.parametrize(
    "module", ["kernels.features", "kernels.text.tokenizer", "plan.answer", "plan.sample", "explain.result"]
)
def test_nothing_imports_numba_before_a_kernel_runs(module):
    assert "numba" not in imported(f"dedup.{module}")

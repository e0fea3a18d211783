"""The ground floor of the kernels stands on NumPy alone."""

import json
import subprocess
import sys

COSTLY = {"numba", "scipy", "pyarrow", "pandas", "pyspark"}


def list_imported(*modules):
    """Return the packages that a process has imported after each of these modules, one after another."""
    code = f"""
import importlib, json, sys
for module in {modules}:
    importlib.import_module(f"dedup.{{module}}")
    print(json.dumps([module, sorted({{name.split(".")[0] for name in sys.modules}})]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return {module: {*packages} for module, packages in map(json.loads, said.splitlines())}


def test_the_ground_floor_imports_neither_numba_nor_scipy_nor_pyarrow():
    imported = list_imported("kernels.hashing", "kernels.curve", "kernels.runs")

    assert "numpy" in imported["kernels.hashing"]
    assert [module for module, packages in imported.items() if packages & COSTLY] == []


def test_nothing_imports_numba_before_a_kernel_runs():
    modules = ("kernels.features", "kernels.text.tokenizer", "plan.answer", "plan.sample", "explain.result")

    assert [module for module, packages in list_imported(*modules).items() if "numba" in packages] == []

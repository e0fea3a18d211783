"""The example for Airflow, with stand-ins for what it imports of Airflow."""

import runpy
import sys
from types import ModuleType

import pytest

from dedup.run.session import ROOT


class NoRetry(Exception):  # noqa: N818 - stands for AirflowFailException
    """What tells Airflow not to try again."""


class Submit:
    """A spark-submit that ends with a status."""

    status = 0

    def __init__(self, **_):
        pass

    def execute(self, _):
        if self.status:
            # The words of Airflow's hook.
            raise RuntimeError(f"Cannot execute: spark-submit --name arrow job.py. Error code is: {self.status}.")


class Dag:
    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def operator(monkeypatch):
    modules = {
        "airflow": {},
        "airflow.exceptions": {"AirflowFailException": NoRetry},
        "airflow.providers": {},
        "airflow.providers.apache": {},
        "airflow.providers.apache.spark": {},
        "airflow.providers.apache.spark.operators": {},
        "airflow.providers.apache.spark.operators.spark_submit": {"SparkSubmitOperator": Submit},
        "airflow.sdk": {"DAG": Dag},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(ROOT / "docs" / "airflow_dag.py"))["Deduplicate"]()


@pytest.mark.parametrize("status", [2, 3])
def test_mistakes_and_alerts_are_not_tried_again(operator, monkeypatch, status):
    monkeypatch.setattr(Submit, "status", status)

    with pytest.raises(NoRetry, match=f"{status}\\.$"):
        operator.execute({})


@pytest.mark.parametrize("status", [1, 143, 23, 137])
def test_faults_are_tried_again(operator, monkeypatch, status):
    monkeypatch.setattr(Submit, "status", status)

    with pytest.raises(RuntimeError):
        operator.execute({})

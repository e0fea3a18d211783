"""The example for Airflow, with stand-ins for what it imports of Airflow."""

import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest

from dedup.cli.common import read_settings
from dedup.cli.run import parse_arguments
from dedup.run.session import ROOT


class NoRetry(Exception):  # noqa: N818 - stands for AirflowFailException
    """What tells Airflow not to try again."""


class Operator:
    """A command that ends with a status, in the words of Airflow's operator."""

    status = 0
    words = ""
    given: ClassVar[dict] = {}

    def __init__(self, **given):
        self.given[type(self).__name__] = given or self.given[type(self).__name__]

    def execute(self, _):
        if self.status:
            raise RuntimeError(self.words.format(self.status))


class Submit(Operator):
    words = "Cannot execute: spark-submit --name arrow job.py. Error code is: {}."


class Bash(Operator):
    words = "Bash command failed. The command returned a non-zero exit code {}."


class Dag:
    def __init__(self, **_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(params=["Deduplicate", "AddBatch"])
def operator(monkeypatch, request):
    modules = {
        "airflow": {},
        "airflow.exceptions": {"AirflowFailException": NoRetry},
        "airflow.providers": {},
        "airflow.providers.apache": {},
        "airflow.providers.apache.spark": {},
        "airflow.providers.apache.spark.operators": {},
        "airflow.providers.apache.spark.operators.spark_submit": {"SparkSubmitOperator": Submit},
        "airflow.providers.standard": {},
        "airflow.providers.standard.operators": {},
        "airflow.providers.standard.operators.bash": {"BashOperator": Bash},
        "airflow.sdk": {"DAG": Dag},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return runpy.run_path(str(ROOT / "docs" / "airflow_dag.py"))[request.param]()


@pytest.mark.parametrize("status", [2, 3])
def test_mistakes_and_alerts_are_not_tried_again(operator, monkeypatch, status):
    monkeypatch.setattr(Operator, "status", status)

    with pytest.raises(NoRetry, match=f"{status}\\.$"):
        operator.execute({})


@pytest.mark.parametrize("status", [1, 143, 23, 137])
def test_faults_are_tried_again(operator, monkeypatch, status):
    monkeypatch.setattr(Operator, "status", status)

    with pytest.raises(RuntimeError):
        operator.execute({})


def test_the_command_of_a_day_is_one_that_the_job_takes(operator):
    assert operator is not None
    program, verb, *arguments = shlex.split(
        Operator.given["AddBatch"]["bash_command"].replace("{{ ds }}", "2026-11-01")
    )
    options = parse_arguments(arguments)

    assert (Path(program).name, verb) == ("dedup", "run")
    assert options.batch == "2026-11-01"
    assert options.output.endswith("/2026-11-01")
    assert read_settings(options).alerts.on_breach == "fail"

"""Deduplicate the corpus every night: an Airflow DAG around spark-submit.

The connection `spark_cluster` names the master; `scripts/package` has put its two files where DEDUP says.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowFailException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

DEDUP = "/opt/dedup"
OUTPUT = "s3a://corpora/dedup/{{ ds }}"


class Deduplicate(SparkSubmitOperator):
    """Retry faults, which the job goes on from; not mistakes (exit status 2) and alerts (3), which no retry mends."""

    def execute(self, context: Any) -> None:  # noqa: ANN401 - as the base class has it
        """Run spark-submit."""
        try:
            super().execute(context)
        except Exception as error:
            if re.search(r"Error code is: [23]\.", str(error)):
                raise AirflowFailException(str(error)) from error
            raise


with DAG(
    dag_id="dedup",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
):
    Deduplicate(
        task_id="deduplicate",
        conn_id="spark_cluster",
        application=f"{DEDUP}/jobs/deduplicate.py",
        properties_file=f"{DEDUP}/conf/spark-cluster.conf",
        py_files=f"{DEDUP}/dist/dedup.zip",
        archives=f"{DEDUP}/dist/environment.tar.gz#environment",
        jars=f"{DEDUP}/jars/graphframes.jar",
        conf={"spark.pyspark.python": "./environment/bin/python"},
        application_args=["--input", "s3a://corpora/raw", "--output", OUTPUT, "--id-column", "id"],
        # The job stops within seconds and goes on at the next try.
        execution_timeout=timedelta(hours=6),
    )

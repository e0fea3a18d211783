"""Two Airflow DAGs: the whole corpus every night, around spark-submit, or each day's documents against a store.

For the first the connection `spark_cluster` names the master, and `scripts/package` has put its two files where DEDUP
says. The second runs on a worker of Airflow, in whose memory the features of a day must fit.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowFailException
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

DEDUP = "/opt/dedup"
OUTPUT = "s3a://corpora/dedup/{{ ds }}"
STORE = "s3a://corpora/store"
RETRIES = {"retries": 3, "retry_delay": timedelta(minutes=5)}


class RetriesFaults:
    """Retry faults, which the job goes on from; not mistakes (exit status 2) and alerts (3), which no retry mends."""

    def execute(self, context: Any) -> Any:  # noqa: ANN401 - as the operators have it
        """Run the command."""
        try:
            return super().execute(context)
        except Exception as error:
            if re.search(r"(Error code is:|exit code) [23]\.", str(error)):
                raise AirflowFailException(str(error)) from error
            raise


class Deduplicate(RetriesFaults, SparkSubmitOperator):
    """The job by spark-submit."""


class AddBatch(RetriesFaults, BashOperator):
    """The job in a shell."""


with DAG(
    dag_id="dedup",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args=RETRIES,
):
    Deduplicate(
        task_id="deduplicate",
        conn_id="spark_cluster",
        application=f"{DEDUP}/jobs/deduplicate.py",
        properties_file=f"{DEDUP}/conf/spark-cluster.conf",
        archives=f"{DEDUP}/dist/environment.tar.gz#environment",
        jars=f"{DEDUP}/jars/graphframes.jar",
        conf={"spark.pyspark.python": "./environment/bin/python"},
        application_args=["--input", "s3a://corpora/raw", "--output", OUTPUT, "--id-column", "id"],
        # The job stops within seconds and goes on at the next try.
        execution_timeout=timedelta(hours=6),
    )

with DAG(
    dag_id="dedup-batches",
    schedule="15 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    # A day that was missed is made up for; a late one may come after others, and a day that runs twice changes nothing.
    catchup=True,
    default_args=RETRIES,
):
    AddBatch(
        task_id="add_batch",
        bash_command=(
            f"{DEDUP}/scripts/dedup run --store {STORE} --batch {{{{ ds }}}} --input s3a://corpora/raw/{{{{ ds }}}} "
            f"--output {OUTPUT} --id-column id --set alerts.removal_rate_change_above=0.2 --set alerts.on_breach=fail"
        ),
        execution_timeout=timedelta(hours=6),
    )

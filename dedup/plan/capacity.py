"""Capacity for a run: bytes stored and shuffled, tasks, memory, hours and money, stage by stage."""

from dataclasses import dataclass

from dedup.errors import ConfigError
from dedup.plan.profile import CorpusProfile, Counts, Trial
from dedup.plan.rates import Rates
from dedup.plan.rows import RowCounts, count_rows
from dedup.plan.shuffles import StageCost
from dedup.plan.stages import list_stages
from dedup.settings.options import Config

WORKER_BYTES = 1 << 30
"""Memory of one Python worker: at most 0.85 GB in the runs of `scripts/bench`, whatever their size."""
EDGE_MEMORY = 64
"""Memory of the driver for each edge it connects: 16 bytes, and a few times that at the peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """Cluster that the job runs on."""

    executors: int
    cores: int
    """Cores of each executor."""
    efficiency: float
    """Share of the cores' time that is work."""
    price: float | None = None
    """Price of a core hour, in any currency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Cost of a run."""

    rows: RowCounts
    text_bytes: float
    stages: list[StageCost]
    hours: float
    price: float | None
    worker_bytes: int
    """Memory of all Python workers of an executor, besides its heap."""
    driver_bytes: float
    """Memory of the driver for edges."""

    @property
    def core_seconds(self) -> float:
        """Seconds of work in all stages."""
        return sum(stage.core_seconds for stage in self.stages)

    @property
    def shuffle_bytes(self) -> float:
        """Bytes shuffled in all stages."""
        return sum(stage.shuffle_bytes for stage in self.stages)

    @property
    def table_bytes(self) -> float:
        """Bytes of all tables."""
        return sum(stage.table_bytes for stage in self.stages)

    def find(self, name: str) -> StageCost | None:
        """Return the stage of this name; None without one."""
        return next((stage for stage in self.stages if stage.name == name), None)


def plan(
    config: Config,
    corpus: CorpusProfile,
    cluster: SparkCluster,
    rates: Rates,
    *,
    trial: Trial | None = None,
    counts: Counts | None = None,
) -> Plan:
    """Return the cost of a run, partitioned and broadcast as the pipeline would.

    Parameters
    ----------
    trial, counts
        As for `count_rows`.

    Raises
    ------
    ConfigError
        For mode `exact`, whose cost depends on the frequency of each shingle.
    """
    if config.mode != "lsh":
        raise ConfigError(f'mode must be "lsh" to be planned (got "{config.mode}")')
    rows = count_rows(config, corpus, trial, counts)
    cores = cluster.executors * cluster.cores
    stages = list_stages(rows, corpus, cores, rates)
    # A stage of fewer tasks than cores leaves the others idle: the driver connects edges alone.
    seconds = sum(stage.core_seconds / min(cores, stage.partitions) for stage in stages)
    hours = (rates.fixed + seconds / cluster.efficiency) / 3600
    return Plan(
        rows=rows,
        text_bytes=rows.documents * corpus.text_bytes,
        stages=stages,
        hours=hours,
        price=None if cluster.price is None else hours * cores * cluster.price,
        worker_bytes=cluster.cores * WORKER_BYTES,
        driver_bytes=EDGE_MEMORY * rows.links if rows.engine == "driver" else 0.0,
    )

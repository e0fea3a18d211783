"""A mini cluster of YARN, of Hadoop's own artifact: see tests/chaos/test_yarn.py.

It writes the settings of clients to FOLDER/yarn-site.xml, last, and runs until it is killed.
"""

import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkContext

SETTINGS = {
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "6144",
    "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.5",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
    "yarn.scheduler.capacity.root.batch.capacity": "100",
    "yarn.scheduler.capacity.root.queues": "batch",
    "yarn.scheduler.minimum-allocation-mb": "256",
}


def main(folder: Path) -> None:
    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for key, value in SETTINGS.items():
        conf.set(key, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("dedup", 2, 1, 1)
    cluster.init(conf)
    cluster.start()
    written = jvm.java.io.StringWriter()
    cluster.getConfig().writeXml(written)
    part = folder / "part"
    part.write_text(written.toString(), "utf-8")
    part.rename(folder / "yarn-site.xml")
    signal.pause()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Benchmark `apply`: how long applying many small queries at once takes, until all are protected.

The queries are those of `bench.density_workload`, on a cluster of this machine with six nodes. Once
their costs are stated; once they are not, so that statements are tried and each way is priced that
a query may run in. Another commit is measured with its own copy of this module, in turns.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from bench.density_workload import workload
from bench.registry import Settings, benchmark
from orchestrator.api import Cluster, apply
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.manifest import load

QUERIES, QUICK_QUERIES = 40, 10

SETTLED_S = 10.0
"""The cluster rests so long before: hosts measure latencies first."""

KINDS = ("stated", "priced")


@benchmark("apply", kinds=KINDS)
def apply_many(settings: Settings) -> Mapping[str, float]:
    """Time and processor time of applying 40 small queries at once, with and without trials."""
    figures: dict[str, float] = {}
    for kind in settings.only or KINDS:
        count = QUICK_QUERIES if settings.quick else QUERIES
        settings.say(f"{count} queries, {kind}")
        manifests = workload(settings.folder, count)
        if kind == "priced":
            (path,) = settings.folder.glob(f"density-{count}.yaml")
            text = re.sub(r"estimates:\n(  .*\n){2}", "", path.read_text())
            text = text.replace("[RANGE 10 SECONDS]", "[RANGE 10 SECONDS SLIDE 1 SECOND]")
            path.write_text(text)
            manifests = load([path])
        assert manifests.cluster is not None
        with tempfile.TemporaryDirectory(prefix="vivace-bench-") as work:
            cluster = LocalCluster(manifests.cluster, Path(work))
            with cluster:
                time.sleep(SETTLED_S)
                before_s, began_s = _used_s(), time.monotonic()
                applied = apply(Cluster(cluster.config, cluster.store), manifests)
                figures |= {
                    f"{kind}.apply_s": time.monotonic() - began_s,
                    f"{kind}.processor_s": _used_s() - before_s,
                    f"{kind}.protected": float(applied.protected),
                }
    return figures


def _used_s() -> float:
    """Processor time of this process and of all below it that still run."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)

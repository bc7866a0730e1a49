"""A cluster of this machine with something to do, for benchmarks of the running system."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrator.api import Cluster, apply
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.edges.sources import recorded
from orchestrator.errors import VivaceError
from orchestrator.manifest import Manifests
from orchestrator.progress import Progress
from orchestrator.store.protocol import Store

FINISHED_S = 60.0
"""The time that the last results may take after the recording's end."""


@contextmanager
def running(manifests: Manifests, work: Path, progress: Progress) -> Generator[LocalCluster]:
    """Start a cluster, apply its manifests, and wait until every fragment has a warm standby.

    When it has ended, its sites' archives are complete.

    Raises
    ------
    VivaceError
        If it does not start, or the manifests are refused.
    """
    assert manifests.cluster is not None, "there is no cluster without its manifest"
    cluster = LocalCluster(manifests.cluster, work, on_progress=progress)
    with cluster:
        apply(Cluster(cluster.config, cluster.store), manifests, on_progress=progress)
        yield cluster


def await_end(store: Store, manifests: Manifests, progress: Progress) -> None:
    """Wait until every output has come up to the end of the recordings.

    Raises
    ------
    VivaceError
        It takes a minute longer than they are.
    """
    played = [found for s in manifests.streams if (found := recorded(s.record))]
    begin_ms, end_ms = min(r.begin_ms for r in played), max(r.end_ms for r in played)
    length_s = (end_ms - begin_ms) / 1000
    give_up = time.monotonic() + length_s + FINISHED_S
    outputs = [stream for query in manifests.queries for stream in query.record.outputs]
    while True:
        hosts = read_view(store).hosts.values()
        reached_ms = {
            s: sink.watermark_ms or begin_ms for h in hosts for s, sink in h.sinks.items()
        }
        slowest_ms = min(reached_ms.get(stream, begin_ms) for stream in outputs)
        progress("replay", f"{(slowest_ms - begin_ms) / 1000:.0f} of {length_s:.0f} s")
        if slowest_ms >= end_ms:
            return
        if time.monotonic() > give_up:
            raise VivaceError(f"the recording has not come to its end, but to {slowest_ms} ms")
        time.sleep(1.0)


def counters(store: Store) -> dict[str, Counter[str]]:
    """Counters of every host, by incarnation."""
    nodes = read_view(store).nodes.values()
    return {each.record.incarnation: Counter(each.record.counters) for each in nodes}


def grown(before: Mapping[str, Counter[str]], after: Mapping[str, Counter[str]]) -> Counter[str]:
    """What the hosts have counted since; those that started since count from 0."""
    grown: Counter[str] = Counter()
    for incarnation, counters in after.items():
        grown += counters - before.get(incarnation, Counter())
    return grown

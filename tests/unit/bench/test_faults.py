"""What benchmark `faults` counts as the end of a host that no fault asked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import bench.faults
from bench.faults import EXIT, KINDS, Faults, HostEnds, strike
from bench.ours_failover import FRAGMENT
from orchestrator.store.protocol import Store


class Cluster:
    """Nodes whose incarnations are made up; the output goes on whenever somebody looks."""

    def __init__(self) -> None:
        self.incarnations = {name: f"{name} 1" for name in ("edge", EXIT, "node-1", "node-2")}
        self._watermarks_ms = count()

    def view(self, _: Store) -> SimpleNamespace:
        sinks = {FRAGMENT: SimpleNamespace(watermark_ms=next(self._watermarks_ms))}
        nodes = {
            name: SimpleNamespace(record=SimpleNamespace(incarnation=incarnation, sinks=sinks))
            for name, incarnation in self.incarnations.items()
        }
        return SimpleNamespace(nodes=nodes, unprotected=[], cluster_clocks=None)

    def restart(self, *nodes: str) -> None:
        for node in nodes:
            self.incarnations[node] += "+"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    def now_us(_: object) -> int:
        return 0

    def sleep(_: float) -> None: ...

    monkeypatch.setattr(bench.faults, "read_view", cluster.view)
    monkeypatch.setattr(bench.faults, "cluster_now_us", now_us)
    monkeypatch.setattr(bench.faults.time, "sleep", sleep)
    return cluster


def unbidden(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *faults: Callable[[Faults], None]
) -> int:
    """How many ends are counted as unbidden when these faults strike, one after the other."""
    acting = Faults(cast("Store", None), set(), Path())
    hosts = HostEnds(dict(cluster.incarnations))
    for fault in faults:
        monkeypatch.setattr(bench.faults, "KINDS", {**KINDS, "this": (fault, 1)})
        strike(acting, "this", hosts, "this", lambda _: None)
    hosts.close(cluster.incarnations)
    return hosts.unbidden


def killing(
    cluster: Cluster, *killed: str, ending: tuple[str, ...] = ()
) -> Callable[[Faults], None]:
    """A fault that kills some hosts, during which others end by themselves."""

    def fault(acting: Faults) -> None:
        acting.ended.update(killed)
        cluster.restart(*killed, *ending)

    return fault


def test_hosts_that_faults_kill_are_no_unbidden_ends(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [killing(cluster, "edge"), killing(cluster, "edge", EXIT), killing(cluster)]
    assert unbidden(cluster, monkeypatch, *faults) == 0


def test_a_host_that_ends_during_a_fault_counts_although_other_faults_kill_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [
        killing(cluster, "node-1", "node-2"),
        killing(cluster, "edge", ending=("node-1",)),
        killing(cluster, ending=("edge", "node-2")),
        killing(cluster, "node-1", EXIT),
    ]
    assert unbidden(cluster, monkeypatch, *faults) == 3


def test_a_second_end_of_a_killed_host_counts() -> None:
    hosts = HostEnds({"edge": "1", "exit": "1"})
    hosts.ask_for(["edge"])
    hosts.look({"exit": "1"})
    hosts.look({"edge": "2", "exit": "1"})
    assert hosts.unbidden == 0
    hosts.look({"edge": "3", "exit": "1"})
    assert hosts.unbidden == 1


def test_a_host_that_is_away_for_good_counts() -> None:
    hosts = HostEnds({"edge": "1", "exit": "1"})
    hosts.look({"edge": "1"})
    assert hosts.unbidden == 0
    hosts.close({"edge": "1"})
    assert hosts.unbidden == 1

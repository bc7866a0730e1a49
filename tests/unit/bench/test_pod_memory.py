"""Benchmark `pod_memory`: what a pod took is held against what it may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.pod_memory import PARTS, PodSizes, pod_figures
from orchestrator.api import SizeDocument, cluster_sizes
from orchestrator.errors import VivaceError
from orchestrator.manifest import load


@pytest.fixture
def told() -> SizeDocument:
    return cluster_sizes(load([Path("examples/aircraft/cluster.yaml")]))


def sizes(mib: float) -> PodSizes:
    """All processes of a cluster, of one size each."""
    seen = PodSizes()
    for part in PARTS:
        seen.parts[part][1] = mib
    return seen


def test_pods_that_take_less_have_their_figures(told: SizeDocument) -> None:
    found = pod_figures(sizes(40.0), told, "aircraft")
    assert found["executor.beside_heap_mib"] == 160.0


def test_a_pod_that_takes_more_fails(told: SizeDocument) -> None:
    (limit_mib,) = (each.limit_mib for each in told.processes if each.process == "coordinator")
    seen = sizes(40.0)
    seen.parts["coordinator.coordinator"][1] = limit_mib + 1.0
    with pytest.raises(VivaceError, match="a pod of coordinator took"):
        pod_figures(seen, told, "aircraft")


def test_a_process_that_nobody_has_seen_fails(told: SizeDocument) -> None:
    seen = sizes(40.0)
    del seen.parts["executor.host"]
    with pytest.raises(VivaceError, match=r"no process was seen of \['executor.host'\]"):
        pod_figures(seen, told, "aircraft")

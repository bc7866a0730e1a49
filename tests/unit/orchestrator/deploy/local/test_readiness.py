from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.deploy.local.readiness import await_ready, readiness
from orchestrator.errors import Unreachable
from orchestrator.progress import silent
from orchestrator.records import Coordinate, NodeKind, NodeRecord
from orchestrator.simulation.memory_store import MemoryServer


def host(
    name: str, latencies_ms: dict[str, float], *, error: float = 0.1, x_ms: float = 0.0
) -> NodeRecord:
    return NodeRecord(
        node=name,
        incarnation="1",
        kind=NodeKind.EXECUTOR,
        region="",
        endpoint="",
        public_key="",
        domain="",
        pid=1,
        machine="",
        coordinate=Coordinate(position_ms=(x_ms, 0.0), cpu_ms=0.0, error=error),
        latencies_ms=latencies_ms,
    )


def test_absent_hosts_are_named() -> None:
    now = readiness(["a", "b", "c"], {"b": host("b", {})})
    assert now.absent == ("a", "c")


def test_host_that_has_not_probed_all_present_ones_is_named() -> None:
    nodes = {"a": host("a", {"b": 1.0}), "b": host("b", {})}
    assert readiness(["a", "b"], nodes).unprobed == {"b": ("a",)}


def test_host_that_is_not_part_of_the_cluster_does_not_matter() -> None:
    nodes = {"a": host("a", {"b": 1.0}), "b": host("b", {"a": 1.0}), "observer-1": host("o", {})}
    now = readiness(["a", "b"], nodes)
    assert not now.absent
    assert not now.unprobed
    assert not now.uncertain


def test_hosts_that_do_not_register_are_named_with_the_folder_of_the_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("orchestrator.deploy.local.readiness.REGISTER_TIMEOUT_S", 0.0)
    store = MemoryServer().connect()
    with pytest.raises(Unreachable, match="a, b did not register") as refused:
        await_ready(store, ["a", "b"], tmp_path, silent, lambda: None)
    assert f"The logs in {tmp_path} say why" in str(refused.value)


def test_wrong_coordinate_has_not_settled() -> None:
    nodes = {
        "a": host("a", {"b": 30.0}, error=0.9, x_ms=0.0),
        "b": host("b", {"a": 30.0}, error=0.2, x_ms=5.0),
    }
    assert readiness(["a", "b"], nodes).uncertain == {"a": 0.9}


def test_short_links_settle_whatever_their_relative_error() -> None:
    nodes = {
        "a": host("a", {"b": 0.8}, error=0.9, x_ms=0.0),
        "b": host("b", {"a": 0.7}, error=1.2, x_ms=0.3),
    }
    assert not readiness(["a", "b"], nodes).uncertain

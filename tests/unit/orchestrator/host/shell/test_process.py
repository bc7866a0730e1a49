"""The start of a host's process."""

from __future__ import annotations

import pytest

from orchestrator.errors import Unreachable
from orchestrator.health import Health
from orchestrator.host.shell import process
from orchestrator.records import HostSpec, NodeKind

SPEC = HostSpec(
    cluster="c", node="a", kind=NodeKind.EXECUTOR, region="r", zookeeper="zk:1",
    secret="s",
)  # fmt: skip


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses at which ZooKeeper was looked for; it serves the third time."""
    made: list[str] = []

    def opened(zookeeper: str, _cluster: str, _secret: str) -> str:
        made.append(zookeeper)
        if len(made) < 3:
            raise Unreachable("ZooKeeper", zookeeper, "did not answer", "Start it.")
        return "session"

    monkeypatch.setattr(process, "ZooKeeperStore", opened)
    monkeypatch.setattr(process, "LONGEST_WAIT_US", 0)
    return made


def test_a_host_that_starts_before_zookeeper_waits(attempts: list[str]) -> None:
    assert process.open_store(SPEC, lambda: False, Health()) == "session"
    assert attempts == ["zk:1"] * 3


def test_a_host_whose_executor_ends_waits_no_longer(attempts: list[str]) -> None:
    with pytest.raises(Unreachable):
        process.open_store(SPEC, lambda: len(attempts) == 2, Health())
    assert len(attempts) == 2

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.deploy.local.readiness import (
    REGISTER_PATIENCE_S,
    SETTLE_PATIENCE_S,
    await_ready,
)
from orchestrator.errors import Unreachable
from orchestrator.progress import silent
from orchestrator.records import NameClaim, NodeCoordinate, NodeKind, NodeRecord
from orchestrator.simulation.world.memory_store import MemoryServer
from orchestrator.store.protocol import CLAIMS, NODES

HOSTS = ("a", "b", "c", "d")


class Slow:
    """A store to which something is written every so often, and its clock."""

    def __init__(self, every_s: float) -> None:
        self.store = MemoryServer().connect()
        self.now_s = 0.0
        self.every_s = every_s
        self.writes = 0

    def clock(self) -> float:
        return self.now_s

    def write(self) -> None:
        """What comes next; nothing."""

    def sleep(self, _seconds: float) -> None:
        self.now_s += 10.0
        while self.now_s >= (self.writes + 1) * self.every_s:
            self.writes += 1
            self.write()

    def wait(self, folder: Path) -> None:
        await_ready(self.store, HOSTS, folder, silent, lambda: None, self.clock, self.sleep)

    def register(self, name: str, error: float = 0.1) -> None:
        record = NodeRecord(
            node=name,
            incarnation="1",
            kind=NodeKind.EXECUTOR,
            region="",
            endpoint="",
            public_key="",
            pid=1,
            machine="",
            coordinate=NodeCoordinate(
                position_ms=(50.0 * HOSTS.index(name),), cpu_ms=0, error=error
            ),
            latencies_ms=dict.fromkeys(HOSTS, 1.0),
        )
        self.store.create(NODES.key(name), record)


def test_hosts_that_do_not_register_are_named_with_the_folder_of_the_logs(tmp_path: Path) -> None:
    silence = Slow(every_s=1e9)
    with pytest.raises(Unreachable, match="a, b, c, d did not register") as refused:
        silence.wait(tmp_path)
    assert f"The logs in {tmp_path} say why" in str(refused.value)
    assert silence.now_s == REGISTER_PATIENCE_S


class Registering(Slow):
    def write(self) -> None:
        if self.writes <= len(HOSTS):
            self.register(HOSTS[self.writes - 1])


def test_hosts_that_register_one_after_the_other_are_waited_for(tmp_path: Path) -> None:
    hosts = Registering(every_s=REGISTER_PATIENCE_S - 20.0)
    hosts.wait(tmp_path)
    assert hosts.now_s > 3 * REGISTER_PATIENCE_S


class Claiming(Slow):
    """Its hosts start again and again, and none registers."""

    def write(self) -> None:
        name, number = HOSTS[self.writes % len(HOSTS)], self.writes // len(HOSTS) + 1
        claim, key = NameClaim(number=number, incarnation=str(number)), CLAIMS.key(name)
        found = self.store.get(key)
        if found is None:
            self.store.create(key, claim)
        else:
            self.store.update(key, claim, found.version)


def test_a_host_that_starts_is_progress_once(tmp_path: Path) -> None:
    hosts = Claiming(every_s=200.0)
    with pytest.raises(Unreachable, match="did not register"):
        hosts.wait(tmp_path)
    assert hosts.now_s == len(HOSTS) * 200.0 + REGISTER_PATIENCE_S


def test_coordinates_that_do_not_settle_are_no_failure(tmp_path: Path) -> None:
    hosts = Slow(every_s=1e9)
    for name in HOSTS:
        hosts.register(name, error=0.9)
    hosts.wait(tmp_path)
    assert hosts.now_s == SETTLE_PATIENCE_S


def test_spark_that_has_started_is_progress_once(tmp_path: Path) -> None:
    log = tmp_path / "application-1.log"
    log.write_text("of a former cluster\n")

    class Starting(Slow):
        def write(self) -> None:
            with log.open("a") as opened:
                opened.write("HostSubmitted\n")

    spark = Starting(every_s=200.0)
    with pytest.raises(Unreachable, match="did not register"):
        spark.wait(tmp_path)
    assert spark.now_s == 200.0 + REGISTER_PATIENCE_S

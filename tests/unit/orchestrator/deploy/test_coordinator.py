"""A coordinator as a process of its own."""

from __future__ import annotations

import threading

import pytest

from orchestrator.control.process import Coordinator
from orchestrator.deploy import coordinator
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.turns import EndSignals
from orchestrator.health import Health
from orchestrator.simulation.world.memory_store import MemoryStore
from tests.obedient_cluster import ObedientCluster


def config() -> ProcessConfig:
    return ProcessConfig(file="vivace.yaml", cluster="aircraft", zookeeper="", secret="")


def broken_clock() -> int:
    raise ZeroDivisionError


def test_process_ends_when_a_bug_ends_its_coordinator(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObedientCluster()
    tracebacks: list[object] = []

    def note(args: threading.ExceptHookArgs) -> None:
        tracebacks.append(args.exc_type)

    monkeypatch.setattr(threading, "excepthook", note)

    def started(*_: object) -> Coordinator:
        candidate = Coordinator(cluster.server.connect, "broken", broken_clock)
        candidate.start()
        return candidate

    def store(_config: ProcessConfig) -> MemoryStore:
        return cluster.server.connect()

    monkeypatch.setattr(coordinator, "start_coordinator", started)
    monkeypatch.setattr(ProcessConfig, "open_store", store)
    looks = iter([False] * 50)

    class Looked(EndSignals):
        def __call__(self) -> bool:
            return next(looks)

    with pytest.raises(AssertionError, match="the coordinator's thread has ended"):
        coordinator.serve(config(), Looked(), Health())
    assert tracebacks == [ZeroDivisionError]

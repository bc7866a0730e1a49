"""What entry points have in common: waiting for what they cannot work without."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.deploy import entry_point
from orchestrator.deploy.config import ProcessConfig
from orchestrator.deploy.entry_point import Ended, Waiting
from orchestrator.health import Health
from orchestrator.records.versions import this_version
from orchestrator.simulation.world.memory_store import MemoryStore
from orchestrator.store.protocol import CANDIDATES, CandidateRecord, StoreUnavailable
from tests.obedient_cluster import ObedientCluster

CONFIG = ProcessConfig(file="vivace.yaml", cluster="aircraft", zookeeper="", secret="")


def test_a_version_that_runs_beside_no_other_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ObedientCluster()
    opened: list[MemoryStore] = []

    def store(_config: ProcessConfig) -> MemoryStore:
        opened.append(cluster.server.connect())
        return opened[-1]

    monkeypatch.setattr(ProcessConfig, "open_store", store)
    monkeypatch.setattr(entry_point, "LOOK_EVERY_S", 0)
    caplog.set_level("INFO", logger="vivace.process")
    mine = this_version()
    far = msgspec.structs.replace(mine, wire=(mine.wire[1] + 1, mine.wire[1] + 2))
    key = CANDIDATES.key("newer")
    version = cluster.store.create(key, CandidateRecord(versions=far))
    looks = iter([False, False, True])
    with pytest.raises(Ended):
        Waiting(lambda: next(looks), Health()).open_store(CONFIG)
    assert "waiting for the end of coordinator newer, which is of another version" in caplog.text
    with pytest.raises(StoreUnavailable):
        opened[-1].get(key)
    cluster.store.delete(key, version)
    found = Waiting(lambda: False, Health()).open_store(CONFIG)
    assert found is opened[-1]
    found.close()


def test_a_store_that_goes_away_while_settings_are_awaited_is_awaited_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(entry_point, "LOOK_EVERY_S", 0)
    caplog.set_level("INFO", logger="vivace.process")
    cluster = ObedientCluster()
    fails = iter([True, True])

    def settings() -> str:
        if next(fails, False):
            raise StoreUnavailable("/vivace", "the session is suspended")
        return "there"

    assert Waiting(lambda: False, Health()).read(settings) == "there"
    assert "waiting for ZooKeeper" in caplog.text
    store = cluster.server.connect()
    store.close()
    looks = iter([False, True])
    with pytest.raises(Ended):
        Waiting(lambda: next(looks), Health()).settings(store)

"""Which port a server listens on, if a process that starts still holds the one that was tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.embedded import zookeeper
from orchestrator.embedded.java import Java
from orchestrator.embedded.ports import PortTaken
from orchestrator.embedded.zookeeper import START_ATTEMPTS, EmbeddedZooKeeper


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    ports: list[int] = []

    def launch(_: EmbeddedZooKeeper, port: int, timeout_s: float) -> None:
        ports.append(port)

    monkeypatch.setattr(EmbeddedZooKeeper, "_launch", launch)
    return ports


def taken(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Have so many ports be taken again at once, and then none."""
    found = iter([False] * times)

    def is_free(_: int) -> bool:
        return next(found, True)

    monkeypatch.setattr(zookeeper, "is_free", is_free)


def server(folder: Path, port: int | None = None) -> EmbeddedZooKeeper:
    java = Java(home=folder, version=17)
    return EmbeddedZooKeeper(java, folder / "zookeeper", port)


def test_a_port_of_its_own_choice_that_is_taken_again_is_given_up_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launched: list[int]
) -> None:
    taken(monkeypatch, START_ATTEMPTS - 1)
    made = server(tmp_path)
    made.start()
    assert launched == [made.port]


def test_a_requested_port_that_is_taken_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launched: list[int]
) -> None:
    taken(monkeypatch, 1)
    with pytest.raises(PortTaken):
        server(tmp_path, port=29775).start()
    assert not launched

"""Clients that follow the history miss nothing, whatever ends or is away meanwhile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.deploy.context import find
from orchestrator.drills.processes import zookeeper_processes
from orchestrator.errors import VivaceError
from orchestrator.results.status import EventDocument
from orchestrator.web.__main__ import READY_AGE_S
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_api import EXAMPLE, is_ready, ok
from vivace import ClusterClient, connect

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

CLIENTS = 20
AWAY_S = 20.0


class Followers:
    """Clients on threads of their own, from the oldest event on."""

    def __init__(self, api: str, token: str | None) -> None:
        self.told: list[list[EventDocument]] = [[] for _ in range(CLIENTS)]
        self.ended = 0
        for told in self.told:
            client = connect(api, token)
            threading.Thread(target=self._follow, args=(client, told), daemon=True).start()

    def _follow(self, client: ClusterClient, told: list[EventDocument]) -> None:
        try:
            told.extend(client.events(after=-1))
        finally:
            self.ended += 1


def process_of(pid: int, module: str) -> psutil.Process:
    """The process below another one that runs a module."""
    found: list[psutil.Process] = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if each.cmdline()[1:3] == ["-m", module]:
                found.append(each)
    (process,) = found
    return process


def test_no_event_is_lost_or_told_twice_while_processes_end_and_the_store_is_away(
    vivace: Vivace, tmp_path: Path, wait_until: WaitUntil
) -> None:
    ok(vivace, "up", "-f", EXAMPLE / "cluster.yaml", "--data", tmp_path / "data")
    context = find("http", tmp_path / "home")
    followers = Followers(context.api, context.token)
    client = connect(context.api, context.token)
    client.apply(EXAMPLE)
    (fragment,) = client.status().fragments

    def switched() -> None:
        wait_until(lambda: succeeds(lambda: client.switchover(fragment.fragment)))

    switched()
    os.kill(process_of(context.pid, "orchestrator.web").pid, signal.SIGKILL)
    wait_until(lambda: is_ready(context.api))
    switched()
    os.kill(process_of(context.pid, "orchestrator.deploy.coordinator").pid, signal.SIGKILL)
    switched()
    (server,) = zookeeper_processes(context.pid)
    server.suspend()
    try:
        wait_until(lambda: age_s(client) > AWAY_S, every_s=0.5)
        with pytest.raises(VivaceError):
            client.cordon("one")
    finally:
        server.resume()
    switched()
    wait_until(lambda: age_s(client) < READY_AGE_S, every_s=0.5)
    last = client.create_token()
    client.revoke_token(last.id)

    def all_told() -> bool:
        newest = client.history(1)[-1].sequence
        return all(told and told[-1].sequence >= newest for told in followers.told)

    wait_until(all_told)
    until = min(told[-1].sequence for told in followers.told)
    happened = [each for each in client.history(1000) if each.sequence <= until]
    for told in followers.told:
        assert [each for each in told if each.sequence <= until] == happened
    assert followers.ended == 0
    ok(vivace, "down")


def age_s(client: ClusterClient) -> float:
    """How old the API says that its responses are; it gives some all the time."""
    assert client.status().fragments
    return client.view_age_s


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except VivaceError:
        return False
    return True

"""A host that watches its parents, which the tests set by hand."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from orchestrator.host.shell import own_process
from orchestrator.host.shell.own_process import ParentWatchdog

DAEMON, JAVA, INIT = 41, 40, 1


class Family:
    """The parent of each process, and the time."""

    def __init__(self) -> None:
        self.parent = DAEMON
        self.parents: dict[int, int] = {DAEMON: JAVA}
        self.now_s = 0.0

    def process(self, pid: int) -> Family:
        if pid not in self.parents:
            raise psutil.NoSuchProcess(pid)
        return self

    def ppid(self) -> int:
        return self.parents[DAEMON]


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Family:
    family = Family()
    monkeypatch.setattr(os, "getppid", lambda: family.parent)
    monkeypatch.setattr(psutil, "Process", family.process)
    monkeypatch.setattr(time, "monotonic", lambda: family.now_s)
    return family


def test_nothing_is_gone_while_both_live(family: Family) -> None:
    watch = ParentWatchdog()
    for _ in range(10):
        family.now_s += 1
        assert not watch.parent_is_gone()


def test_death_of_the_daemon_is_seen_at_once(family: Family) -> None:
    watch = ParentWatchdog()
    assert not watch.parent_is_gone()
    family.parent = INIT
    assert watch.parent_is_gone()


@pytest.mark.parametrize("parents", [{DAEMON: INIT}, {}])
def test_death_of_the_executor_is_seen_at_the_next_look(
    family: Family, parents: dict[int, int]
) -> None:
    watch = ParentWatchdog()
    assert not watch.parent_is_gone()
    family.parents = parents
    assert not watch.parent_is_gone()
    family.now_s += own_process.LOOK_EVERY_S
    assert watch.parent_is_gone()

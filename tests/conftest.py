"""What tests of all kinds share: the real things that are slow to start, once a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from orchestrator.deploy.embedded.java import Java, find_java
from orchestrator.deploy.embedded.zookeeper import EmbeddedZooKeeper

PATIENCE_S = 120.0
"""For what another process must bring about: far more than it takes, since machines are busy."""

REAL = ("functional", "integration")
"""Folders of tests with real parts, which run in real time and often wait."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one process run the tests of real parts, one after the other; others compute meanwhile.

    Starting Spark takes long, so its tests come first.
    """

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(item.config.rootpath / "tests").parts[0]

    for item in items:
        if folder(item) in REAL:
            item.add_marker(pytest.mark.xdist_group("real"))
    items.sort(
        key=lambda item: (folder(item) not in REAL, item.get_closest_marker("spark") is None)
    )


class WaitUntil(Protocol):
    """Waits for what another process must bring about."""

    def __call__(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None: ...


@pytest.fixture(scope="session")
def wait_until() -> WaitUntil:
    """Poll a condition until it holds; the test fails if it does not in time."""

    def wait(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Java:
    """The runtime the product would choose."""
    return find_java(tmp_path_factory.mktemp("java"))


@pytest.fixture(scope="module")
def zookeeper(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running ZooKeeper for a module's tests, each of which keeps to a path of its own."""
    with EmbeddedZooKeeper(java, tmp_path_factory.mktemp("zookeeper")) as server:
        yield server

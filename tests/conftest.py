"""What tests of all kinds share: the real things that are slow to start, once a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from orchestrator.embedded.java import Java, find_java
from orchestrator.embedded.zookeeper import EmbeddedZooKeeper

PATIENCE_S = 480.0
"""For what another process must bring about: far more than it takes, since machines are busy."""

LOOK_S = 0.01
"""How often a condition that costs little is looked at."""

settings.register_profile("untimed", deadline=None)
# On a busy machine, an example takes as long as it takes.
settings.load_profile("untimed")

REAL = ("functional", "integration")
"""Folders of tests with real parts, which run in real time and often wait."""

FOLDERS = (*REAL, "round_trip", "platform", "simulation", "property", "unit")
"""In the order of how long a file of them takes."""

TOGETHER = tuple(f"tests/integration/orchestrator/spark/{folder}" for folder in ("hosts/", ""))
"""Folders whose tests share a Spark session, or start one where no other may run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Have golden files written anew."""
    parser.addoption("--refresh-golden", action="store_true", help="write golden files anew")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first, those that start Spark first of all."""

    def place(item: pytest.Item) -> tuple[bool, bool, int]:
        folder = item.path.relative_to(item.config.rootpath / "tests").parts[0]
        return folder not in REAL, item.get_closest_marker("spark") is None, FOLDERS.index(folder)

    items.sort(key=place)


class FileByFile(LoadScopeScheduling):
    """Gives a process that has almost done with a file the next one, some folders as a whole.

    Files keep their order, so that all processes end with short ones, at about the same time.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FileByFile:
    """Have several processes share the tests in this way."""
    return FileByFile(config, log)


class WaitUntil(Protocol):
    """Waits for what another process must bring about."""

    def __call__(
        self,
        condition: Callable[[], bool],
        timeout_s: float = PATIENCE_S,
        every_s: float = LOOK_S,
    ) -> None: ...


@pytest.fixture(scope="session")
def wait_until() -> WaitUntil:
    """Poll a condition until it holds; the test fails if it does not in time."""

    def wait(
        condition: Callable[[], bool], timeout_s: float = PATIENCE_S, every_s: float = LOOK_S
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
            time.sleep(every_s)

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

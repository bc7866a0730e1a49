"""A lasting watch, against a client whose requests are answered in a chosen order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from orchestrator.store.watch import ZooKeeperWatch

FOLDER = "/vivace/streams"


class Answer:
    """The result of a request that is answered at once."""

    def __init__(self, value: object, exception: Exception | None = None) -> None:
        self._value = value
        self.exception = exception

    def get(self) -> object:
        return self._value

    def rawlink(self, callback: Callable[[Answer], None]) -> None:
        callback(self)


class CreatedMeanwhile:
    """A folder that another client creates between the first two requests of this one."""

    def __init__(self) -> None:
        self.exists = False
        self.watched: list[str] = []

    def get_children_async(self, path: str, watch: object) -> Answer:
        if not self.exists:
            self.exists = True
            return Answer(None, NoNodeError())
        self.watched.append(f"children of {path}")
        return Answer(["north"])

    def exists_async(self, path: str, watch: object) -> Answer:
        self.watched.append(path)
        return Answer(object())


def test_a_folder_that_is_created_while_it_is_looked_for_is_watched() -> None:
    client, called = CreatedMeanwhile(), threading.Event()
    ZooKeeperWatch(cast("KazooClient", client), FOLDER, called.set, children=True).arm()
    assert client.watched == [FOLDER, f"children of {FOLDER}", f"{FOLDER}/north"]
    assert called.is_set()

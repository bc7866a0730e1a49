"""Whatever error kazoo raises, those who use a store need to know the store's errors only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from orchestrator.records import CordonRecord
from orchestrator.store.protocol import CORDONS, SessionState, StoreError, StoreUnavailable
from orchestrator.store.zookeeper import ZooKeeperStore


def errors(kind: type[Exception] = KazooException) -> Iterator[type[Exception]]:
    """Every exception of kazoo's."""
    yield kind
    for each in kind.__subclasses__():
        yield from errors(each)


class Refused:
    """The result of a call that the server refuses, or gets no response to."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def get(self, timeout: float) -> None:
        raise self._error


@pytest.mark.parametrize("kind", [*dict.fromkeys(errors()), KazooTimeoutError])
def test_every_error_of_kazoo_s_becomes_one_of_the_store_s(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def start(*_: object) -> None:
        """There is no server."""

    def refuse(*_: object) -> Refused:
        return Refused(kind())

    monkeypatch.setattr(KazooClient, "start", start)
    monkeypatch.setattr(KazooClient, "set_async", refuse)
    store = ZooKeeperStore("127.0.0.1:1", "c", "secret", connect_timeout_s=0.0)
    store.state = SessionState.CONNECTED
    with pytest.raises(StoreError) as caught:
        store.update(CORDONS.key("n1"), CordonRecord(node="n1", since_us=0), 3)
    goes_on = kind in (
        ConnectionLoss,
        SessionExpiredError,
        OperationTimeoutError,
        KazooTimeoutError,
    )
    assert isinstance(caught.value, StoreUnavailable) or not goes_on

"""What a stream that is followed gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.api import tailing
from orchestrator.api.connection import Cluster
from orchestrator.edges.events import Deliver
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import reach
from tests.streams_of_numbers import chunk


class Told:
    """An observer to whom so much is delivered."""

    def __init__(self, *deliveries: Deliver) -> None:
        self._left = [*deliveries]

    def __enter__(self) -> Told:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self, _: float) -> Iterator[Deliver]:
        yield from self._left


def delivery(*rows: tuple[int, int], lost: int = 0) -> Deliver:
    return Deliver(stream="alerts", epoch=1, chunk=chunk(0, [*rows]), lost=lost, arrived_us=0)


def test_a_batch_has_rows_or_tells_of_lost_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    told = Told(delivery(), delivery(lost=2), delivery(), delivery((1, 5)), delivery())

    def observer(*_: object) -> Told:
        return told

    monkeypatch.setattr(tailing, "Observer", observer)
    followed: Any = tailing.tail(Cluster(reach(), cluster.store), "alerts", 1)
    found = [(each.lost, len(each.rows)) for each in followed.batches]
    assert found == [(2, 0), (0, 1)]

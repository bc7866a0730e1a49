"""What a stream that is followed gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from orchestrator.api import tailing
from orchestrator.api.connection import Cluster
from orchestrator.edges.events import Deliver
from orchestrator.results.streams import TailBatch
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


def delivery(
    *rows: tuple[int, int], lost: int = 0, first_seq: int = 0, generation: int = 1
) -> Deliver:
    return Deliver(
        stream="alerts", epoch=1, generation=generation, chunk=chunk(first_seq, [*rows]),
        lost=lost, arrived_us=0,
    )  # fmt: skip


Follow = Callable[..., list[TailBatch]]


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Follows a stream of which an observer is delivered something, up to a limit."""
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()

    def follow(*deliveries: Deliver, limit: int, after: str | None = None) -> list[TailBatch]:
        def observer(*_: object) -> Told:
            return Told(*deliveries)

        monkeypatch.setattr(tailing, "Observer", observer)
        reached = Cluster(reach(), cluster.store)
        return [*tailing.tail(reached, "alerts", limit, after=after).batches]

    return follow


def test_a_batch_has_rows_or_tells_of_lost_ones(followed: Follow) -> None:
    told = (delivery(), delivery(lost=2), delivery(), delivery((1, 5)), delivery())
    found = [(each.lost, len(each.rows)) for each in followed(*told, limit=1)]
    assert found == [(2, 0), (0, 1)]


def numbers(batches: list[TailBatch]) -> list[tuple[int, int, list[int]]]:
    """Of each batch: how many are lost before it, its generation, its numbers."""
    return [(each.lost, each.generation, [row.seq for row in each.rows]) for each in batches]


def test_who_comes_again_gets_what_follows_and_is_told_what_is_lost(followed: Follow) -> None:
    told = (delivery((1, 3)), delivery((2, 2), first_seq=3), delivery((3, 1), first_seq=5))
    assert numbers(followed(*told, limit=2, after="1-3")) == [(0, 1, [4]), (0, 1, [5])]
    late = (delivery((1, 1), first_seq=6), delivery((2, 1), first_seq=7))
    assert numbers(followed(*late, limit=2, after="1-3")) == [(2, 1, [6]), (0, 1, [7])]


def test_a_generation_that_begins_while_a_client_is_away_is_new_to_it(followed: Follow) -> None:
    told = (delivery((1, 2)), delivery((2, 2), generation=2))
    first, second = followed(*told, limit=3, after="1-0")
    assert numbers([first, second]) == [(0, 1, [1]), (0, 2, [0, 1])]
    assert [first.id, second.id] == ["1-1", "2-1"]
    assert numbers(followed(*told, limit=1, after="2-0")) == [(0, 2, [1])]

"""Connections deliver in order, or not at all."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest

from orchestrator.simulation.world.links import Fate, Lane, Links


class Network:
    """Two hosts, a clock, and everything that has arrived."""

    def __init__(self) -> None:
        self.now_us = 0
        self.arrived: list[tuple[int, str]] = []
        self.links = Links(self._at, lambda: self.now_us)
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def _at(self, when_us: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._agenda, (when_us, self._order, action))

    def send(self, name: str) -> None:
        self.links.carry("a", "b", 10, lambda: self.arrived.append((self.now_us, name)))

    def run_until(self, end_us: int) -> None:
        while self._agenda and self._agenda[0][0] <= end_us:
            self.now_us, _, action = heapq.heappop(self._agenda)
            action()
        self.now_us = end_us


@pytest.fixture
def network() -> Network:
    return Network()


def test_messages_arrive_in_order_one_delay_later(network: Network) -> None:
    network.links.slow_down("a", "b", 5)
    network.send("one")
    network.links.slow_down("a", "b", 0)
    network.send("two")
    network.run_until(100)
    assert network.arrived == [(15, "one"), (15, "two")]


def test_messages_overtake_a_bulky_one_and_share_its_fate(network: Network) -> None:
    def send_bulky() -> None:
        def arrive() -> None:
            network.arrived.append((network.now_us, "bulky"))

        network.links.carry("a", "b", 30, arrive, Lane.BULK)

    send_bulky()
    network.send("one")
    network.run_until(20)
    network.links.break_connection("a", "b", Fate.LOST)
    network.run_until(50)
    send_bulky()
    network.send("two")
    network.run_until(100)
    assert network.arrived == [(10, "one"), (60, "two"), (80, "bulky")]


def test_a_cut_loses_what_is_under_way_and_what_follows(network: Network) -> None:
    network.send("under way")
    network.links.cut("a", "b")
    network.send("sent into the cut")
    network.run_until(50)
    network.links.mend("a", "b")
    network.send("after")
    network.run_until(100)
    assert network.arrived == [(60, "after")]


def test_a_cut_that_holds_delivers_when_it_is_mended(network: Network) -> None:
    network.send("under way")
    network.links.cut("a", "b", holds=True)
    network.send("sent into the cut")
    network.run_until(50)
    network.links.mend("a", "b")
    network.send("after")
    network.run_until(100)
    assert [name for _, name in network.arrived] == ["under way", "sent into the cut", "after"]


@pytest.mark.parametrize(
    ("fate", "names"),
    [
        (Fate.LOST, ["next"]),
        (Fate.LATE, ["next", "under way"]),
        (Fate.TWICE, ["under way", "next", "under way"]),
    ],
)
def test_only_messages_of_a_broken_connection_are_overtaken(
    network: Network, fate: Fate, names: list[str]
) -> None:
    network.send("under way")
    network.run_until(5)
    network.links.break_connection("a", "b", fate, late_us=30)
    network.send("next")
    network.run_until(100)
    assert [name for _, name in network.arrived] == names

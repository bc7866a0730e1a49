"""Probes, latencies and the coordinate of a host."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from foundation.bounds import MAX_RTT_MS
from ha.messages import Ping, Pong
from orchestrator.host.core.prober import (
    EAGER_FACTOR,
    FIRST_PROBES,
    LINK_EXCHANGES,
    SAMPLES_KEPT,
    UNSETTLED_ERROR,
    Prober,
)
from topology.cpu import Linear, Queueing

INTERVAL_US = 100_000


def prober(*peers: str) -> Prober:
    made = Prober(np.random.default_rng(1), cpu=Linear(10), interval_us=INTERVAL_US)
    made.use(peers)
    return made


def exchange(one: Prober, other: Prober, name: str, rtt_ms: float, now_us: int = 10**9) -> None:
    """One host probes the other, which it knows by `name`."""
    pong = other.answer(probed(one, name, now_us - round(rtt_ms * 1000)), now_us)
    one.measured(name, pong, now_us)


def probed(one: Prober, name: str, now_us: int) -> Ping:
    """A probe to this peer; others may be probed before."""
    for _ in range(20):
        probe = one.next_probe(now_us)
        if probe is not None and probe[0] == name:
            break
    return Ping(sent_us=now_us)


def test_probes_every_peer_and_no_other_host() -> None:
    made = prober("b", "c")
    probes = [made.next_probe(5) for _ in range(50)]
    assert {probe[0] for probe in probes if probe is not None} == {"b", "c"}
    assert all(probe is not None and probe[1] == Ping(sent_us=5) for probe in probes)


@pytest.mark.parametrize("seed", range(20))
def test_whoever_has_not_been_measured_is_probed_first(seed: int) -> None:
    """A cluster that starts waits until every host has measured all others. By chance alone, one of
    seven peers may wait for a hundred probes."""
    peers = [f"n{number}" for number in range(7)]
    made, other = Prober(np.random.default_rng(seed), Linear(10), INTERVAL_US), prober()
    made.use(("silent", *peers))
    for at in range(len(peers) + FIRST_PROBES):
        now_us = 10**9 + at * INTERVAL_US
        probe = made.next_probe(now_us)
        assert probe is not None
        peer, ping = probe
        assert peer not in made.latencies_ms
        if peer != "silent":
            made.measured(peer, other.answer(ping, now_us + 5000), now_us + 5000)
    assert made.latencies_ms.keys() == set(peers)
    # Who does not respond keeps nobody from being probed again.
    after = {made.next_probe(2 * 10**9 + at) for at in range(100)}
    assert {each[0] for each in after if each is not None} == {"silent", *peers}


def test_without_peers_there_is_no_probe() -> None:
    assert prober().next_probe(5) is None


def test_latency_is_the_median_of_the_last_samples() -> None:
    made, other = prober("b"), prober()
    for rtt_ms in (10, 12, 11, 500, 10):
        exchange(made, other, "b", rtt_ms)
    assert made.latencies_ms["b"] == pytest.approx(11)
    for _ in range(SAMPLES_KEPT):
        exchange(made, other, "b", 20)
    assert made.latencies_ms["b"] == pytest.approx(20)


def test_coordinates_come_to_tell_the_round_trip() -> None:
    one, other = prober("b"), prober("a")
    for _ in range(200):
        exchange(one, other, "b", 30)
        exchange(other, one, "a", 30)
    apart = np.subtract(one.coordinate.position_ms, other.coordinate.position_ms)
    assert np.linalg.norm(apart) == pytest.approx(30, rel=0.1)
    assert one.coordinate.error < 0.1


def test_probes_fast_until_settled() -> None:
    one, other = prober("b"), prober("a")
    assert one.interval_us == INTERVAL_US // EAGER_FACTOR
    for _ in range(200):
        exchange(one, other, "b", 30)
        exchange(other, one, "a", 30)
    assert one.interval_us == INTERVAL_US


def test_where_links_are_shorter_than_their_noise_a_host_settles_all_the_same() -> None:
    one, other = prober("b"), prober("a")
    noise_ms = np.random.default_rng(2).exponential(2.0, 400)
    for number in range(200):
        exchange(one, other, "b", 1 + float(noise_ms[2 * number]))
        exchange(other, one, "a", 1 + float(noise_ms[2 * number + 1]))
    assert one.coordinate.error > UNSETTLED_ERROR
    assert one.interval_us == INTERVAL_US


def test_an_impossible_measurement_is_counted_and_changes_nothing() -> None:
    made = prober("b")
    before = made.coordinate
    probed(made, "b", 2000)
    made.measured("b", Pong(sent_us=2000, position_ms=(0.0, 0.0, 0.0), error=0.5), 1000)
    probed(made, "b", 0)
    made.measured("b", Pong(sent_us=0, position_ms=(float("nan"), 0.0, 0.0), error=0.5), 1000)
    assert made.rejected == 2
    assert made.coordinate == before
    assert made.latencies_ms == {}


def test_the_answer_of_a_peer_that_has_left_is_ignored() -> None:
    made, other = prober("b"), prober()
    exchange(made, other, "b", 10)
    made.use(("c",))
    exchange(made, other, "b", 10)
    assert made.latencies_ms == {}


def test_load_counts_on_the_cpu_axis() -> None:
    made = prober()
    made.load = 0.5
    assert made.coordinate.cpu_ms == pytest.approx(5.0)
    queueing = Prober(np.random.default_rng(1), cpu=Queueing(5), interval_us=INTERVAL_US)
    queueing.load = 0.75
    assert queueing.coordinate.cpu_ms == pytest.approx(15.0)


def test_uncertainty_is_reported_in_ms_too() -> None:
    one, other = prober("b"), prober("a")
    assert one.coordinate.error_ms == MAX_RTT_MS
    for _ in range(200):
        exchange(one, other, "b", 30)
        exchange(other, one, "a", 30)
    assert one.coordinate.error_ms < 3


def test_a_changed_link_is_measured_within_the_stated_exchanges() -> None:
    one, other = prober("b"), prober("a")
    for _ in range(SAMPLES_KEPT):
        exchange(one, other, "b", 30)
    for _ in range(LINK_EXCHANGES - 1):
        exchange(one, other, "b", 60)
    assert one.latencies_ms["b"] == pytest.approx(30)
    exchange(one, other, "b", 60)
    assert one.latencies_ms["b"] == pytest.approx(60)


def test_a_coordinate_of_another_space_is_counted_and_changes_nothing() -> None:
    made = prober("b")
    probed(made, "b", 0)
    made.measured("b", Pong(sent_us=0, position_ms=(1.0, 2.0), error=0.5), 1000)
    assert made.rejected == 1
    assert made.latencies_ms == {}


def test_a_coordinate_that_starts_over_is_counted() -> None:
    made = prober("b")
    probed(made, "b", 0)
    made.measured("b", Pong(sent_us=0, position_ms=(1e308, 1e308, 1e308), error=0.5), 1000)
    assert made.resets == 1


def test_clocks_of_other_machines_are_measured_by_the_same_probes() -> None:
    hour_us = 3_600_000_000
    one = Prober(np.random.default_rng(1), Linear(10), INTERVAL_US, anchor_us=hour_us)
    near, far = (
        Prober(np.random.default_rng(1), Linear(10), INTERVAL_US, anchor_us=us) for us in (7, -300)
    )
    one.use(("near", "far"), {"far": "machine"})
    assert one.measures_clocks == frozenset()
    # Both were booted at the same time; their wall clocks were read at different ones.
    now_us = hour_us + 5_000_000
    for name, other in (("near", near), ("far", far)):
        anchor_us = 7 if name == "near" else -300
        pong = other.answer(probed(one, name, now_us - 4000), now_us - hour_us - 1000 + anchor_us)
        one.measured(name, pong, now_us)
    assert one.measures_clocks == {"machine"}
    (found,) = one.clocks(now_us).values()
    assert abs(found.ahead_us) <= found.uncertainty_us < 2100
    # A new boot is another machine.
    one.use(("near", "far"), {"far": "machine, booted again"})
    assert one.clocks(now_us) == {}


def test_an_answer_that_nobody_asked_for_counts_for_nothing() -> None:
    """Else a peer could make itself look near, and its clock look certain, by naming a time."""
    one, other = prober("b"), prober()
    one.use(("b",), {"b": "machine"})
    ping, now_us = probed(one, "b", 10**9), 10**9 + 8000
    true = other.answer(ping, now_us - 4000)
    for lie in (
        structs.replace(true, sent_us=now_us - 1),
        structs.replace(true, sent_us=now_us - 10**8),
    ):
        one.measured("b", lie, now_us)
    assert one.latencies_ms == {}
    assert one.measures_clocks == frozenset()
    assert one.rejected == 2
    one.measured("b", true, now_us)
    assert one.latencies_ms["b"] == pytest.approx(8.0)


def test_an_answer_counts_once() -> None:
    one, other = prober("b"), prober()
    pong = other.answer(probed(one, "b", 10**9), 10**9 + 4000)
    for late_us in (8000, 500_000, 900_000):
        one.measured("b", pong, 10**9 + late_us)
    assert one.latencies_ms["b"] == pytest.approx(8.0)


def test_responses_may_come_in_any_order() -> None:
    one, other = prober("b"), prober()
    pings = [probed(one, "b", 10**9 + sent_us) for sent_us in (0, 1000, 2000)]
    for ping in reversed(pings):
        one.measured("b", other.answer(ping, 10**9 + 5000), 10**9 + 9000)
    assert one.rejected == 0
    assert one.latencies_ms["b"] == pytest.approx(8.0)


def test_hosts_of_one_machine_that_tell_different_times_are_noticed() -> None:
    one, true, liar = prober("true", "liar"), prober(), prober()
    one.use(("true", "liar"), {"true": "machine", "liar": "machine"})
    now_us = 10**9
    for name, other, wrong_us in (("true", true, 0), ("liar", liar, 10**6), ("true", true, 0)):
        pong = other.answer(probed(one, name, now_us - 4000), now_us - 2000 + wrong_us)
        one.measured(name, pong, now_us)
    assert one.contradictions == 2


def test_the_spread_is_that_of_the_last_samples() -> None:
    one, other = prober("b"), prober()
    for rtt_ms in (90, 11, 12, 10, 13, 12):
        exchange(one, other, "b", rtt_ms)
    assert one.spreads_ms == {"b": pytest.approx(3, abs=0.01)}
    assert prober("b").spreads_ms == {}

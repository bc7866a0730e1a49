"""Samples as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from topology.latency_samples import LatencySamples, LatencySamplesError, medians, possible, sums


def measured(*samples: tuple[int, int, float]) -> LatencySamples:
    nodes, peers, rtt_ms = zip(*samples, strict=True)
    return LatencySamples(nodes=np.array(nodes), peers=np.array(peers), rtt_ms=np.array(rtt_ms))


def rows(samples: LatencySamples) -> list[tuple[int, int, float]]:
    columns = (samples.nodes.tolist(), samples.peers.tolist(), samples.rtt_ms.tolist())
    return list(zip(*columns, strict=True))


def test_median_of_a_pair_outvotes_one_late_packet() -> None:
    given = measured((1, 0, 7.0), (0, 1, 10.0), (0, 1, 900.0), (0, 1, 11.0), (0, 2, 4.0))
    assert rows(medians(given)) == [(0, 1, 11.0), (0, 2, 4.0), (1, 0, 7.0)]


def test_of_two_samples_the_smaller_counts() -> None:
    assert rows(medians(measured((0, 1, 10.0), (0, 1, 900.0)))) == [(0, 1, 10.0)]


def test_median_of_nothing_is_nothing() -> None:
    given = measured((0, 1, 1.0))
    assert len(medians(given.take(np.array([False])))) == 0


def test_both_ways_gives_each_end_the_sample() -> None:
    assert rows(measured((0, 1, 5.0)).both_ways()) == [(0, 1, 5.0), (1, 0, 5.0)]


def test_possible_are_positive_finite_and_between_two() -> None:
    nan = float("nan")
    given = measured((0, 1, 5.0), (0, 1, 0.0), (0, 1, nan), (0, 1, 1e5), (1, 1, 5.0))
    assert possible(given).tolist() == [True, False, False, False, False]


def test_sums_by_node() -> None:
    assert sums(np.array([2, 0, 2]), np.array([1.0, 2.0, 3.0]), 4).tolist() == [2, 0, 4, 0]


def test_lengths_that_differ_are_named() -> None:
    with pytest.raises(LatencySamplesError, match=r"\(1,\), \(2,\), \(1,\)"):
        LatencySamples(nodes=np.array([0]), peers=np.array([1, 2]), rtt_ms=np.array([1.0]))

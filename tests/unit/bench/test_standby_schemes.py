"""How much of a stream secondaries are sent, and how large batches may be (§4.6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.standby_schemes import largest_batch
from placement.records import Recovery
from placement.standby_schemes import sent_share
from tests.unit.placement.on_a_line import query

ACK_MS = 200.0
active = Recovery(detection_ms=10, transfer_ms=20, reprocess_ms=0)
join = query({"Sa": 4000, "Ra": 1000}, {"S": "s", "R": "r"}, cost_us=500)
"""40 and 10 tuples/s: 8 and 2 of them in 200 ms."""


def test_batches_of_one_send_all():
    """Active Standby."""
    assert sent_share(37, ACK_MS, 1) == 1


@pytest.mark.parametrize(
    ("batch_size", "share"), [(2, 1), (3, 6 / 8), (4, 1), (5, 5 / 8), (8, 1), (9, 0), (100, 0)]
)
def test_what_no_batch_is_full_of_is_trimmed(batch_size: int, share: float):
    """Of 8 tuples between two acknowledgements."""
    assert sent_share(40, ACK_MS, batch_size) == pytest.approx(share)


def test_intervals_of_unequal_length_are_averaged():
    """2.5 tuples in 200 ms: two and three in turn. Batches of three go out in every second one."""
    assert sent_share(12.5, ACK_MS, 3) == pytest.approx(0.5 * 3 / 2.5)
    assert sent_share(12.5, ACK_MS, 2) == pytest.approx(2 / 2.5)


def test_a_stream_without_tuples_is_sent_whole():
    assert sent_share(0, ACK_MS, 5) == 1


def test_the_largest_batch_uses_up_the_slack():
    # Each tuple more in a batch holds back one of either input: 1 ms.
    assert largest_batch(join, "a", active, 30 + 4.9, ACK_MS) == 5
    assert largest_batch(join, "a", active, 30 + 5, ACK_MS) == 6


def test_without_slack_all_is_sent_at_once():
    assert largest_batch(join, "a", active, 30, ACK_MS) == 1
    assert largest_batch(join, "a", active, 29, ACK_MS) == 1


def test_batches_beyond_an_interval_are_not_considered():
    """From 9 on nothing is ever sent of the faster input; intervals may hold one more."""
    assert largest_batch(join, "a", active, 1e6, ACK_MS) == 10
    assert sent_share(40, ACK_MS, 10) == 0
    free = query({"Sa": 4000}, {"S": "s"})
    assert largest_batch(free, "a", active, 30, ACK_MS) == 10


def test_the_bound_is_kept_to_the_last_digit():
    """33.3 + 29.1 is less in binary than 10 + 20.2 and 322 times 0.1."""
    graph = query({"Sa": 200_000}, {"S": "s"}, cost_us=100)
    recovery = Recovery(detection_ms=10, transfer_ms=20.2, reprocess_ms=0)
    for tenths in range(250, 320):
        bound_ms = 33.3 + tenths / 10
        batch_size = largest_batch(graph, "a", recovery, bound_ms, ACK_MS)
        held_ms = (batch_size - 1) * 100 / 1e3
        assert replace(recovery, reprocess_ms=held_ms).total_ms <= bound_ms
        assert batch_size in (tenths + 31, tenths + 32)

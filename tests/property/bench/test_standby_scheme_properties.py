"""Standby schemes against a queue that is filled and trimmed tuple by tuple."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.standby_schemes import largest_batch
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView
from placement.records import Recovery
from placement.standby_schemes import sent_share
from tests.property.placement import definitions
from tests.unit.placement.on_a_line import line

rates = st.one_of(st.just(0.0), st.floats(1e-6, 1e5))
intervals_ms = st.floats(1, 5000)


@settings(max_examples=200, deadline=None)
@given(rates, intervals_ms, st.integers(1, 2000))
def test_a_share_is_a_share(tuples_s: float, ack_interval_ms: float, batch_size: int):
    share = sent_share(tuples_s, ack_interval_ms, batch_size)
    assert 0 <= share <= 1
    if batch_size == 1:
        assert share == 1
    if tuples_s > 0 and batch_size > tuples_s * ack_interval_ms / 1e3 + 1:
        assert share == 0


def share_by_simulation(per_interval: Fraction, batch_size: int) -> float:
    """Send when a batch is full, trim what lies unsent at every acknowledgement."""
    intervals = per_interval.denominator
    queued = sent = total = 0
    due = Fraction(0)
    for _ in range(intervals):
        due += per_interval
        while total + 1 <= due:
            total += 1
            queued += 1
            if queued == batch_size:
                sent += queued
                queued = 0
        queued = 0
    return sent / total


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 600), st.integers(1, 20), st.integers(1, 60))
def test_the_share_is_that_of_a_queue(tuples: int, intervals: int, batch_size: int):
    """Whole cycles of intervals in which the tuples come at equal distances."""
    per_interval = Fraction(tuples, intervals)
    expected = share_by_simulation(per_interval, batch_size)
    # Five acknowledgements a second, so that rates are what binary numbers can tell.
    assert sent_share(float(5 * per_interval), 200.0, batch_size) == pytest.approx(expected)


view: NetworkView = line({"n0": 0, "n1": 0}, {"s": 0})


def with_inputs(count: int, tuples_s: float, cost_us: float) -> QueryGraph:
    sources = [f"S{i}" for i in range(count)]
    return QueryGraph(
        name="q",
        operators=(
            Operator(name="a", cost_us=cost_us),
            *(Operator(name=name, pinned="s") for name in sources),
        ),
        links=tuple(
            Link(source=name, target="a", rate_bytes_s=1, tuples_s=tuples_s) for name in sources
        ),
    )


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 4),
    rates,
    st.floats(0, 1e5),
    st.floats(0, 500),
    st.floats(0, 500),
    st.floats(0, 1000),
)
def test_the_largest_batch_keeps_the_bound_and_one_more_would_not(
    inputs: int,
    tuples_s: float,
    cost_us: float,
    detection_ms: float,
    transfer_ms: float,
    slack_ms: float,
):
    graph = with_inputs(inputs, tuples_s, cost_us)
    active = Recovery(detection_ms=detection_ms, transfer_ms=transfer_ms, reprocess_ms=0)
    bound_ms = detection_ms + transfer_ms + slack_ms
    batch_size = largest_batch(graph, "a", active, bound_ms, 200.0)

    def recovery_ms(batch_size: int) -> float:
        places = dict.fromkeys(graph.by_name, "s") | {"a": "n0"}
        parts = definitions.recovery(graph, "a", "n1", places, {}, view, detection_ms, batch_size)
        return parts.total_ms + transfer_ms

    assert batch_size >= 1
    assert recovery_ms(batch_size) <= bound_ms * (1 + 1e-12)
    if batch_size <= tuples_s / 5 + 1:
        assert recovery_ms(batch_size + 1) >= bound_ms * (1 - 1e-12)
    else:
        # Larger ones would save nothing more.
        assert sent_share(tuples_s, 200.0, batch_size) == (1 if tuples_s == 0 else 0)

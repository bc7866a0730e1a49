"""Durations in buckets: each in the one with the least bound that holds it."""

from __future__ import annotations

from orchestrator.host.core.durations import Durations

LEAST_US = 1000


def counted(durations: Durations) -> dict[float, int]:
    """Bound → how many, without the empty ones."""
    found = durations.histogram
    bounds = (*found.bounds_ms, float("inf"))
    return {b: n for b, n in zip(bounds, found.counts, strict=True) if n}


def test_bounds_are_from_1_ms_to_16_s() -> None:
    bounds = Durations(LEAST_US).histogram.bounds_ms
    assert (len(bounds), bounds[0], bounds[-1]) == (15, 1.0, 16384.0)


def test_a_bound_belongs_to_its_bucket() -> None:
    durations = Durations(LEAST_US)
    for us in (-5, 0, 1, 1000, 1000.4, 1001, 2000, 2001, 16_384_000, 16_384_001):
        durations.add(us)
    assert counted(durations) == {1.0: 4, 2.0: 3, 4.0: 1, 16384.0: 1, float("inf"): 1}

"""Traces of heartbeats, replayed through the failure detector."""

from __future__ import annotations

import numpy as np
import pytest

from bench.detection import HEARTBEAT_US, SUSPECT_US, detections_ms, false_suspicions, made_up

SECONDS = 40.0
PHI = 8.0


@pytest.mark.parametrize("kind", ["idle", "loaded", "overloaded"])
def test_made_up_traces_are_of_heartbeats(kind: str) -> None:
    arrivals_us = made_up(kind, SECONDS, seed=3)
    assert len(arrivals_us) == SECONDS * 1e6 / HEARTBEAT_US
    assert np.all(np.diff(arrivals_us) >= 0)
    assert np.array_equal(arrivals_us, made_up(kind, SECONDS, seed=3))


def test_an_idle_peer_is_suspected_sooner_with_phi_and_never_falsely() -> None:
    arrivals_us = made_up("idle", SECONDS, seed=1)
    stops = [800, 1000, 1200]
    fixed, learnt = (detections_ms(arrivals_us, phi, stops) for phi in (None, PHI))
    assert min(fixed) > SUSPECT_US / 1000
    assert max(learnt) < min(fixed)
    assert false_suspicions(arrivals_us, PHI) == false_suspicions(arrivals_us, None) == 0


def test_an_overloaded_peer_is_suspected_no_more_often_with_phi() -> None:
    arrivals_us = made_up("overloaded", SECONDS, seed=2)
    fixed, learnt = (false_suspicions(arrivals_us, phi) for phi in (None, PHI))
    assert 0 < learnt <= fixed

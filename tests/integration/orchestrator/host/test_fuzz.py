"""Hosts withstand whatever a peer may send; `make fuzz` goes on for longer."""

from __future__ import annotations

import pytest

from scripts.fuzz import fuzz


@pytest.mark.slow
def test_hosts_go_on_whatever_peers_send() -> None:
    found = fuzz(4.0, seed=1)
    assert found.faults == []
    assert found.counters["frames_refused"] > 0
    assert found.counters["data_refused"] > 0
    assert found.counters["epochs_refused"] > 0

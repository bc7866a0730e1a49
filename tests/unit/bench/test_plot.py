"""The picture of the silences."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.failover import plot
from bench.silence import Measurement


@pytest.mark.slow
def test_plot_of_systems_that_are_orders_apart(tmp_path: Path) -> None:
    measured = {
        "ours": Measurement(gaps_ms=[88.0, 95.0, 91.0]),
        "spark": Measurement(gaps_ms=[3300.0, 4300.0]),
    }
    plot(measured, tmp_path / "gaps.png")
    assert (tmp_path / "gaps.png").read_bytes().startswith(b"\x89PNG")

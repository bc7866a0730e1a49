"""What checkpoints cost, by the turns of benchmark `restart`."""

from __future__ import annotations

import numpy as np
import pytest

from bench.restart import COST_TURN_S, FRAGMENTS, LEAST_TURNS, Turn, cost_figures
from orchestrator.errors import VivaceError

TURNS = 2 * LEAST_TURNS + 1


def _turns(tuple_us: list[float], written: dict[int, int] | None = None) -> list[Turn]:
    """Turns one after the other, of which every second one has all checkpoints."""
    return [
        Turn(
            began_s=number * COST_TURN_S,
            ended_s=(number + 1) * COST_TURN_S,
            tuple_us=us,
            written=(written or {}).get(number, FRAGMENTS * (number % 2)),
        )
        for number, us in enumerate(tuple_us)
    ]


def test_a_turn_is_compared_with_those_beside_it_and_scaled_to_the_default_interval() -> None:
    # The machine gets slower all the time; a checkpoint costs 9 % of a turn of 10 s.
    drifting = [100.0 + number for number in range(TURNS)]
    turns = _turns([us * (1.09 if number % 2 else 1) for number, us in enumerate(drifting)])
    arrived_s = np.arange(0.5, TURNS * COST_TURN_S)
    latencies_ms = np.where(arrived_s % (2 * COST_TURN_S) < COST_TURN_S, 20.0, 30.0)
    found = cost_figures(turns, arrived_s, latencies_ms)
    assert found["checkpoint.cost_pct"] == pytest.approx(3.0)
    assert found["checkpoint.cost_pct_quarter"] == pytest.approx(3.0)
    assert found["checkpoint.cost_turns"] == LEAST_TURNS
    assert found["checkpoint.latency_ms_p99"] == 30
    assert found["checkpoint.without.latency_ms_p99"] == 20


@pytest.mark.parametrize("odd", [{1: FRAGMENTS - 1}, {2: 1}], ids=["too few", "beside"])
def test_turns_whose_checkpoints_went_astray_do_not_count(odd: dict[int, int]) -> None:
    with pytest.raises(VivaceError, match="turns had all checkpoints"):
        cost_figures(_turns([100.0] * TURNS, odd), np.zeros(0), np.zeros(0))

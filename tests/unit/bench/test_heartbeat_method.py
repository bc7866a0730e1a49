"""Heartbeats give what time-splitting gives without cycles, and get nowhere with one."""

from __future__ import annotations

import pytest

from bench.heartbeat_method import DeadlockError, HeartbeatMethod
from bench.recursion import _Compared  # pyright: ignore[reportPrivateUsage]
from bench.recursion_workload import input_tuples, recursive


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("together", [1, 4])
def test_all_methods_give_the_same_at_each_instant(parts: int, together: int) -> None:
    compared = _Compared(parts, 40, together, rounds=1)
    assert compared.equal
    assert len(compared.result) > 40 // together


@pytest.mark.parametrize("limit", [1, 10, 1000])
def test_heartbeats_deadlock_on_a_loop(limit: int) -> None:
    method = HeartbeatMethod(recursive(1), limit)
    with pytest.raises(DeadlockError, match="avg_delay_0, all_avg_delay wait for heartbeats"):
        method.run({"input": input_tuples(8, 1)}, 9)
    assert not method.given

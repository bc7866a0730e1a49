"""In the demo's verdict, figures that decide stand beside their limit."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.cli.render.verdict import verdict_view
from tests.unit.orchestrator.drills.test_processor_use import demo, rendered


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [
        (0.07987, "7.987 % / 1 % ✗ of 21,598 completed timestamps"),
        (0.00468, "0.468 % / 1 % of 21,598 completed timestamps"),
    ],
)
def test_deadline_misses_stand_beside_their_limit_and_are_marked(ratio: float, shown: str) -> None:
    assert shown in rendered(verdict_view(demo(deadline_miss_ratio=ratio)))


def test_latency_that_does_not_decide_is_not_marked() -> None:
    slow = msgspec.structs.replace(demo(), latency_ms_p99=628.0)
    assert not slow.failures
    view = rendered(verdict_view(slow))
    assert "p50 60.0 ms, p99 628 ms, deadline 300 ms" in view
    assert "✗" not in view

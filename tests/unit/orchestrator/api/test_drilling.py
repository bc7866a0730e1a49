"""What a drill watches."""

from __future__ import annotations

from typing import cast

import pytest

from orchestrator.api import drilling
from orchestrator.errors import Refused
from orchestrator.host.observer import Observer


class SilentObserver:
    """Is delivered nothing."""

    def poll(self, _seconds: float) -> list[object]:
        return []


def test_outputs_that_do_not_flow_have_a_drill_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "FLOW_TIMEOUT_S", 0.01)
    silent = cast(Observer, SilentObserver())
    watch = drilling._Watch(  # pyright: ignore[reportPrivateUsage]
        silent, ["alerts", "totals"], lambda: None
    )
    with pytest.raises(Refused) as refused:
        watch.await_flow("hang")
    assert str(refused.value).startswith("drill hang refused: outputs 'alerts, totals': no result")
    watch.deliveries = {stream: [cast(drilling.Deliver, None)] for stream in watch.deliveries}
    watch.await_flow("hang")

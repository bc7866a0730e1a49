from __future__ import annotations

import math

import pytest

from topology.cpu import CpuLoadError, linear


def test_load_is_scaled_in_proportion():
    assert linear(0, 10) == 0
    assert linear(0.5, 10) == 5
    assert linear(2, 10) == 20


@pytest.mark.parametrize(("load", "scale_ms"), [(-0.1, 10), (math.nan, 10), (1, -1), (1, math.inf)])
def test_what_no_machine_has_is_refused(load: float, scale_ms: float):
    with pytest.raises(CpuLoadError):
        linear(load, scale_ms)

from __future__ import annotations

import pytest

from orchestrator.manifest.units import UnitError, duration_ms, rate_bytes_s


@pytest.mark.parametrize("text", ["1e999 KB/s", "-1e999 B/s"])
def test_an_infinite_quantity_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="is too large"):
        rate_bytes_s(text)


def test_a_negative_quantity_is_refused() -> None:
    with pytest.raises(UnitError, match="is negative"):
        duration_ms("-1 ms")

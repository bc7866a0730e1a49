from __future__ import annotations

import pytest

from orchestrator.documents.units import UnitError, duration_ms, memory_bytes, rate_bytes_s


@pytest.mark.parametrize("text", ["1e999 KB/s", "-1e999 B/s"])
def test_an_infinite_quantity_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="is too large"):
        rate_bytes_s(text)


def test_a_negative_quantity_is_refused() -> None:
    with pytest.raises(UnitError, match="is negative"):
        duration_ms("-1 ms")


@pytest.mark.parametrize("text", ["1e300 h", "1e9 h"])
def test_a_duration_that_would_not_fit_into_the_store_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="is too large"):
        duration_ms(text)


@pytest.mark.parametrize("text", ["1e30g", "99999999999999999999m", "2e6 GB"])
def test_more_memory_than_any_host_has_is_refused(text: str) -> None:
    with pytest.raises(UnitError, match="is too large"):
        memory_bytes(text)

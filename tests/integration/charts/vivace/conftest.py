"""The chart's tests need helm, and fail without: a chart that nobody has rendered is not tested."""

from __future__ import annotations

import pytest

from tests.platform.tools import TOOLS


@pytest.fixture(scope="session", autouse=True)
def _helm() -> None:
    """Have helm be there."""
    missing = [tool.name for tool in TOOLS if tool.missing]
    assert not missing, f"{missing} are not there: `make setup-platform` fetches them"

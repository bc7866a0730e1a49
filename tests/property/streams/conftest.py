from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.kernels import kernels


@pytest.fixture(autouse=True)
def any_kernels() -> Iterator[None]:
    """Leave the kernels that were in use."""
    before = kernels.current()
    yield
    kernels.use(before)

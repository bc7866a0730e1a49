"""What a host does once before it counts."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from orchestrator.host.warm_up import warm_up


@pytest.fixture
def collected_again() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("collected_again")
def test_what_is_loaded_is_not_looked_through_again() -> None:
    before = gc.get_freeze_count()
    warm_up()
    assert gc.get_freeze_count() > before
    loaded = len(gc.get_objects())
    assert loaded < gc.get_freeze_count()

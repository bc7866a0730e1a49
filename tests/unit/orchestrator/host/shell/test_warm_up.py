"""The warm-up of a host before it joins its cluster."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from orchestrator.host.shell.warm_up import warm_up


@pytest.fixture
def collected_again() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("collected_again")
def test_loaded_objects_are_excluded_from_garbage_collection() -> None:
    before = gc.get_freeze_count()
    warm_up()
    assert gc.get_freeze_count() > before
    loaded = len(gc.get_objects())
    assert loaded < gc.get_freeze_count()

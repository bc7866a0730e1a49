"""Garbage collections of a host: the oldest generation is left alone if that would take long."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from orchestrator.host.shell.garbage import (
    COLLECT_EVERY_US,
    MOST_BLOCKS,
    FullCollections,
    collect_young_only,
    set_aside,
)


class Cycle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def young_only() -> Iterator[None]:
    before = gc.get_threshold()
    collect_young_only()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def collections_of_the_oldest() -> int:
    return gc.get_stats()[2]["collections"]


@pytest.mark.usefixtures("young_only")
def test_the_interpreter_collects_no_large_state() -> None:
    before = collections_of_the_oldest()
    kept = [[number] for number in range(200_000)]
    assert len(kept) == 200_000
    assert collections_of_the_oldest() == before


@pytest.mark.usefixtures("young_only")
def test_a_host_with_few_objects_collects_regularly() -> None:
    collections = FullCollections(0)
    Cycle()
    before = collections_of_the_oldest()
    assert not collections.attend(COLLECT_EVERY_US - 1)
    assert collections.attend(COLLECT_EVERY_US)
    assert not collections.attend(2 * COLLECT_EVERY_US - 1)
    assert collections_of_the_oldest() == before + 1
    assert not any(isinstance(each, Cycle) for each in gc.get_objects())


@pytest.mark.usefixtures("young_only")
def test_a_host_with_a_large_state_does_not_collect_it() -> None:
    collections = FullCollections(0)
    kept = [[number] for number in range(MOST_BLOCKS)]
    assert not collections.attend(COLLECT_EVERY_US)
    del kept
    assert collections.attend(2 * COLLECT_EVERY_US)


def test_an_observer_leaves_collections_to_the_process_that_it_is_in() -> None:
    collections = FullCollections(0)
    before = collections_of_the_oldest()
    assert not collections.attend(COLLECT_EVERY_US)
    assert collections_of_the_oldest() == before


def test_what_is_set_aside_is_not_visited_meanwhile_and_is_collected_afterwards() -> None:
    with set_aside():
        assert gc.get_freeze_count() > 10_000
        kept = [Cycle()]
        assert len(gc.get_objects()) < 10_000
        kept.clear()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert not any(isinstance(each, Cycle) for each in gc.get_objects())

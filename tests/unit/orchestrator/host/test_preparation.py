"""Snapshots whose states are read in steps before the core sees them."""

from __future__ import annotations

import gc
from dataclasses import replace

from ha.messages import Snapshot
from orchestrator.host.preparation import SnapshotPreparations
from streams.chunk import Position
from streams.engine import FragmentEngine
from streams.state import PIECE_ROWS, SavedState
from tests.unit.streams.running import chunk, program, sensor

STATEMENT = program("ISTREAM(SELECT k, i FROM s [ROWS 100000] WHERE i > 7)")


def filled() -> FragmentEngine:
    engine = FragmentEngine(STATEMENT)
    rows = [(1, "a", number, 0.5, True) for number in range(5 * PIECE_ROWS)]
    engine.offer("s", chunk(sensor, rows, [1]))
    engine.advance(1)
    return engine


def snapshot_of(state: SavedState) -> Snapshot:
    return Snapshot(
        fragment="q",
        epoch=1,
        generation=1,
        state=state,
        inputs={"s": (1, Position())},
        log_base=Position(),
        log=(),
        consumers=(),
    )


def prepared(preparations: SnapshotPreparations) -> tuple[Snapshot, int]:
    """The next snapshot, and the number of steps that it took."""
    steps = 1
    while (arrived := preparations.step()) is None:
        steps += 1
    assert isinstance(arrived.message, Snapshot)
    return arrived.message, steps


def test_a_state_is_read_in_steps_and_adopted_at_once() -> None:
    saved = filled().snapshot()
    preparations = SnapshotPreparations()
    assert preparations.step() is None
    preparations.add("peer", snapshot_of(SavedState.of(list(saved.pieces()))), STATEMENT)
    # Asked for again meanwhile.
    preparations.add("peer", snapshot_of(saved), STATEMENT)
    assert not gc.isenabled()
    message, steps = prepared(preparations)
    assert steps == 3
    assert (preparations.fragments, gc.isenabled()) == ((), True)
    # A prepared state is adopted once; after that its pieces are read.
    for _ in range(2):
        engine = FragmentEngine(STATEMENT)
        engine.restore(message.state)
        assert engine.snapshot() == saved
        assert engine.positions() == filled().positions()
    gc.unfreeze()


def test_a_damaged_state_reaches_the_core_as_it_came() -> None:
    good = list(filled().snapshot().pieces())
    preparations = SnapshotPreparations()
    broken = snapshot_of(SavedState.of(good[:3]))
    preparations.add("peer", broken, STATEMENT)
    other = replace(snapshot_of(SavedState.of(good)), fragment="other")
    preparations.add("peer", other, STATEMENT)
    assert prepared(preparations)[0] is broken
    assert prepared(preparations)[0].fragment == "other"
    assert gc.isenabled()
    gc.unfreeze()

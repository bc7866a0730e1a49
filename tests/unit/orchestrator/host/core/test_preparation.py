"""Snapshots whose states are read in steps before the core sees them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import structs

from ha.messages import Snapshot
from orchestrator.host.core.events import MessageArrived
from orchestrator.host.core.preparation import SnapshotPreparations
from orchestrator.host.shell.wire import WireError
from streams.evaluate.engine import FragmentEngine
from streams.vectors.chunk import Chunk, Position
from streams.vectors.state import PIECE_ROWS, SavedState
from tests.streams_of_numbers import chunk as numbers
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
    assert isinstance(arrived, MessageArrived)
    assert isinstance(arrived.message, Snapshot)
    return arrived.message, steps


def test_a_log_is_decoded_in_steps() -> None:
    chunks = tuple(numbers(number, [(number + 1, 1)]) for number in range(3))
    decoded: list[Chunk] = []

    def log() -> Iterator[Chunk]:
        for each in chunks:
            decoded.append(each)
            yield each

    preparations = SnapshotPreparations()
    preparations.add("peer", snapshot_of(filled().snapshot()), STATEMENT, log())
    for count in range(1, 4):
        assert preparations.step() is None
        assert len(decoded) == count
    message, _ = prepared(preparations)
    assert message.log == chunks


def test_a_damaged_log_costs_its_snapshot_and_no_other() -> None:
    def log() -> Iterator[Chunk]:
        yield numbers(0, [(1, 1)])
        raise WireError("damaged")

    preparations = SnapshotPreparations()
    preparations.add("peer", snapshot_of(filled().snapshot()), STATEMENT, log())
    other = structs.replace(snapshot_of(filled().snapshot()), fragment="other")
    preparations.add("peer", other, STATEMENT)
    assert preparations.step() is None
    with pytest.raises(WireError, match="damaged"):
        preparations.step()
    assert prepared(preparations)[0].fragment == "other"


def test_a_step_lasts_as_long_as_there_is_time() -> None:
    preparations = SnapshotPreparations()
    preparations.add("peer", snapshot_of(filled().snapshot()), STATEMENT)
    looks = iter([True, True, False])
    assert preparations.step(lambda: next(looks)) is None
    _, steps = prepared(preparations)
    assert steps == 3


def test_a_state_is_read_in_steps_and_adopted_at_once() -> None:
    saved = filled().snapshot()
    preparations = SnapshotPreparations()
    assert preparations.step() is None
    preparations.add("peer", snapshot_of(SavedState.of(list(saved.pieces()))), STATEMENT)
    # Asked for again meanwhile.
    preparations.add("peer", snapshot_of(saved), STATEMENT)
    message, steps = prepared(preparations)
    assert steps == 6
    assert preparations.fragments == ()
    # A prepared state is adopted once; after that its pieces are read.
    for _ in range(2):
        engine = FragmentEngine(STATEMENT)
        engine.restore(message.state)
        assert engine.snapshot() == saved
        assert engine.positions() == filled().positions()


def test_a_damaged_state_reaches_the_core_as_it_came() -> None:
    good = list(filled().snapshot().pieces())
    preparations = SnapshotPreparations()
    broken = snapshot_of(SavedState.of(good[:3]))
    preparations.add("peer", broken, STATEMENT)
    other = structs.replace(snapshot_of(SavedState.of(good)), fragment="other")
    preparations.add("peer", other, STATEMENT)
    assert prepared(preparations)[0].state is broken.state
    assert prepared(preparations)[0].fragment == "other"

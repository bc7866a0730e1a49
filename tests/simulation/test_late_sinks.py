"""Sinks that take long to open, in the simulated world."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.edges.sinks.write_behind import WriteBehind
from orchestrator.simulation.world.memory_sink import MemorySink, MemorySinks
from tests.pairs import Input
from tests.simulation.test_back_pressure import assert_exact, begun

OPENS_FOR_US = 20_000_000


class LateSink(MemorySink, WriteBehind):  # pyright: ignore[reportIncompatibleVariableOverride]
    """A sink that the drivers see as one that is being opened on a thread of its own."""

    def __init__(self, disks: MemorySinks, node: str, key: tuple[str, str, int]) -> None:
        MemorySink.__init__(self, disks, node, key)
        # Observers open theirs inline.
        opens_for_us = 0 if node.startswith("observer") else OPENS_FOR_US
        self._open_us = disks.clock_us() + opens_for_us

    @property
    def is_open(self) -> bool:
        return self._disks.clock_us() >= self._open_us

    @property
    def address(self) -> None:
        return None

    def take_dropped(self) -> int:
        return 0


def test_streams_start_once_their_sinks_are_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for a reader that has never subscribed, so output would be dropped."""
    monkeypatch.setattr("orchestrator.simulation.world.memory_sink.MemorySink", LateSink)
    recording = Input.random(seed=10, seconds=25)
    played = begun(recording, tmp_path, memory_bytes=256 * 1024).scenario.finish()
    assert_exact(played, recording)

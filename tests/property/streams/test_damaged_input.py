"""Whatever is offered, restored or evaluated: only the engine's own errors come out."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.evaluate.engine import EvaluationError, FragmentEngine
from streams.plan.program import Program
from streams.vectors.chunk import Chunk, ChunkError, Position
from streams.vectors.state import FORMAT_VERSION, MAGIC, SavedState, SnapshotError
from tests.property.streams.evaluate.test_engine_matches_oracle import shapes
from tests.unit.streams.running import chunk, program, sensor

STATEFUL = (
    *("groups", "self-join", "rstream of partition", "join of three", "rstream of rows"),
    *("tumbling", "partition by two", "join of windows that tumble", "lookup", "sessions"),
)
programs = {shape: program(shapes[shape]) for shape in STATEFUL}

HEADER = struct.calcsize(">4sHI")


def filled(compiled: Program) -> FragmentEngine:
    engine = FragmentEngine(compiled)
    rows = [
        (time, key, time, 0.5 * time, None)
        for time, key in enumerate(["a", "b", "ç", None, "a", "b"], 1)
    ]
    for stream in compiled.inputs:
        engine.offer(stream, chunk(sensor, rows, [3, 6]))
    engine.advance(10)
    return engine


saved = {shape: list(filled(compiled).snapshot().pieces()) for shape, compiled in programs.items()}


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes replaced, removed or inserted at a few places."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        removed = draw(st.sampled_from([0, 1, 1, 1, 4, 40]))
        changed[at : at + removed] = draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f"]))
        )
    return bytes(changed)


@pytest.mark.parametrize("shape", STATEFUL)
def test_a_damaged_snapshot_raises_snapshot_errors_only(shape: str) -> None:
    compiled, good = programs[shape], saved[shape]

    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        # Under a right checksum, so that the damage reaches the operators.
        damaged = data.draw(st.integers(0, len(good) - 1))
        body = data.draw(mutations(good[damaged][HEADER:]))
        sealed = struct.pack(">4sHI", MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body
        pieces = [*good[:damaged], sealed, *good[damaged + 1 :]]
        if data.draw(st.booleans()):
            pieces = data.draw(st.lists(st.sampled_from(pieces)))
        engine = filled(compiled)
        before = engine.snapshot()
        try:
            engine.restore(SavedState.of(pieces))
        except SnapshotError:
            assert engine.snapshot() == before
            return
        # What passed for a snapshot may still make no sense: it breaks the engine, not its host.
        with suppress(ChunkError, EvaluationError, SnapshotError):
            for stream, position in engine.positions().items():
                time = position.watermark_ms + 1
                row = (time, "a", 1, 1.0, True)
                engine.offer(
                    stream, chunk(sensor, [row], [time, time + 100], first_seq=position.next_seq)
                )
            while engine.advance(10) is not None:
                pass
            list(engine.snapshot().pieces())

    check()


@given(st.lists(st.binary(max_size=100), max_size=3))
def test_bytes_that_are_no_snapshot_raise_snapshot_errors_only(data: list[bytes]) -> None:
    with pytest.raises(SnapshotError):
        FragmentEngine(programs["groups"]).restore(SavedState.of(data))


numbers = st.one_of(
    st.integers(-5, 20), st.sampled_from([-(2**63), -(2**62), 2**62, 2**62 - 1, 2**63 - 1])
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(STATEFUL),
    st.lists(st.tuples(numbers, st.lists(numbers, max_size=3), st.lists(numbers, max_size=3))),
)
def test_damaged_chunks_raise_chunk_errors_only(
    shape: str, chunks: list[tuple[int, list[int], list[int]]]
) -> None:
    compiled = programs[shape]
    engine = FragmentEngine(compiled)
    plain = chunk(sensor, [], [1])
    for first_seq, timestamps, watermarks_ms in chunks:
        made: Chunk = replace(
            plain,
            first_seq=first_seq,
            rows=chunk(sensor, [(time, "a", 1, 1.0, True) for time in timestamps], [1]).rows,
            watermarks_ms=np.array(watermarks_ms, dtype=np.int64),
            ingestion_times_us=np.array(watermarks_ms[:2], dtype=np.int64),
        )
        for stream in compiled.inputs:
            with suppress(ChunkError):
                engine.skip_to(stream, Position(next_seq=first_seq))
                engine.offer(stream, made)
        while engine.advance(3) is not None:
            pass


def test_a_chunk_of_another_stream_is_refused() -> None:
    with pytest.raises(ChunkError, match="no input"):
        FragmentEngine(programs["groups"]).offer("other", chunk(sensor, [], [1]))


def test_a_statement_that_raises_is_told_from_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FragmentEngine(program("RSTREAM(SELECT k FROM s [NOW])"))
    engine.offer("s", chunk(sensor, [(1, "a", 1, 1.0, True)], [1]))

    def fails(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("streams.evaluate.stateless.Stateless.run", fails)
    with pytest.raises(EvaluationError, match="no room"):
        engine.advance(1)


def test_a_snapshot_with_panes_that_do_not_belong_to_its_boundary_is_refused() -> None:
    """It would be evaluated at every boundary since, of which there may be any number."""
    compiled = program(
        "RSTREAM(SELECT i, count(*) AS c FROM s [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] "
        "GROUP BY i)"
    )
    engine = filled(compiled)
    FragmentEngine(compiled).restore(engine.snapshot())
    vars(vars(engine)["_evaluation"])["_boundary_ms"] = -(10**15)
    with pytest.raises(SnapshotError, match="has not let enter"):
        FragmentEngine(compiled).restore(engine.snapshot())

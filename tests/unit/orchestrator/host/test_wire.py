"""Frames that are not a message of this version are refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest

from ha.messages import Control, Data, Snapshot
from orchestrator.host.wire import (
    PORTION_CHUNKS,
    WIRE_VERSION,
    UnreadSnapshot,
    WireError,
    begin_decoding,
    decode,
    encode,
)
from streams.chunk import Position, stream_schema
from streams.state import PIECE_ROWS, SavedState
from tests.streams_of_numbers import chunk, schema

DATA = Data(stream="s", epoch=2, generation=1, chunk=chunk(3, [(10, 2), (20, 0)]))
SNAPSHOT = Snapshot(
    fragment="s",
    epoch=2,
    generation=1,
    state=SavedState.of([b"state", b"more"]),
    inputs={"in": (1, Position(next_seq=4, watermark_ms=40))},
    log_base=Position(next_seq=3, watermark_ms=5),
    log=(DATA.chunk, chunk(5, [(30, 1)])),
    consumers=(("node", Position(), True),),
)


def only_s(stream: str) -> pa.Schema | None:
    return schema if stream == "s" else None


def refused(frames: list[bytes], problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        decode(frames, only_s)


def test_data_comes_back_tuple_by_tuple() -> None:
    back = decode(encode(DATA), only_s)
    assert isinstance(back, Data)
    assert back.chunk.rows.equals(DATA.chunk.rows)
    assert back.chunk.watermarks_ms.tolist() == [10, 20]
    assert (back.chunk.first_seq, back.epoch) == (3, 2)


def test_snapshot_comes_back_with_its_log() -> None:
    back = decode(encode(SNAPSHOT), only_s)
    assert isinstance(back, Snapshot)
    (kept,) = back.log
    assert (kept.first_seq, kept.watermarks_ms.tolist()) == (3, [10, 20, 30])
    assert kept.rows.num_rows == 3
    assert (back.state, back.inputs, back.consumers) == (
        SNAPSHOT.state,
        SNAPSHOT.inputs,
        SNAPSHOT.consumers,
    )


def test_the_log_of_a_snapshot_is_written_and_read_in_pieces() -> None:
    count = 3 * PORTION_CHUNKS - 1
    long = replace(SNAPSHOT, log=tuple(chunk(at, [(at + 1, 1)]) for at in range(count)))
    frames = encode(long)
    unread = begin_decoding(frames, only_s)
    assert isinstance(unread, UnreadSnapshot)
    assert unread.snapshot.log == ()
    read = list(unread.log)
    assert [len(one.watermarks_ms) for one in read] == [PORTION_CHUNKS] * 2 + [PORTION_CHUNKS - 1]
    assert [one.first_seq for one in read] == [0, PORTION_CHUNKS, 2 * PORTION_CHUNKS]
    assert read[-1].end == long.log[-1].end
    # Damage in the log is met when that piece is read.
    frames[3] = b"damaged"
    unread = begin_decoding(frames, only_s)
    assert isinstance(unread, UnreadSnapshot)
    assert next(unread.log).first_seq == 0
    with pytest.raises(WireError):
        next(unread.log)


def test_many_rows_make_a_piece_of_the_log_of_their_own() -> None:
    sizes = [1, PIECE_ROWS - 1, 2 * PIECE_ROWS, 1]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    log = tuple(
        chunk(start, [(at + 1, size)])
        for at, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )
    back = decode(encode(replace(SNAPSHOT, log=log)), only_s)
    assert isinstance(back, Snapshot)
    assert [one.rows.num_rows for one in back.log] == [PIECE_ROWS, 2 * PIECE_ROWS, 1]


def test_a_chunk_without_rows_costs_no_body() -> None:
    empty = Data(stream="s", epoch=1, generation=1, chunk=chunk(0, [(10, 0)]))
    frames = encode(empty)
    assert frames[1] == b""
    back = decode(frames, only_s)
    assert isinstance(back, Data)
    assert back.chunk.rows.schema.equals(schema)


@pytest.mark.parametrize("frames", [[], [b""], [b"\x00"], [bytes([WIRE_VERSION + 1])]])
def test_another_version(frames: list[bytes]) -> None:
    refused(frames, "wire version")


def test_unknown_stream() -> None:
    refused(
        encode(Data(stream="t", epoch=1, generation=1, chunk=DATA.chunk)),
        "stream 't' is neither read nor produced here",
    )


def test_another_schema() -> None:
    narrow = stream_schema({"number": "string", "more": "float"})
    with pytest.raises(WireError):
        decode(encode(DATA), lambda _: narrow)


def test_missing_and_surplus_frames() -> None:
    frames = encode(DATA)
    with pytest.raises(WireError):
        decode(frames[:-1], only_s)
    with pytest.raises(WireError):
        decode([*frames, b"more"], only_s)


def test_a_snapshot_without_the_rows_of_its_log() -> None:
    # Missing pieces of the state are noticed when it is restored.
    with pytest.raises(WireError):
        decode(encode(SNAPSHOT)[:2], only_s)


def test_a_control_message_with_a_body() -> None:
    refused([*encode(Control(epochs={})), b"body"], "1 more frames")


def test_truncated_rows() -> None:
    header, body = encode(DATA)
    with pytest.raises(WireError):
        decode([header, body[: len(body) // 2]], only_s)


def test_a_chunk_that_breaks_its_promises() -> None:
    falling = chunk(0, [(20, 1), (10, 1)])
    refused(
        encode(Data(stream="s", epoch=1, generation=1, chunk=falling)),
        "watermarks do not rise",
    )


def test_an_unknown_kind() -> None:
    header = msgspec.msgpack.encode([2, "Nonsense", None])
    refused([bytes([WIRE_VERSION]) + header], "Nonsense")


def test_rows_whose_metadata_point_past_their_end() -> None:
    header, body = encode(DATA)
    for at in range(len(body)):
        for value in (0, 255):
            damaged = body[:at] + bytes([value]) + body[at + 1 :]
            with suppress(WireError):
                decode([header, damaged], only_s)

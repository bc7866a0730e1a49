"""Frames that are not a message of this version are refused."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from io import BytesIO

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from msgspec import structs
from pyarrow import ipc

from foundation.arrays import IntArray
from foundation.bounds import MAX_NAME, MAX_NUMBER
from ha.messages import (
    MOST_ENTRIES,
    Ack,
    Control,
    Data,
    Heartbeat,
    Message,
    Offer,
    OutputDigest,
    Ping,
    Pong,
    Snapshot,
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from orchestrator.host.shell.wire import (
    PORTION_CHUNKS,
    CompressedRows,
    UnreadSnapshot,
    WireError,
    as_received,
    begin_decoding,
    decode,
    encode,
    encode_frames,
    is_data,
    is_heartbeat,
    measured,
)
from orchestrator.records.versions import LEAST_WIRE, WIRE_VERSION
from streams.vectors.chunk import Position, stream_schema
from streams.vectors.state import PIECE_ROWS, SavedState
from tests.streams_of_numbers import chunk, schema

DATA = Data(stream="s", epoch=2, generation=1, chunk=chunk(3, [(10, 2), (20, 0)]), departs_ms=-4)
SNAPSHOT = Snapshot(
    fragment="s",
    epoch=2,
    generation=1,
    state=SavedState.of([b"state", b"more"]),
    inputs={"in": (1, Position(next_seq=4, watermark_ms=40))},
    log_base=Position(next_seq=3, watermark_ms=5),
    log=(DATA.chunk, chunk(5, [(30, 1)])),
    consumers=(("node", Position(), True, False),),
    departs_ms=7,
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
    assert (back.chunk.first_seq, back.epoch, back.departs_ms) == (3, 2, -4)


def test_columns_that_the_receiver_does_not_use_do_not_travel() -> None:
    made = stream_schema({"a": "int", "b": "string", "c": "bool", "d": "float"})
    rows = pa.RecordBatch.from_pydict(
        {"_ts": [1, 2], "a": [3, None], "b": ["x" * 500, None], "c": [True, None], "d": [0.5, 1]},
        schema=made,
    )
    part = replace(DATA.chunk, rows=rows)
    whole = structs.replace(DATA, chunk=part)
    for columns in ((1, 3), (), (2,), (1, 2, 3, 4)):
        sent = structs.replace(whole, columns=columns)
        back = decode(encode(sent), lambda _: made)
        assert isinstance(back, Data)
        assert back.columns == columns
        assert back.chunk.rows.schema == made
        for place in range(len(made)):
            came = place == 0 or place in columns
            values = back.chunk.rows.column(place).to_pylist()
            assert values == (rows.column(place).to_pylist() if came else [None, None])
        again = as_received(sent)
        assert isinstance(again, Data)
        assert again.chunk.rows.equals(back.chunk.rows)
    narrow = structs.replace(whole, columns=(1, 3))
    assert len(b"".join(encode(narrow))) < len(b"".join(encode(whole))) - 500


@pytest.mark.parametrize("columns", [(2,), (0,), (1, 1), (1, 0)])
def test_columns_that_the_stream_does_not_have(columns: tuple[int, ...]) -> None:
    header, body = encode(structs.replace(DATA, columns=(1,)))
    as_said = msgspec.msgpack.decode(header[1:])
    as_said[6] = columns
    for rows in (body, b""):
        refused([header[:1] + msgspec.msgpack.encode(as_said), rows], "columns")


def test_columns_that_do_not_come_take_no_memory() -> None:
    made = stream_schema(
        {f"i{n}": "int" for n in range(50)} | {f"s{n}": "string" for n in range(50)}
    )
    count = 50_000
    nulls = [pa.nulls(count, field.type) for field in list(made)[1:]]
    rows = pa.RecordBatch.from_arrays([pa.array(np.full(count, 10)), *nulls], schema=made)
    part = replace(DATA.chunk, rows=rows)
    frames = encode(structs.replace(DATA, chunk=part, columns=()))
    decode(frames, lambda _: made)
    before = pa.total_allocated_bytes()
    back = decode(frames, lambda _: made)
    # What is shared was made with the first one.
    assert pa.total_allocated_bytes() - before < 3 * len(b"".join(frames))
    assert isinstance(back, Data)
    back.chunk.rows.validate(full=True)
    assert back.chunk.rows.equals(rows)


def test_the_log_of_a_snapshot_says_each_watermark() -> None:
    many = replace(
        DATA.chunk,
        first_seq=3,
        rows=DATA.chunk.rows.slice(0, 0),
        watermarks_ms=np.arange(100),
        ingestion_times_us=np.arange(100),
    )
    frames = encode(structs.replace(SNAPSHOT, log=(many,)))
    assert len(frames[1]) > 2 * 8 * 100
    as_said = msgspec.msgpack.decode(frames[1])
    as_said[2] = np.array([0, 1, 99], dtype="<i8").tobytes()
    refused([frames[0], msgspec.msgpack.encode(as_said), *frames[2:]], "one by one")


@pytest.mark.parametrize(
    ("watermarks_ms", "numbers"),
    [
        (np.arange(64) * 50, 3),
        (np.arange(17), 3),
        (np.concatenate([np.arange(30), [1000], 1000 + np.arange(1, 40) * 7]), 7),
        (np.arange(4096), 3),
        # Few, too many, and none that have anything in common.
        (np.arange(16), 16),
        (np.arange(4097), 4097),
        (np.arange(40) ** 3, 40),
    ],
)
def test_watermarks_at_equal_distances_travel_as_runs(
    watermarks_ms: IntArray, numbers: int
) -> None:
    nothing = DATA.chunk.rows.slice(0, 0)
    times_us = np.repeat(np.int64(10**15), len(watermarks_ms))
    part = replace(
        DATA.chunk, rows=nothing, watermarks_ms=watermarks_ms, ingestion_times_us=times_us
    )
    frames = encode(structs.replace(DATA, chunk=part))
    back = decode(frames, only_s)
    assert isinstance(back, Data)
    assert back.chunk.watermarks_ms.tolist() == watermarks_ms.tolist()
    assert back.chunk.ingestion_times_us.tolist() == times_us.tolist()
    (_, _, written, _) = msgspec.msgpack.decode(frames[0][1:])[4]
    assert len(written) == 8 * numbers


@pytest.mark.parametrize(
    ("count", "numbers"),
    [
        (64, (0, 1, 62)),
        (64, (0, 1, 64)),
        (64, (0, 1, 60, 5)),
        (64, (0, 1, -1, 1, 64)),
        (64, (0, 1, 63, 1, 0)),
        (64, (0,)),
        (64, ()),
        (4097, (0, 1, 4096)),
        (2**50, (0, 1, 2**50 - 1)),
        (2, (0, 1, 1)),
    ],
)
def test_runs_that_are_not_so_many_watermarks(count: int, numbers: tuple[int, ...]) -> None:
    empty = structs.replace(DATA, chunk=replace(DATA.chunk, rows=DATA.chunk.rows.slice(0, 0)))
    header, body = encode(empty)
    as_said = msgspec.msgpack.decode(header[1:])
    as_said[4][1] = count
    as_said[4][2] = np.array(numbers, dtype="<i8").tobytes()
    refused([header[:1] + msgspec.msgpack.encode(as_said), body], "watermarks")


def test_snapshot_comes_back_with_its_log() -> None:
    back = decode(encode(SNAPSHOT), only_s)
    assert isinstance(back, Snapshot)
    (kept,) = back.log
    assert (kept.first_seq, kept.watermarks_ms.tolist()) == (3, [10, 20, 30])
    assert kept.rows.num_rows == 3
    assert (back.state, back.inputs, back.consumers, back.departs_ms) == (
        SNAPSHOT.state,
        SNAPSHOT.inputs,
        SNAPSHOT.consumers,
        7,
    )


def test_the_log_of_a_snapshot_is_written_and_read_in_pieces() -> None:
    count = 3 * PORTION_CHUNKS - 1
    long = structs.replace(SNAPSHOT, log=tuple(chunk(at, [(at + 1, 1)]) for at in range(count)))
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


def test_frames_tell_their_size_so_far_and_how_long_making_them_took() -> None:
    told: list[tuple[int, float, bool]] = []
    now_us = iter(range(0, 1000, 10))

    def tell(size: int, took_us: float, ended: bool) -> None:
        told.append((size, took_us, ended))

    frames = measured(encode_frames(SNAPSHOT), lambda: next(now_us), tell)
    first = next(frames)
    assert told == [(len(first), 10.0, False)]
    whole = encode(SNAPSHOT)
    assert [first, *frames] == whole
    # A look at the clock before and after each, and after the last.
    assert told[-2:] == [
        (sum(map(len, whole)), 10.0 * len(whole), False),
        (sum(map(len, whole)), 10.0 * (len(whole) + 1), True),
    ]


def test_many_rows_make_a_piece_of_the_log_of_their_own() -> None:
    sizes = [1, PIECE_ROWS - 1, 2 * PIECE_ROWS, 1]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    log = tuple(
        chunk(start, [(at + 1, size)])
        for at, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )
    back = decode(encode(structs.replace(SNAPSHOT, log=log)), only_s)
    assert isinstance(back, Snapshot)
    assert [one.rows.num_rows for one in back.log] == [PIECE_ROWS, 2 * PIECE_ROWS, 1]


def test_a_chunk_without_rows_costs_no_body() -> None:
    empty = Data(stream="s", epoch=1, generation=1, chunk=chunk(0, [(10, 0)]))
    frames = encode(empty)
    assert frames[1] == b""
    back = decode(frames, only_s)
    assert isinstance(back, Data)
    assert back.chunk.rows.schema.equals(schema)


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"\x00"], [bytes([WIRE_VERSION + 1])], [bytes([LEAST_WIRE - 1])]]
)
def test_another_version(frames: list[bytes]) -> None:
    refused(frames, "this version speaks")


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


def foreign(
    rows: pa.RecordBatch, codec: str | None = None, metadata: dict[str, str] | None = None
) -> list[bytes]:
    """The messages of a stream of rows as another program may write it: schema, …, rows."""
    file = BytesIO()
    options = ipc.IpcWriteOptions(compression=codec)
    writer = ipc.new_stream(file, rows.schema, options=options)
    writer.write_batch(rows, custom_metadata=metadata)
    writer.close()
    reader = ipc.MessageReader.open_stream(pa.py_buffer(file.getvalue()))
    count = 3 if "dictionary" in str(rows.schema) else 2
    return [reader.read_next_message().serialize().to_pybytes() for _ in range(count)]


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_rows(codec: str) -> None:
    header, _ = encode(DATA)
    _, body = foreign(DATA.chunk.rows, codec)
    with pytest.raises(CompressedRows):
        decode([header, body], only_s)


def test_rows_that_are_a_schema_or_a_dictionary() -> None:
    header, _ = encode(DATA)
    coded = pa.array(["a", "b"]).dictionary_encode()
    columns = pa.RecordBatch.from_arrays([coded], names=["c"])
    for body in foreign(columns)[:2]:
        refused([header, body], "something other than rows")


def test_rows_with_metadata() -> None:
    header, _ = encode(DATA)
    _, body = foreign(DATA.chunk.rows, metadata={"more": "than rows"})
    refused([header, body], "metadata")


def test_rows_with_bytes_after_their_end() -> None:
    header, body = encode(DATA)
    refused([header, body + b"12345678"], "announced")


@pytest.mark.parametrize("first_seq", [2**62, MAX_NUMBER + 1, -1])
def test_sequence_numbers_beyond_all_bounds(first_seq: int) -> None:
    refused(
        encode(structs.replace(DATA, chunk=replace(DATA.chunk, first_seq=first_seq))),
        "Expected `int`",
    )


def test_a_chunk_that_ends_beyond_all_bounds() -> None:
    last = replace(DATA.chunk, first_seq=MAX_NUMBER - 1)
    refused(encode(structs.replace(DATA, chunk=last)), "sequence numbers")


@pytest.mark.parametrize("time_us", [-1, MAX_NUMBER + 1, 2**63 - 1])
def test_ingestion_times_beyond_all_bounds(time_us: int) -> None:
    times_us = np.full(2, time_us)
    wrong = replace(DATA.chunk, ingestion_times_us=times_us)
    refused(encode(structs.replace(DATA, chunk=wrong)), "ingestion times")


def test_watermarks_beyond_all_bounds() -> None:
    for watermark_ms in (-(2**62), -(2**63)):
        early = np.array([watermark_ms, 20])
        refused(
            encode(structs.replace(DATA, chunk=replace(DATA.chunk, watermarks_ms=early))),
            "watermark",
        )


def test_data_and_heartbeats_are_told_by_how_they_begin() -> None:
    alive, probe = encode(Heartbeat(lag_us=2**40)), encode(Ping(sent_us=1))
    assert [is_heartbeat(frames) for frames in (alive, probe, encode(DATA), [])] == [
        True,
        False,
        False,
        False,
    ]
    assert [is_data(frames) for frames in (alive, probe, encode(DATA), [])] == [
        False,
        False,
        True,
        False,
    ]
    assert not is_heartbeat([*alive, b"body"])


POSITION = Position(next_seq=1, watermark_ms=1)
LONG = "x" * (MAX_NAME + 1)


@pytest.mark.parametrize(
    "message",
    [
        structs.replace(DATA, stream=LONG),
        structs.replace(DATA, epoch=MAX_NUMBER + 1),
        structs.replace(DATA, generation=-1),
        structs.replace(SNAPSHOT, consumers=((LONG, POSITION, True, True),)),
        structs.replace(SNAPSHOT, inputs={"in": (MAX_NUMBER + 1, POSITION)}),
        structs.replace(SNAPSHOT, log_base=structs.replace(POSITION, next_seq=2**62)),
        Subscribe(stream="s", position=structs.replace(POSITION, next_seq=-1), generation=1),
        Subscribe(
            stream="s",
            position=structs.replace(POSITION, watermark_ms=2**62 + 1),
            generation=1,
        ),
        Subscribe(stream="s", position=None, generation=MAX_NUMBER + 1),
        Subscribed(stream="s", position=POSITION, epoch=MAX_NUMBER + 1, generation=1),
        Unsubscribe(stream=""),
        SnapshotRequest(fragment=LONG),
        Control(epochs={"f": MAX_NUMBER + 1}),
        Control(epochs={LONG: 1}),
        Control(epochs={f"f{n}": 1 for n in range(MOST_ENTRIES + 1)}),
        Control(acks={"f": Ack(position=POSITION, epoch=-1, generation=1)}),
        Control(offers={"f": Offer(generation=1, epoch=1, watermark_ms=2**63 - 1, sent=True)}),
        Control(digests={"f": OutputDigest(generation=1, interval=0, first_seq=-1, rows=0)}),
        Heartbeat(lag_us=-1),
        Ping(sent_us=-1),
        Pong(sent_us=1, position_ms=(0.0,) * 17),
    ],
)
def test_numbers_names_and_counts_beyond_all_bounds(message: Message) -> None:
    with pytest.raises(WireError):
        decode(encode(message), only_s)

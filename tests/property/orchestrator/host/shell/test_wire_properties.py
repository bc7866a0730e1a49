"""Every message survives the wire, and no other frames are taken for one."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ha.messages import (
    Ack,
    Contradiction,
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
from orchestrator.host.shell.wire import WireError, decode, encode
from streams.vectors.chunk import Chunk, Position, stream_schema
from streams.vectors.state import SavedState

schema = stream_schema({"count": "int", "level": "float", "name": "string", "up": "bool"})

int64 = st.integers(-(2**63), 2**63 - 1)
times = st.integers(-(2**40), 2**40)
counts = st.integers(0, 2**40)
names = st.text(min_size=1, max_size=8)
positions = st.builds(Position, next_seq=counts, watermark_ms=times)


@st.composite
def chunks(draw: st.DrawFn) -> Chunk:
    watermarks_ms = draw(st.lists(times, min_size=1, max_size=6, unique=True).map(sorted))
    at = draw(
        st.lists(st.integers(watermarks_ms[0] - 5, watermarks_ms[-1]), max_size=8).map(sorted)
    )
    row = st.fixed_dictionaries(
        {
            "count": st.none() | int64,
            "level": st.none() | st.floats(allow_nan=False),
            "name": st.none() | st.text(max_size=8),
            "up": st.none() | st.booleans(),
        }
    )
    rows = [{"_ts": ts, **draw(row)} for ts in at]
    ingestion_times_us = draw(
        st.lists(counts, min_size=len(watermarks_ms), max_size=len(watermarks_ms))
    )
    return Chunk(
        first_seq=draw(counts),
        rows=pa.RecordBatch.from_pylist(rows, schema=schema),
        watermarks_ms=np.array(watermarks_ms, dtype=np.int64),
        ingestion_times_us=np.array(ingestion_times_us, dtype=np.int64),
    )


acks = st.builds(Ack, position=positions, epoch=counts, generation=counts)
offers = st.builds(Offer, generation=counts, epoch=counts, watermark_ms=times, sent=st.booleans())
digests = st.builds(OutputDigest, generation=counts, interval=times, first_seq=counts, rows=counts)

messages = st.one_of(
    st.builds(Data, stream=names, epoch=counts, generation=counts, chunk=chunks()),
    st.builds(
        Subscribe,
        stream=names,
        position=st.none() | positions,
        generation=st.none() | counts,
        feed=st.booleans(),
        patient=st.booleans(),
    ),
    st.builds(Subscribed, stream=names, position=positions, epoch=counts, generation=counts),
    st.builds(
        Contradiction,
        stream=names,
        epoch=counts,
        generation=counts,
        had=positions,
        departs_ms=times,
    ),
    st.builds(Unsubscribe, stream=names),
    st.builds(
        Control,
        epochs=st.dictionaries(names, counts, max_size=4),
        digests=st.dictionaries(names, digests, max_size=2),
        acks=st.dictionaries(names, acks, max_size=2),
        offers=st.dictionaries(names, offers, max_size=2),
    ),
    st.builds(Heartbeat, lag_us=counts),
    st.builds(SnapshotRequest, fragment=names),
    st.builds(
        Snapshot,
        fragment=names,
        epoch=counts,
        generation=counts,
        state=st.lists(st.binary(max_size=40), max_size=3).map(SavedState.of),
        inputs=st.dictionaries(names, st.tuples(counts, positions), max_size=3),
        log_base=positions,
        # Several chunks would have to follow each other, since they may be written as one.
        log=st.lists(chunks(), max_size=1).map(tuple),
        consumers=st.lists(
            st.tuples(names, positions, st.booleans(), st.booleans()), max_size=3
        ).map(tuple),
    ),
    st.builds(Ping, sent_us=counts),
    st.builds(
        Pong,
        sent_us=counts,
        answered_us=counts,
        position_ms=st.lists(st.floats(allow_nan=False), max_size=4).map(tuple),
        error=st.floats(allow_nan=False),
    ),
)


def known(_: str) -> pa.Schema:
    return schema


def same(one: Message, other: Message) -> bool:
    """Equality of two messages, including their arrays, by their frames."""
    return type(one) is type(other) and encode(one) == encode(other)


@given(messages)
def test_every_message_survives(message: Message) -> None:
    assert same(decode(encode(message), known), message)


@given(messages, st.data())
def test_a_damaged_message_is_refused_or_still_a_message(
    message: Message, data: st.DataObject
) -> None:
    frames = [bytearray(frame) for frame in encode(message)]
    which = data.draw(st.sampled_from([i for i, frame in enumerate(frames) if frame]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frames[which]) - 1))
        frames[which][at] = data.draw(st.integers(0, 255))
    with suppress(WireError):
        decode([bytes(frame) for frame in frames], known)


@given(messages, st.data())
def test_a_truncated_message_is_refused_or_still_a_message(
    message: Message, data: st.DataObject
) -> None:
    frames = encode(message)
    which = data.draw(st.integers(0, len(frames) - 1))
    frames[which] = frames[which][: data.draw(st.integers(0, len(frames[which])))]
    with suppress(WireError):
        decode(frames, known)


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_garbage_is_refused(frames: list[bytes]) -> None:
    with suppress(WireError):
        decode(frames, known)

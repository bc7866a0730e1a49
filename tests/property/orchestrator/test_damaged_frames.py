"""Whatever frames arrive: a message or `WireError` comes out."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha.messages import Data, Message, Ping, Snapshot, Subscribe
from orchestrator.host.shell.wire import WireError, decode, encode
from orchestrator.records.versions import WIRE_VERSION
from streams.vectors.chunk import Position
from tests.unit.orchestrator.host.shell.test_wire import DATA, SNAPSHOT, only_s

MESSAGES: list[Message] = [
    DATA,
    SNAPSHOT,
    Subscribe(stream="s", position=Position(), generation=3),
    Ping(sent_us=7),
]


@st.composite
def damaged(draw: st.DrawFn, message: Message) -> list[bytes]:
    """Frames with bytes replaced, removed or inserted; frames removed or repeated."""
    frames = [bytearray(frame) for frame in encode(message)]
    for _ in range(draw(st.integers(1, 3))):
        frame = draw(st.sampled_from(frames))
        at = draw(st.integers(0, len(frame)))
        removed = draw(st.sampled_from([0, 1, 1, 1, 4, 30]))
        inserted = draw(st.one_of(st.binary(max_size=4), st.just(b"\xff" * 8)))
        frame[at : at + removed] = inserted
    if draw(st.booleans()):
        frames = draw(st.lists(st.sampled_from(frames), max_size=5))
    return [bytes(frame) for frame in frames]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_damaged_frames_raise_wire_errors_only(message: Message) -> None:
    @settings(max_examples=400, deadline=None)
    @given(damaged(message))
    def check(frames: list[bytes]) -> None:
        with suppress(WireError):
            decode(frames, only_s)

    check()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_fields_of_a_newer_wire_are_ignored(message: Message) -> None:
    """A newer version ends a message, its header or a chunk's with more than this one knows."""
    frames = encode(message)
    header = msgspec.msgpack.decode(frames[0][1:])
    if isinstance(message, Data):
        header[4].append("added later")
    elif not isinstance(message, Snapshot):
        header[2].append("added later")
    header.append({"added": "later"})
    newer = bytes([WIRE_VERSION]) + msgspec.msgpack.encode(header)
    assert encode(decode([newer, *frames[1:]], only_s)) == frames


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary()
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=400, deadline=None)
@given(st.lists(values, max_size=8), st.lists(st.binary(max_size=50), max_size=3))
def test_any_header_raises_wire_errors_only(header: object, bodies: list[bytes]) -> None:
    encoded = bytes([WIRE_VERSION]) + msgspec.msgpack.encode(header)
    with suppress(WireError):
        decode([encoded, *bodies], only_s)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([-1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1]),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.binary(max_size=20),
)
def test_extreme_numbers_in_a_chunk_raise_wire_errors_only(
    number: int, watermarks_ms: list[int], body: bytes
) -> None:
    packed = b"".join(one.to_bytes(8, "little", signed=True) for one in watermarks_ms)
    header = [0, "s", number, number, [number, packed, packed]]
    with suppress(WireError):
        back = decode([bytes([WIRE_VERSION]) + msgspec.msgpack.encode(header), body], only_s)
        assert isinstance(back, Data)

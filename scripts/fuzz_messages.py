"""Random messages of one host to another: right ones, wrong ones and damaged frames."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from io import BytesIO

import msgspec
import pyarrow as pa
from pyarrow import ipc

from foundation.bounds import MAX_NUMBER
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
    SnapshotRequest,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from ha.replica import Replica
from ha.roles import RoleEvent
from orchestrator.clock import now_us
from orchestrator.host.shell.bundles import PART_FLAG
from orchestrator.host.shell.wire import encode
from orchestrator.records import FragmentAssignment
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, Position, stream_schema

COLUMNS = {"number": "int", "name": "string"}

_sent_at = struct.Struct("<q")
_length = struct.Struct("<I")
_part = struct.Struct("<BBQI")

EXTREMES = (0, 1, -1, 2**31, 2**53, MAX_NUMBER + 1, 2**62, 2**63 - 1, -(2**62), -(2**63))


def fragment(name: str, reads: str, role: str) -> FragmentAssignment:
    """A replica that passes on a stream."""
    return FragmentAssignment(
        query="q",
        fragment=name,
        statement=f"REGISTER QUERY {name} RSTREAM(SELECT number, name FROM {reads} [NOW]);",
        inputs={reads: COLUMNS},
        role="primary" if role == "primary" else "secondary",
        epoch=1,
        generation=1,
        peer_replica=None if name == "f" else "partner",
        sub_deadline_ms=50.0,
        standby_lag_ms=1000.0,
        readers_ms={f"sink:{name}": 100.0},
        cost_us=10.0,
    )


def chunk(rng: random.Random, first_seq: int = 0) -> Chunk:
    """A few tuples."""
    begin_ms, rows = rng.randrange(1, 10**6), rng.randrange(0, 20)
    timestamps = [begin_ms + n for n in range(rows)]
    ends = pa.array([begin_ms + rows, begin_ms + rows + 1], pa.int64())
    schema = stream_schema(COLUMNS)
    names = [f"name-{n}" for n in range(rows)]
    columns = {"_ts": timestamps, "number": list(range(rows)), "name": names}
    return Chunk(
        first_seq=first_seq,
        rows=pa.RecordBatch.from_pydict(columns, schema=schema),
        watermarks_ms=ends.to_numpy(),
        ingestion_times_us=ends.to_numpy() * 1000,
    )


class Messages:
    """Frames of messages of every kind, right and wrong."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        (statement,) = parse(fragment("h", "t", "secondary").statement)
        schema = stream_schema(COLUMNS)
        replica = Replica(
            compile_statement(statement, {"t": COLUMNS}), {"t": schema}, epoch=1, generation=1
        )
        replica.apply(RoleEvent.FOUNDED, 1)
        replica.inputs["t"].cursor.start(Position(), 1)
        replica.receive(Data(stream="t", epoch=1, generation=1, chunk=chunk(rng)))
        replica.evaluate(100)
        snapshot = replica.snapshot()
        assert snapshot is not None
        self._snapshot = snapshot

    def _number(self) -> int:
        rng = self._rng
        kind = rng.random()
        if kind < 0.94:
            return rng.randrange(0, 4)
        return rng.choice(EXTREMES) if kind < 0.97 else rng.randrange(0, 2**53)

    def _name(self) -> str:
        if self._rng.random() < 0.95:
            return self._rng.choice(("s", "f", "t", "g", "h"))
        return self._rng.choice(("", "x" * 200, "../../etc", "\n\x1b[31m", "sink:f"))

    def _position(self) -> Position:
        return Position(next_seq=self._number(), watermark_ms=self._number())

    def message(self) -> Message:
        """A message of a random kind."""
        rng, number, name = self._rng, self._number, self._name
        kinds: tuple[Callable[[], Message], ...] = (
            lambda: Data(
                stream=name(),
                epoch=number(),
                generation=number(),
                chunk=chunk(rng, self._number()),
            ),
            lambda: Subscribe(
                stream=name(),
                position=rng.choice((None, self._position())),
                generation=rng.choice((None, number())),
                feed=rng.random() < 0.5,
                patient=rng.random() < 0.5,
            ),
            lambda: Subscribed(
                stream=name(), position=self._position(), epoch=number(), generation=number()
            ),
            lambda: Contradiction(
                stream=name(),
                epoch=number(),
                generation=number(),
                had=self._position(),
                departs_ms=number(),
            ),
            lambda: Unsubscribe(stream=name()),
            lambda: Control(
                epochs={name(): number()},
                watermarks_ms={name(): number()},
                digests={
                    name(): OutputDigest(
                        generation=number(), interval=number(), first_seq=number(), rows=number()
                    )
                },
                acks={name(): Ack(position=self._position(), epoch=number(), generation=number())},
                offers={
                    name(): Offer(
                        generation=number(),
                        epoch=number(),
                        watermark_ms=number(),
                        sent=rng.random() < 0.5,
                    )
                },
            ),
            lambda: Heartbeat(lag_us=number()),
            lambda: SnapshotRequest(fragment=name()),
            lambda: msgspec.structs.replace(
                self._snapshot,
                fragment=name(),
                epoch=number(),
                generation=number(),
                inputs={name(): (number(), self._position()), "t": (1, self._position())},
                log_base=self._position(),
                consumers=((name(), self._position(), rng.random() < 0.5, rng.random() < 0.5),),
            ),
            lambda: msgspec.structs.replace(self._snapshot, epoch=rng.choice((1, number()))),
            lambda: Ping(sent_us=number()),
            lambda: Pong(
                sent_us=number(),
                answered_us=number(),
                position_ms=tuple(rng.choice((0.0, 1e308, float("nan"))) for _ in range(3)),
                error=rng.choice((0.5, -1.0, float("inf"), float("nan"))),
            ),
        )
        return rng.choice(kinds)()

    def frames(self) -> list[bytes]:
        """Frames of a message, often damaged; or nothing but noise."""
        rng = self._rng
        if rng.random() < 0.1:
            return [rng.randbytes(rng.randrange(0, 200)) for _ in range(rng.randrange(1, 5))]
        try:
            frames = encode(self.message())
        except (OverflowError, ValueError):
            return [rng.randbytes(20)]
        if rng.random() < 0.05:
            frames[-1] = self._compressed()
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 5))):
            self._damage(frames)
        return frames

    def _compressed(self) -> bytes:
        file = BytesIO()
        schema = stream_schema(COLUMNS)
        options = ipc.IpcWriteOptions(compression="zstd")
        writer = ipc.new_stream(file, schema, options=options)
        writer.write_batch(chunk(self._rng).rows)
        writer.close()
        reader = ipc.MessageReader.open_stream(pa.py_buffer(file.getvalue()))
        reader.read_next_message()
        return reader.read_next_message().serialize().to_pybytes()

    def _damage(self, frames: list[bytes]) -> None:
        rng = self._rng
        at = rng.randrange(len(frames))
        frame = bytearray(frames[at])
        match rng.randrange(6):
            case 0 if frame:
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            case 1 if frame:
                del frame[rng.randrange(len(frame)) :]
            case 2 if len(frame) >= 8:
                # A number of eight bytes somewhere, in the flatbuffer or in the values.
                place = rng.randrange(len(frame) - 7)
                frame[place : place + 8] = struct.pack("<q", rng.choice(EXTREMES))
            case 3:
                frame += rng.randbytes(rng.randrange(1, 50))
            case 4:
                frames.insert(at, frames[rng.randrange(len(frames))])
            case _:
                frame[:0] = rng.randbytes(1)
        frames[at] = bytes(frame)

    def bundle(self) -> list[bytes]:
        """A multipart message: some messages, or parts of one, under a head that may be wrong."""
        rng = self._rng
        messages = [self.frames() for _ in range(rng.randrange(1, 6))]
        lengths = [len(frames) for frames in messages]
        if rng.random() < 0.1:
            part = _part.pack(
                rng.randrange(3), rng.randrange(8), rng.randrange(4), rng.randrange(3)
            )
            messages, lengths = [[part, *messages[0]]], [(len(messages[0]) + 1) | PART_FLAG]
        if rng.random() < 0.05:
            lengths[0] = rng.choice((0, 7, 2**31, 2**32 - 1))
        head = _sent_at.pack(rng.choice((now_us(), now_us(), *EXTREMES)))
        head += b"".join(_length.pack(length) for length in lengths)
        if rng.random() < 0.03:
            head = rng.randbytes(rng.randrange(0, 40))
        return [head, *(frame for frames in messages for frame in frames)]

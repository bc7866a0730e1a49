"""The state of operators as data: the pieces of a snapshot.

A `State` consists of plain values (for msgspec) and frames (for Arrow IPC); nothing is pickled. It
holds exactly the data that later output depends on. Two engines that saw the same tuples and are
restored from each other's snapshots therefore give the same output, to the bit.

A snapshot is a sequence of pieces. Each is small: it takes a few milliseconds to write or to read,
however large the state is. An operator's `save` only takes references to its state, which it does
not change in place from then on; the pieces are written when they are asked for, while the operator
goes on. The first piece says what the snapshot is of, the last one how many pieces there are.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from foundation.bounds import Number
from streams.vectors.arrow_frame import FrameRefused, read_batch
from streams.vectors.chunk import Position, type_names
from streams.vectors.vector import Frame, Vector, fillers, from_arrow, storage, to_arrow

MAGIC = b"VVST"
FORMAT_VERSION = 4
_header = struct.Struct(">4sHI")

PIECE_ROWS = 4096
"""Most rows in a piece."""

PIECE_BYTES = 1 << 20
"""About the most bytes in a piece."""

SAMPLED_ROWS = 64
"""Rows by whose texts the size of a piece is estimated."""


class SnapshotError(ValueError):
    """A snapshot that is damaged, of another format, or of another statement."""


class ArrowRows(msgspec.Struct, frozen=True):
    """A frame as an Arrow IPC stream."""

    arrow: bytes
    length: int


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of one operator, or a piece of it.

    Attributes
    ----------
    values
        Whatever msgspec writes, by name.
    frames
        Rows, by name. The operator knows the types of their columns.
    """

    values: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    frames: Mapping[str, ArrowRows] = msgspec.field(default_factory=dict[str, ArrowRows])


Read = TypeVar("Read")

Pieces = Callable[[], Iterator[State]]
"""Gives the pieces of a state as it was saved, as often as it is called."""


class Stateful(Protocol):
    """An operator that has state."""

    def held(self) -> int:
        """Number of the rows or groups that its saved state has, about."""
        ...

    def save(self) -> Pieces:
        """The state that later output depends on. Cheap: it is read when the pieces are."""
        ...

    def load(self, state: State) -> object:
        """Take the next piece of saved state; only on a new operator."""
        ...

    def loaded(self) -> None:
        """Note that all pieces have been taken."""
        ...


class SavedInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far an input has been evaluated.

    Attributes
    ----------
    position
        The cut up to which its tuples are included.
    taken
        Number of its rows evaluated since the fragment's state began: the next row's identity.
    """

    position: Position
    taken: Number


class SnapshotRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first piece of a snapshot.

    Attributes
    ----------
    statement
        The text of the statement that the snapshot belongs to.
    inputs
        Input → how far it has been evaluated.
    operators
        The operators that have state.
    """

    statement: str
    inputs: Mapping[str, SavedInput]
    operators: tuple[str, ...]


class StatePiece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece after the first: of an operator's state, or the last one."""

    operator: str
    state: State


_records = msgspec.msgpack.Decoder(SnapshotRecord)
_pieces = msgspec.msgpack.Decoder(StatePiece)


class SavedState:
    """A snapshot of an engine."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        self.pieces = pieces
        """Gives the pieces, each written when it is asked for. Raises `SnapshotError`."""

    @staticmethod
    def of(pieces: Sequence[bytes]) -> SavedState:
        """A snapshot that was written."""
        return SavedState(lambda: iter(pieces))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SavedState) and list(self.pieces()) == list(other.pieces())


def write_frame(frame: Frame, kinds: Sequence[str]) -> ArrowRows:
    """A frame as bytes. Equal frames give equal bytes: values hidden by NULLs are dropped."""
    columns = zip(frame.columns, kinds, strict=True)
    arrays = [to_arrow(_canonical(column, kind), kind) for column, kind in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(kinds))
    return ArrowRows(batch.serialize().to_pybytes(), frame.length)


def _canonical(vector: Vector, kind: str) -> Vector:
    values, valid = vector
    if valid is None or valid.all():
        return Vector(values, None)
    canonical = np.full(values.shape, fillers[kind], dtype=storage[kind])
    canonical[valid] = values[valid]
    return Vector(canonical, valid)


def read_frame(rows: ArrowRows, kinds: Sequence[str]) -> Frame:
    """The frame that was written.

    Raises
    ------
    SnapshotError
        The bytes are not those of a frame with such columns.
    """
    try:
        batch = read_batch(rows.arrow, _schema(kinds))
    except FrameRefused as failed:
        raise SnapshotError(f"rows in the snapshot cannot be read: {failed}") from failed
    if kinds and batch.num_rows != rows.length:
        raise SnapshotError(f"{batch.num_rows} rows in the snapshot where {rows.length} belong")
    arrays = zip(batch.columns, kinds, strict=True)
    return Frame(tuple(from_arrow(array, kind) for array, kind in arrays), rows.length)


def _schema(kinds: Sequence[str]) -> pa.Schema:
    return pa.schema([(f"c{index}", type_names[kind]) for index, kind in enumerate(kinds)])


def no_pieces() -> Iterator[State]:
    """The pieces of an operator that keeps nothing."""
    return iter(())


def piece_rows(first: Frame) -> int:
    """Most rows of a piece, judged by its first rows: long texts take their time."""
    sample = first.slice(0, min(first.length, SAMPLED_ROWS))
    texts = [each.to_list() for each in sample.columns if each.values.dtype == np.object_]
    # What NULLs hide is not written.
    length = sum(len(text) for column in texts for text in column if text is not None)
    row_bytes = 8 * (len(sample.columns) + 1) + length / max(sample.length, 1)
    return max(min(int(PIECE_BYTES / row_bytes), PIECE_ROWS), 1)


def row_slices(rows: int, most: int = PIECE_ROWS) -> Iterator[slice]:
    """The rows of each piece, `most` at the most."""
    return (slice(start, min(start + most, rows)) for start in range(0, rows, most))


def in_bytes(total: int) -> bytes:
    """A whole number of any size; msgpack's have 64 bits."""
    return total.to_bytes(total.bit_length() // 8 + 1, "big", signed=True)


def write_snapshot(record: SnapshotRecord, saved: Mapping[str, Pieces]) -> Iterator[bytes]:
    """The pieces of a snapshot, each under a header: magic, format version, checksum.

    Raises
    ------
    SnapshotError
        The state cannot be written, as when a row has more text than Arrow's 2 GiB.
    """
    yield _sealed(msgspec.msgpack.encode(record))
    count = 0
    try:
        for name, pieces in saved.items():
            for state in pieces():
                count += 1
                yield _sealed(msgspec.msgpack.encode(StatePiece(name, state)))
    except Exception as failed:
        raise SnapshotError(f"the state cannot be written: {failed!r}") from failed
    yield _sealed(msgspec.msgpack.encode(StatePiece("", State(values={"pieces": count}))))


def _sealed(body: bytes) -> bytes:
    return _header.pack(MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def read_record(data: bytes) -> SnapshotRecord:
    """The first piece of a snapshot.

    Raises
    ------
    SnapshotError
        The bytes are not that of this format, or damaged.
    """
    return _read(data, _records)


def read_pieces(pieces: Iterator[bytes]) -> Iterator[tuple[str, State]]:
    """The pieces after the first: operator and state.

    Raises
    ------
    SnapshotError
        A piece is damaged, or some are missing.
    """
    count = 0
    for data in pieces:
        piece = _read(data, _pieces)
        if not piece.operator:
            if piece.state.values.get("pieces") != count or next(pieces, None) is not None:
                raise SnapshotError("the snapshot has other pieces than were written")
            return
        count += 1
        yield piece.operator, piece.state
    raise SnapshotError(f"the snapshot ends after {count} pieces")


def load_operators(
    stateful: Mapping[str, Stateful], states: Iterable[tuple[str, State]]
) -> Iterator[None]:
    """Have new operators take the pieces of a state, one a step."""
    for name, state in states:
        stateful[name].load(state)
        yield
    for operator in stateful.values():
        operator.loaded()


def _read(data: bytes, decoder: msgspec.msgpack.Decoder[Read]) -> Read:
    if len(data) < _header.size or data[: len(MAGIC)] != MAGIC:
        raise SnapshotError("this is not a snapshot of a fragment")
    _, version, checksum = _header.unpack_from(data)
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}, this engine reads {FORMAT_VERSION}"
        )
    body = memoryview(data)[_header.size :]
    if zlib.crc32(body) != checksum:
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, ValueError) as failed:
        raise SnapshotError(f"the snapshot cannot be read: {failed}") from failed

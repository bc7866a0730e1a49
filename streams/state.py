"""The state of operators as data: the parts of a snapshot.

A `State` consists of plain values (for msgspec) and frames (for Arrow IPC); nothing is pickled. It
holds exactly the data that later output depends on. Two engines that saw the same tuples and are
restored from each other's snapshots therefore give the same output, to the bit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import ipc

from streams.chunk import Position, type_names
from streams.vector import Frame, Vector, fillers, from_arrow, storage, to_arrow

MAGIC = b"VVST"
FORMAT_VERSION = 2
_header = struct.Struct(">4sHI")


class SnapshotError(ValueError):
    """A snapshot that is damaged, of another format, or of another statement."""


class Rows(msgspec.Struct, frozen=True):
    """A frame as an Arrow IPC stream."""

    arrow: bytes
    length: int


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of one operator.

    Attributes
    ----------
    values
        Whatever msgspec writes, by name.
    frames
        Rows, by name. The operator knows the types of their columns.
    """

    values: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    frames: Mapping[str, Rows] = msgspec.field(default_factory=dict[str, Rows])


class Stateful(Protocol):
    """An operator that has state."""

    def save(self) -> State:
        """The state that later output depends on."""
        ...

    def load(self, state: State) -> None:
        """Continue from saved state; only on a new operator."""
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
    taken: int


class SnapshotRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot's body.

    Attributes
    ----------
    statement
        The text of the statement that the snapshot belongs to.
    inputs
        Input → how far it has been evaluated.
    operators
        Operator → its state.
    """

    statement: str
    inputs: Mapping[str, SavedInput]
    operators: Mapping[str, State]


def write_frame(frame: Frame, kinds: Sequence[str]) -> Rows:
    """A frame as bytes. Equal frames give equal bytes: values hidden by NULLs are dropped."""
    columns = zip(frame.columns, kinds, strict=True)
    arrays = [to_arrow(_canonical(column, kind), kind) for column, kind in columns]
    batch = pa.RecordBatch.from_arrays(arrays, schema=_schema(kinds))
    return Rows(batch.serialize().to_pybytes(), frame.length)


def _canonical(vector: Vector, kind: str) -> Vector:
    values, valid = vector
    if valid is None or valid.all():
        return Vector(values, None)
    canonical = np.full(values.shape, fillers[kind], dtype=storage[kind])
    canonical[valid] = values[valid]
    return Vector(canonical, valid)


def read_frame(rows: Rows, kinds: Sequence[str]) -> Frame:
    """The frame that was written.

    Raises
    ------
    SnapshotError
        The bytes are not those of a frame with such columns.
    """
    try:
        batch = ipc.read_record_batch(pa.py_buffer(rows.arrow), _schema(kinds))
        batch.validate(full=True)
    except (pa.ArrowException, OSError) as failed:
        raise SnapshotError(f"rows in the snapshot cannot be read: {failed}") from failed
    if kinds and batch.num_rows != rows.length:
        raise SnapshotError(f"{batch.num_rows} rows in the snapshot where {rows.length} belong")
    arrays = zip(batch.columns, kinds, strict=True)
    return Frame(tuple(from_arrow(array, kind) for array, kind in arrays), rows.length)


def _schema(kinds: Sequence[str]) -> pa.Schema:
    return pa.schema([(f"c{index}", type_names[kind]) for index, kind in enumerate(kinds)])


def write_snapshot(record: SnapshotRecord) -> bytes:
    """A record under a header: magic, format version, checksum."""
    body = msgspec.msgpack.encode(record)
    return _header.pack(MAGIC, FORMAT_VERSION, zlib.crc32(body)) + body


def read_snapshot(data: bytes) -> SnapshotRecord:
    """The record that was written.

    Raises
    ------
    SnapshotError
        The bytes are not a snapshot of this format, or damaged.
    """
    if len(data) < _header.size or data[: len(MAGIC)] != MAGIC:
        raise SnapshotError("this is not a snapshot of a fragment")
    _, version, checksum = _header.unpack_from(data)
    if version != FORMAT_VERSION:
        raise SnapshotError(
            f"the snapshot has format {version}, this engine reads {FORMAT_VERSION}"
        )
    body = data[_header.size :]
    if zlib.crc32(body) != checksum:
        raise SnapshotError("the snapshot is damaged: its checksum does not match")
    try:
        return msgspec.msgpack.decode(body, type=SnapshotRecord)
    except (msgspec.MsgspecError, ValueError) as failed:
        raise SnapshotError(f"the snapshot cannot be read: {failed}") from failed

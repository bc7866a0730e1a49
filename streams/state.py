"""What an operator remembers, as data: the parts of a snapshot.

A `State` is plain values (for msgspec) and frames (for Arrow IPC); no pickle. It holds what
future output depends on and nothing else, so that two engines that saw the same tuples and are
restored from each other's snapshots give the same output, to the bit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import numpy as np
import pyarrow as pa
from pyarrow import ipc

from streams.chunk import type_names
from streams.vector import Frame, Vector, fillers, from_arrow, storage, to_arrow

MAGIC = b"VVST"
FORMAT_VERSION = 1
_header = struct.Struct(">4sHI")


class SnapshotError(ValueError):
    """A snapshot that is damaged, of another format, or of another statement."""


class Rows(msgspec.Struct, frozen=True):
    """A frame as an Arrow IPC stream."""

    arrow: bytes
    length: int


@dataclass(frozen=True, slots=True)
class State:
    """What one operator remembers.

    Attributes
    ----------
    values
        Whatever msgspec writes, by name.
    frames
        Rows, by name, each with the types of its columns known to the operator.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    frames: Mapping[str, Rows] = field(default_factory=dict[str, Rows])


class Stateful(Protocol):
    """An operator that remembers."""

    def save(self) -> State:
        """What it remembers."""
        ...

    def load(self, state: State) -> None:
        """Go on from what was saved; only on a new operator."""
        ...


class OperatorRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `State` in a snapshot."""

    values: dict[str, Any]
    frames: dict[str, Rows]


class InputRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far an input is folded in."""

    next_seq: int
    watermark_ms: int


class SnapshotRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A snapshot's body."""

    statement: str
    inputs: dict[str, InputRecord]
    operators: dict[str, OperatorRecord]


def write_frame(frame: Frame, kinds: Sequence[str]) -> Rows:
    """A frame as bytes, the same for equal frames: what stands under a NULL is not kept."""
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
    except (msgspec.DecodeError, msgspec.ValidationError) as failed:
        raise SnapshotError(f"the snapshot cannot be read: {failed}") from failed

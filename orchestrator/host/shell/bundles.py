"""Bundles: the messages that one host sends another at about the same time travel as one.

Waking a peer for a message costs far more than reading it. A bundle is a list of frames. The first
contains the time when it was sent and the number of frames of each message; the frames of the
messages follow, in their order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

PART_FLAG = 1 << 31
"""Added to the number of frames of a message in a bundle that is a part of a larger one."""

_sent_at = struct.Struct("<q")
_length = struct.Struct("<I")


class Bundled(NamedTuple):
    """A message of a bundle, and whether it is a part of a larger one."""

    is_part: bool
    frames: list[bytes]


def head(sent_us: int, lengths: Iterable[int]) -> bytes:
    """The first frame of a bundle.

    Parameters
    ----------
    sent_us
        On the clock of the sender's machine.
    lengths
        Number of frames of each message, with `PART_FLAG` for parts.
    """
    return _sent_at.pack(sent_us) + b"".join(_length.pack(length) for length in lengths)


def opened(bundle: list[bytes]) -> tuple[int, list[Bundled]] | None:
    """When a bundle was sent, and its messages; None if its first frame does not fit the others."""
    if not bundle or len(bundle[0]) < _sent_at.size:
        return None
    (sent_us,) = _sent_at.unpack_from(bundle[0])
    lengths = bundle[0][_sent_at.size :]
    if len(lengths) % _length.size:
        return None
    messages: list[Bundled] = []
    at = 1
    for (length,) in _length.iter_unpack(lengths):
        count = length & ~PART_FLAG
        if not count:
            return None
        messages.append(Bundled(bool(length & PART_FLAG), bundle[at : at + count]))
        at += count
    return (sent_us, messages) if at == len(bundle) else None

"""How fast the processors of a machine are just now, for work like that of a host.

What admission knows of costs before it has measured any, and how long small batches rest, are
processor times that were found on one machine. Others are slower, up to several times where
machines are virtual and their processors shared. So every host now and then times a piece of work
that is always the same, and like its own: calls of small functions, dicts, short arrays, messages.
It is the thread's processor time that counts, which others make no longer by running in between.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from orchestrator.clock import thread_us
from streams.scheduling.recent_rates import RecentRates

REFERENCE_US = 80.0
"""What the piece of work takes where the assumed costs were found."""

SPEEDS = (0.1, 4.0)
"""Least and greatest speed that is believed."""

STEPS = 64
"""Of a piece of work."""


class _Item(msgspec.Struct, frozen=True, array_like=True):
    """A message of the piece of work."""

    name: str
    number: int
    last: int | None = None


_names = tuple(f"stream-{number}" for number in range(16))
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Item])


class SpeedMeter:
    """The speed of late, as a ratio: 1 is that of the machine on which costs were found.

    Parameters
    ----------
    now_us
        Time of the first reading.
    used_us
        Reads the processor time that the thread has used so far.
    """

    def __init__(self, now_us: int, *, used_us: Callable[[], int] = thread_us) -> None:
        self._used_us = used_us
        self._pieces = RecentRates(2, now_us)

    def read(self, now_us: int) -> float:
        """Time another piece of work; the mean speed over the last ten seconds or so."""
        began_us = self._used_us()
        piece_of_work()
        self._pieces.add(self._used_us() - began_us, 1.0)
        took_us, pieces = self._pieces.read(now_us)
        least, most = SPEEDS
        return min(max(REFERENCE_US * pieces / took_us, least), most) if took_us else 1.0


def piece_of_work() -> int:
    """Work like that of a host; returns what it has counted, which is always the same."""
    seen: dict[str, int] = {}
    items: list[_Item] = []
    for step in range(STEPS):
        name = _names[step % len(_names)]
        items.append(_Item(name, step, seen.get(name)))
        seen[name] = _mixed(step, len(items))
    numbers = np.fromiter((item.number for item in items), np.int64, len(items))
    kept = numbers[numbers % 3 == 0]
    again = _decoder.decode(_encoder.encode(items))
    return int(np.cumsum(kept)[-1]) + sum(item.last or 0 for item in again)


def _mixed(step: int, count: int) -> int:
    """A number that depends on both."""
    return (step * 31 + count) & 0xFFFF

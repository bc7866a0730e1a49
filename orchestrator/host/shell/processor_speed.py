"""How fast the processors of a machine are just now, for work like that of a host, and how busy.

What admission knows of costs before it has measured any, and how long small batches rest, are
processor times that were found on one machine. Others are slower, up to several times where
machines are virtual and their processors shared. So every host now and then times a piece of work
that is always the same, and like its own: calls of small functions, dicts, short arrays, messages.
It is the thread's processor time that counts, which others make no longer by running in between.

Slow processors matter to a host once it is CPU-starved: then it must evaluate fewer small batches.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import psutil

from orchestrator.clock import thread_us
from orchestrator.records.speed import SPEEDS, Speed
from streams.scheduling.recent_rates import RecentRates

REFERENCE_US = 80.0
"""What the piece of work takes where the assumed costs were found. Inferred: on a machine where it
took 280 µs, hosts spent 3.7 times as long on the same evaluations (benchmark `density`, 10)."""

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


def machine_busy() -> float:
    """Share of the machine's processors in use since the last call, 0 to 1."""
    return psutil.cpu_percent() / 100


class SpeedMeter:
    """Measures the speed of the machine's processors.

    Parameters
    ----------
    now_us
        Time of the first reading.
    used_us
        Reads the processor time that the thread has used so far.
    busy
        Reads which share of the processors was in use since it was read last.
    """

    def __init__(
        self,
        now_us: int,
        *,
        used_us: Callable[[], int] = thread_us,
        busy: Callable[[], float] = machine_busy,
    ) -> None:
        self._used_us = used_us
        self._busy = busy
        self._recent = RecentRates(3, now_us)
        self._read_us, self._began_us = now_us, used_us()

    def read(self, now_us: int) -> Speed:
        """Time another piece of work."""
        began_us = self._used_us()
        took_us = timed_piece_us(self._used_us, began_us)
        # A host has one thread: on a machine with many processors, its own may be short.
        passed_us = now_us - self._read_us
        busy_us = max(self._busy() * passed_us, began_us - self._began_us)
        self._recent.add(took_us, 1.0, busy_us / 1e6)
        self._read_us, self._began_us = now_us, began_us
        took_s, pieces_s, busy = self._recent.read(now_us)
        return Speed(ratio=speed_ratio(took_s, pieces_s), busy=min(busy, 1.0))


def speed_ratio(took_us: float, pieces: float) -> float:
    """How fast a processor worked that so many pieces of work took so long, all in all."""
    least, most = SPEEDS
    return min(max(REFERENCE_US * pieces / took_us, least), most) if took_us else 1.0


def timed_piece_us(used_us: Callable[[], int], began_us: int | None = None) -> int:
    """What a piece of work takes the thread now, or since the clock was read."""
    since_us = used_us() if began_us is None else began_us
    piece_of_work()
    return used_us() - since_us


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

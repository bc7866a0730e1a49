"""How long processes have waited for a processor, as Linux accounts for it (`/proc/PID/schedstat`).

On a machine that others use as well, it tells what is late by itself from what was made late.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from orchestrator.clock import now_us

EVERY_S = 0.02


class ProcessorWaits:
    """Looks at some processes' main threads again and again, within a `with` block.

    Parameters
    ----------
    pids
        The processes. One that has ended, or of a system without such an account, never waits.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._paths = [Path(f"/proc/{pid}/schedstat") for pid in pids]
        self._at_us: list[int] = []
        self._waited_ms: list[float] = []
        """By then, all together since their starts."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> ProcessorWaits:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.set()
        self._thread.join()

    def between_ms(self, begin_us: float, end_us: float) -> float:
        """How long they waited, all together, within a time on this machine's clock, or slightly
        more than that."""
        if not self._at_us:
            return 0.0
        begin = max(bisect_right(self._at_us, begin_us) - 1, 0)
        end = min(bisect_left(self._at_us, end_us), len(self._at_us) - 1)
        return self._waited_ms[end] - self._waited_ms[begin]

    def _look(self) -> None:
        while not self._ends.wait(EVERY_S):
            self.note(now_us(), sum(map(_waited_ms, self._paths)))

    def note(self, at_us: int, waited_ms: float) -> None:
        """Take in how long they have waited by then; of one that has ended nothing is known."""
        self._at_us.append(at_us)
        self._waited_ms.append(max([waited_ms, *self._waited_ms[-1:]]))


def _waited_ms(path: Path) -> float:
    with suppress(OSError, IndexError):
        return int(path.read_text().split()[1]) / 1e6
    return 0.0

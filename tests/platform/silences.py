"""How long outputs were silent while something was done to a cluster, and whether processors were
short then.

A bound is kept by a machine that has time. So a silence that is longer than its bound counts
where processors were not short in it, as in the verdict of a drill.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from orchestrator.drills.measurement import longest_silence
from orchestrator.drills.processor_use import READ_US, ProcessorLog, processor_use
from orchestrator.edges.sinks import Delivered


@dataclass(frozen=True, slots=True)
class Lasted:
    """How long something took.

    Attributes
    ----------
    short
        Whether the machine's processors were short meanwhile.
    """

    what: str
    lasted_ms: float
    used: float
    short: bool

    def exceeds(self, bound_ms: float) -> bool:
        """Whether it took too long although the machine had time."""
        return self.lasted_ms > bound_ms and not self.short

    def __str__(self) -> str:
        return f"{self.what}: {self.lasted_ms:.0f} ms, processors used to {self.used:.0f} %"


class Silences:
    """Reads the machine's processors, and notes when something is done, until it is closed.

    Parameters
    ----------
    cluster_pid
        The process that runs the cluster.
    now_us
        The cluster's clock.
    """

    def __init__(self, cluster_pid: int, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._log = ProcessorLog(cluster_pid)
        self._spans: list[tuple[str, int, int]] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join()

    @contextmanager
    def during(self, what: str) -> Generator[None]:
        """Something is done to the cluster."""
        begin_us = self._now_us()
        yield
        self.note(what, begin_us, self._now_us())

    def note(self, what: str, begin_us: int, end_us: int) -> None:
        """Something was done to the cluster."""
        self._spans.append((what, begin_us, end_us))

    def lasted(self, what: str, begin_us: int, end_us: int) -> Lasted:
        """What took from one moment to another."""
        while not self._log.readings or self._log.readings[-1].at_us < end_us:
            time.sleep(READ_US / 1e6)
        lasted_ms = (end_us - begin_us) / 1000
        use = processor_use(self._log.readings, end_us, lasted_ms)
        used = 0.0 if use is None or use.in_silence is None else use.in_silence
        return Lasted(what, lasted_ms, used, use is not None and use.short)

    def longest(self, outputs: Mapping[str, Delivered]) -> Iterator[Lasted]:
        """The longest silence of each output in each time in which something was done."""
        for what, begin_us, end_us in self._spans:
            for stream, delivered in outputs.items():
                arrived_us = np.sort(delivered.completed_column("arrived_us"))
                found = longest_silence(arrived_us, begin_us, end_us)
                assert found is not None, f"nothing came of {stream}"
                silent_us = found.ended_us - round(1000 * found.gap_ms)
                yield self.lasted(f"{what}, {stream} silent", silent_us, found.ended_us)

    def _read(self) -> None:
        while not self._ending.is_set():
            self._log.read(self._now_us())
            time.sleep(READ_US / 1e6)

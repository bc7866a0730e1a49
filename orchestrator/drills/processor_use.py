"""What took this machine's processors while a drill ran.

Recovery takes longer than planned on CPU-starved hosts. So whoever reads that a bound was broken
wants to know whether the machine had time for it, and whether the cluster itself or other programs
took that time. Readings are taken while the outputs are watched, and compared afterwards:
over the whole drill, and while output was silent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from orchestrator.results.drill_report import ProcessorUse

READ_US = 100_000
"""Between two readings. The kernel counts processor time in hundredths of a second."""

COUNT_US = 1_000_000
"""Between two looks at the cluster's processes, of which there are dozens."""

NOT_WORKING = ("idle", "iowait")
COUNTED_TWICE = ("guest", "guest_nice")
"""Fields of the kernel's that are part of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What processors had done by a moment, s of processor time since any beginning."""

    at_us: int
    all_s: float
    used_s: float
    stolen_s: float
    cluster_s: float


class ProcessorLog:
    """Readings of this machine's processors.

    Parameters
    ----------
    cluster_pid
        The process that runs the cluster; those below it belong to the cluster.
    """

    def __init__(self, cluster_pid: int) -> None:
        self._pids = {cluster_pid, os.getpid()}
        self._taken_s: dict[psutil.Process, tuple[float, float]] = {}
        self._counted_us: int | None = None
        self.readings: list[Reading] = []

    def read(self, at_us: int) -> None:
        """Take a reading, unless there was one a moment ago."""
        if self.readings and at_us < self.readings[-1].at_us + READ_US:
            return
        if self._counted_us is None or at_us >= self._counted_us + COUNT_US:
            self._count(is_first=self._counted_us is None)
            self._counted_us = at_us
        times = psutil.cpu_times()._asdict()
        all_s = sum(s for name, s in times.items() if name not in COUNTED_TWICE)
        self.readings.append(
            Reading(
                at_us=at_us,
                all_s=all_s,
                used_s=all_s - sum(times.get(name, 0.0) for name in NOT_WORKING),
                stolen_s=times.get("steal", 0.0),
                cluster_s=sum(last_s - first_s for first_s, last_s in self._taken_s.values()),
            )
        )

    def _count(self, *, is_first: bool) -> None:
        """See what each process has taken; those that have ended keep what they had."""
        for pid in self._pids:
            with suppress(psutil.Error):
                above = psutil.Process(pid)
                for process in (above, *above.children(recursive=True)):
                    with suppress(psutil.Error):
                        own = process.cpu_times()
                        took_s = own.user + own.system
                        first_s, _ = self._taken_s.get(process, (took_s if is_first else 0.0, 0.0))
                        self._taken_s[process] = first_s, took_s


def processor_use(
    readings: Sequence[Reading], resumed_us: int, silent_ms: float
) -> ProcessorUse | None:
    """The use between the first and the last reading; None of fewer than two.

    Parameters
    ----------
    resumed_us
        When the longest silence of output ended.
    silent_ms
        How long that was.
    """
    if len(readings) < 2:
        return None
    first, last = readings[0], readings[-1]
    before = [each for each in readings if each.at_us <= resumed_us - round(1000 * silent_ms)]
    after = [each for each in readings if each.at_us >= resumed_us]
    return ProcessorUse(
        used=_pct(last.used_s - first.used_s, first, last),
        cluster=_pct(last.cluster_s - first.cluster_s, first, last),
        stolen=_pct(last.stolen_s - first.stolen_s, first, last),
        in_silence=(
            _pct(after[0].used_s - before[-1].used_s, before[-1], after[0])
            if before and after
            else None
        ),
    )


def _pct(part_s: float, first: Reading, last: Reading) -> float:
    spent_s = last.all_s - first.all_s
    return 100 * part_s / spent_s if spent_s > 0 else 0.0

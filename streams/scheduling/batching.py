"""How much input a task gathers before it is evaluated: policies of batching, one protocol.

Evaluating a batch has a cost that does not depend on its size. Few long batches therefore take less
processor time than many short ones, and results leave later. Results never depend on how input is
cut into batches, so each replica chooses by its own clock.

The policies are those of *adaptive batching* (TAAT, BTS, ATS) and one of ours:

==========  ====================================================================================
name        the batch
==========  ====================================================================================
`taat`      tuple at a time: a dispatch evaluates one timestamp group, and nothing waits
`bts-k`     basic tuple set: k batch units, for ever
`ats`       adaptive tuple set: k by PI control of the task's miss ratio (`Ats`); `ats-printed` and
            `ats-algorithm` are the other readings of the paper's law
`measured`  the shortest at which starting batches takes no more than a share of the host, as
            measured; as long as everything that is due can still be in time (`Measured`)
==========  ====================================================================================

===========  =================  ==================================================================
symbol       name here          meaning
===========  =================  ==================================================================
Φ            batch_us           the batch unit: the cluster's `batch`, µs; 0: nothing ever waits
k            rest_us / Φ        batch units that a task rests between two starts
u            (limits)           the longest batch that can be in time, µs
Γ            GAMMA_US           the window in which misses are counted, and the period of control
SDMR(Γ)      SdmrMonitor        share of the inputs decided in Γ that were evaluated too late
C_sche + a   dispatch_us        processor time of a batch beyond that of its tuples, µs
===========  =================  ==================================================================

Deviations from the paper. Its smallest unit of work is a tuple; here an *arrival*: input that
entered a task together, because timestamp groups are never divided. A task is decided when its
result leaves, since a window of *produced* tasks is known only after the longest deadline. The
text bounds k nowhere in its algorithm; §1.3 says that a batch longer than u expires before it is
scheduled, so k is bounded to [1, u/Φ].

A rest is 1, 2, 3, 4, 6, 8, 12, … batch units long, and ends at a multiple of its length, so that
tasks start at the same moments, and their output travels together.

References
----------
Adaptive batching: 基于实时数据流的自适应批处理调度策略, §3.1 (TAAT, BTS), §3.2 (ATS), §3.3.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol

from streams.scheduling.batching_names import DISPATCH_US, MEASURED, PATTERN
from streams.scheduling.miss_ratio import MissRatio
from streams.scheduling.recent_rates import RecentRates

GAMMA_US = 1_000_000
"""Γ: the window of miss ratios, and how often policies adapt. Costs and rates are measured as means
of seconds; a shorter window would adapt to garbage collections."""

BELIEVED_US = (50.0, 5_000.0)
"""Least and greatest such time that is believed."""

OVERHEAD_SHARE = 1 / 16
"""The share of a host's time that starting batches may take. It decides between latency (short
batches) and room for queries (long ones)."""

IN_TIME_SHARE = 0.6
"""Of its sub-deadline, the share in which a primary's rest and one evaluation of all that is due
before it end. The rest of a sub-deadline is left to a batch that runs already, and to transport."""

IDLE_SHARE = 0.7
"""The same for a task to which nothing but watermarks comes: passing those on takes no time."""

RECOVERY_LAGS = 3.0
"""How many lags of its standby a primary rests at most: three quarters of what the bound leaves.
Hosts that share a clock rest alike, so the rests of a chain do not add up."""

STANDBY_LAGS = (2.0, 4.0)
"""For how many times its lag a standby rests at most: the latter if what comes meanwhile is
evaluated within the lag, as after a takeover, twice over; the former in any case. The lag is a
quarter of what the recovery bound leaves."""

PATIENCE = 2
"""How many times as long a task rests for whose results nobody waits: a standby, and one to which
nothing but watermarks has come."""

SET_POINT = 0.001
"""Miss ratio up to which `measured` changes nothing. At zero it could only ever step one way."""

K_P = 1.0
K_I = 10.0
"""Gains of the paper's controller, §3.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTime:
    """What limits the batches of a task.

    Attributes
    ----------
    sub_deadline_us
        d_T, µs; a standby's is its lag.
    standby
        Whether no consumer waits for its results.
    standby_lag_us
        How far a standby of the task may lag.
    """

    sub_deadline_us: int
    standby: bool
    standby_lag_us: float


@dataclass(slots=True)
class HostFigures:
    """What a host knows of its load, for policies to go by.

    Attributes
    ----------
    batch_us
        Φ.
    replicas
        Operators that are dispatched.
    dispatch_us
        Processor time of a batch beyond its tuples, at speed 1.
    slowness
        How many times as long small batches should last because its processor is slow and busy.
    lag_us
        By how much the host has been late lately, beyond the lateness of any busy host.
    cores, evaluating_cores
        Processor time that the host takes, all told, as its process has measured it; and that of
        evaluations alone.
    standby_lags
        How many lags standbys may rest (`STANDBY_LAGS`).
    """

    batch_us: int
    replicas: int = 0
    dispatch_us: float = DISPATCH_US
    slowness: float = 1.0
    lag_us: int = 0
    cores: float = 0.0
    evaluating_cores: float = 0.0
    standby_lags: float = STANDBY_LAGS[0]
    _due_us: list[float] = field(default_factory=list[float])
    """Sub-deadlines of the primaries, rising."""
    _demand_us: list[float] = field(default_factory=lambda: [0.0])
    """What evaluating the first ones of them once takes."""

    def look(
        self,
        now_us: int,
        standbys: Sequence[RecentRates],
        primaries: Iterable[tuple[float, float]],
        evaluating_cores: float,
    ) -> None:
        """Take in what the replicas have taken lately.

        Parameters
        ----------
        standbys
            What each has taken; cores first.
        primaries
            The sub-deadline of each, and what evaluating it once takes, µs.
        """
        in_order = sorted(primaries)
        self._due_us = [due_us for due_us, _ in in_order]
        self._demand_us = [0.0, *accumulate(took_us for _, took_us in in_order)]
        self.evaluating_cores = evaluating_cores
        cores = sum(load.read(now_us)[0] for load in standbys)
        least, most = STANDBY_LAGS
        self.standby_lags = min(max(1 / max(least * cores, 1 / most), least), most)

    @property
    def is_short(self) -> bool:
        """Whether the host is late, or full but for the share of starting batches."""
        busy_cores = max(self.cores, self.evaluating_cores)
        return self.lag_us > 0 or busy_cores > 1 - OVERHEAD_SHARE

    @property
    def wanted_us(self) -> float:
        """The shortest batch at which starting batches takes no more than its share."""
        return wanted_us(self.replicas, self.dispatch_us * self.slowness)

    def demand_us(self, sub_deadline_us: float) -> float:
        """How long evaluating all primaries once takes that are due by a sub-deadline."""
        return self._demand_us[bisect_right(self._due_us, sub_deadline_us)]

    def most_us(self, task: TaskTime) -> float:
        """u: the longest batch of a task that can be in time."""
        if task.standby:
            return self.standby_lags * task.sub_deadline_us
        in_time_us = IN_TIME_SHARE * task.sub_deadline_us - self.demand_us(task.sub_deadline_us)
        return max(min(in_time_us, RECOVERY_LAGS * task.standby_lag_us), 0.0)

    def most_idle_us(self, task: TaskTime) -> float:
        """u where nothing but watermarks comes."""
        if task.standby:
            return STANDBY_LAGS[1] * task.sub_deadline_us
        return min(IDLE_SHARE * task.sub_deadline_us, RECOVERY_LAGS * task.standby_lag_us)


class BatchingPolicy(Protocol):
    """Chooses the batches of tasks; pure.

    Attributes
    ----------
    groups
        Most timestamp groups that a dispatch evaluates; None: as many as fit into its time.
    """

    @property
    def groups(self) -> int | None: ...

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """How long a task rests after a start, and how long if nothing but watermarks comes, µs."""
        ...

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """Take in the miss ratio of the last Γ, 0 to 1; called once each Γ."""
        ...


class Taat:
    """Tuple at a time: a dispatch for each timestamp group, at once."""

    groups: int | None = 1

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """Nothing waits."""
        return 0, 0

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """It never changes."""


@dataclass(slots=True)
class Bts:
    """Basic tuple set: k batch units, whatever happens."""

    k: int
    groups: int | None = None

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """k batch units."""
        return self.k * host.batch_us, self.k * host.batch_us

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """It never changes."""


@dataclass(slots=True)
class Ats:
    """Adaptive tuple set: PI control of k by the miss ratio of one task (§3.2, Algorithm 2).

    The paper writes the law in three ways; `proportional` and `integral` are its signs:

    =================  ============  ==========================================================
    name               signs         where
    =================  ============  ==========================================================
    `ats`              −, −          what the text's argument of convergence needs
    `ats-algorithm`    −, +          Algorithm 2 as printed
    `ats-printed`      +, +          equation (3) as printed
    =================  ============  ==========================================================

    With the first, k never leaves 1: its sum is k₀ − K_P·(S − S₀) − K_I·ΣS with S ≥ 0 and k₀ = 1,
    so it can wind down and never up.
    """

    proportional: float
    integral: float
    k: float = 1.0
    groups: int | None = None
    _before: float = 0.0
    _most: float = math.inf

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """k batch units, at least one, at most u."""
        if not host.batch_us:
            return 0, 0
        self._most = max(host.most_us(task) / host.batch_us, 1.0)
        rest_us = int(min(self.k, self._most)) * host.batch_us
        return rest_us, rest_us

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """One step of the controller."""
        change = self.proportional * (sdmr - self._before) + self.integral * sdmr
        self._before = sdmr
        self.k = min(max(self.k + change, 1.0), self._most)


@dataclass(slots=True)
class Measured:
    """The batch of least total cost that is in time, by what the host has measured.

    With batches of length r, the replicas of a host take Σ (C_sche + a)/r + Σ b·λ of it. The
    shortest r that leaves the first term its share (`OVERHEAD_SHARE`) is wanted; the deadlines of a
    task, and of all that is due before it, limit it. If inputs miss all the same, r is doubled,
    once, where the host is short of time: beyond, the overhead is small, and longer batches only
    hold others up. Where it is not short, the rest itself is too long, and is halved each Γ. It
    returns as misses end.
    """

    factor: float = 1.0
    groups: int | None = None

    def rests_us(self, task: TaskTime, host: HostFigures) -> tuple[int, int]:
        """On the grid of batch units; at least one."""
        wanted_us = self.factor * host.wanted_us * (PATIENCE if task.standby else 1)
        rest = rest_us(wanted_us, host.most_us(task), host.batch_us)
        idle = rest_us(PATIENCE * wanted_us, host.most_idle_us(task), host.batch_us)
        return rest, max(idle, rest)

    def adapt(self, sdmr: float, host: HostFigures) -> None:
        """Double once, halve, or return."""
        if sdmr > SET_POINT:
            self.factor = min(self.factor * 2, 2.0) if host.is_short else self.factor / 2
        else:
            self.factor = min(self.factor * 2, 1.0)
        if host.wanted_us > 0:
            # No rest is shorter than a batch unit.
            self.factor = max(self.factor, min(host.batch_us / host.wanted_us, 1.0))


def policy_of(text: str) -> BatchingPolicy:
    """A new policy by its name.

    Raises
    ------
    ValueError
        There is no such policy.

    Examples
    --------
    >>> policy_of("bts-4").rests_us(
    ...     TaskTime(sub_deadline_us=10**6, standby=False, standby_lag_us=1e6),
    ...     HostFigures(batch_us=10_000),
    ... )
    (40000, 40000)
    """
    if not re.fullmatch(PATTERN, text):
        raise ValueError(f"there is no batching policy {text!r}; one of {', '.join(NAMES)}")
    match text.split("-"):
        case ["taat"]:
            return Taat()
        case ["bts", k]:
            return Bts(int(k))
        case ["ats"]:
            return Ats(-K_P, -K_I)
        case ["ats", "algorithm"]:
            return Ats(-K_P, K_I)
        case ["ats", _]:
            return Ats(K_P, K_I)
        case _:
            return Measured()


NAMES = ("taat", "bts-4", "ats", "ats-printed", "ats-algorithm", MEASURED)
"""Every policy, `bts` with some k."""


def planned_rest_us(policy: str, wanted: float, most_us: float, batch_us: int) -> int:
    """How long a task will rest between two starts, for who plans for a host.

    Parameters
    ----------
    policy
        Its name.
    wanted
        As `measured` wants it, µs.
    most_us
        u.
    """
    if policy == MEASURED:
        return rest_us(wanted, most_us, batch_us)
    rest, _ = policy_of(policy).rests_us(
        TaskTime(sub_deadline_us=round(most_us), standby=False, standby_lag_us=most_us),
        HostFigures(batch_us=batch_us),
    )
    return rest


def wanted_us(replicas: float, dispatch_us: float) -> float:
    """The shortest batch at which starting batches takes no more than its share of a host.

    Parameters
    ----------
    replicas
        How many the host has.
    dispatch_us
        Processor time of a batch beyond its tuples, on the host, µs.
    """
    return replicas * dispatch_us / OVERHEAD_SHARE


def rest_us(wanted: float, most_us: float, batch_us: int) -> int:
    """How long a task rests: the batch interval, or longer if more is wanted and possible.

    Lengths are 1, 2, 3, 4, 6, 8, 12, … intervals: longer rests mostly end when shorter ones do.
    Without an interval nothing rests.
    """
    if not batch_us:
        return 0
    units = max(int(min(wanted, most_us) / batch_us), 1)
    least = 2 ** (units.bit_length() - 1)
    return (3 * least // 2 if 2 * units >= 3 * least else least) * batch_us


def next_multiple(now_us: int, unit_us: int) -> int:
    """The next multiple of a length; now if that is 0."""
    return (now_us // unit_us + 1) * unit_us if unit_us else now_us


class SdmrMonitor:
    """SDMR(Γ) of the tasks of a host, and of all of them (§1.2).

    Counts arrivals when they are decided. Standbys have lags, not deadlines; those of a task that
    changes its role are forgotten with the task.

    Attributes
    ----------
    host
        Of all primaries.
    """

    def __init__(self) -> None:
        self.host = MissRatio(0.0, GAMMA_US)
        self._tasks: dict[str, MissRatio] = {}

    def decided(self, task: str, arrivals: int, missed: int, now_us: int) -> None:
        """Count arrivals of a task whose results have left, and those that left too late."""
        if task not in self._tasks:
            self._tasks[task] = MissRatio(0.0, GAMMA_US)
        for ratio in (self._tasks[task], self.host):
            ratio.count(arrivals, missed, now_us)

    def sdmr(self, task: str, now_us: int) -> float:
        """Of a task, 0 to 1; 0 if nothing was decided."""
        ratio = self._tasks.get(task)
        return _share(ratio, now_us) if ratio is not None else 0.0

    def host_sdmr(self, now_us: int) -> float:
        """Of all tasks, 0 to 1; 0 if nothing was decided."""
        return _share(self.host, now_us)

    def keep(self, tasks: Iterable[str]) -> None:
        """Forget all other tasks."""
        kept = set(tasks)
        self._tasks = {name: ratio for name, ratio in self._tasks.items() if name in kept}


def _share(ratio: MissRatio, now_us: int) -> float:
    return (ratio.recent_pct(now_us) or 0.0) / 100

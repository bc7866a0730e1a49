"""How long the tasks of a host rest between two batches.

A rest lasts for the cluster's batch interval. It lasts longer, up to a share of the time that the
task has, on a host with many replicas, and on one that is late. Standbys rest longer first. A batch
of few tuples costs hardly less than one of many, so longer rests make room on CPU-starved hosts.

Two things limit the rests of primaries. After a rest, all primaries of a host may have to be
evaluated once; what they have taken lately says how long that takes. And a reader must not spend
most of the recovery bound on its rest when the primary that it reads is lost. Nobody waits for the
output of a standby, so only its permitted lag limits its rests: the tuples that arrive during a
rest must be evaluated within that lag.

Where rests are long, a task that has received nothing but watermarks rests longer still. It then
passes on many watermarks at once, in hardly more time than one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from streams.scheduling.recent_rates import RecentRates

UNIT_US = 10_000.0
"""The unit of rests where the cluster has no batch interval."""

REST_SHARE = 0.4
MANY_SHARE = 0.55
"""Most of its sub-deadline for which a primary rests when the host is late, and when it has many
replicas. Results of a chain are thereby late by no more than that share of its deadline."""

FREE_SHARE = 0.2
"""Of its sub-deadline that a primary's rest and the evaluations which follow leave free."""

RECOVERY_LAGS = 3.0
"""How many lags of its standby a primary rests at most: three quarters of what the bound leaves.
Hosts that share a clock rest alike, so the rests of a chain do not add up."""

STANDBY_REST_SHARES = (2.0, 4.0)
"""How many times its lag a standby rests when the host is late or has many replicas: the latter at
most, the former while nobody knows what the standbys here cost. The lag of a standby is a quarter
of what the recovery bound leaves. A standby that takes over starts at once, and evaluates what came
in a rest in no more time than its lag."""

STANDBY_RESTS = 2
"""A standby on a host with many replicas rests this many times as long as a primary."""

IDLE_RESTS = 2
"""A task to which no tuples have come rests this many times as long as it would otherwise, ..."""

IDLE_SHARES = (0.7, 8.0)
MOST_IDLE_US = 700_000
"""... but no longer than these shares of a primary's sub-deadline and of a standby's lag, and than
this. Passing on watermarks takes hardly any time, so that the rest of the deadline is enough to
transport them; and an idle task is not behind (`BEHIND_US` in `host.dispatcher`)."""

STANDBY_MARGIN = 2.0
"""By which factor evaluating what came in a rest may take longer than standbys here have lately
taken for as much: the rate may have risen since."""

KNOWN_SHARE = 0.1
"""Of the time over which loads are averaged, from which on those of a new replica are believed."""

LOOK_US = 1_000_000
"""How often a host looks at what its replicas have taken."""

START_US = 400.0
STARTS_SHARE = 1 / 16
"""Processor time of a batch with hardly any tuples, with all that it causes elsewhere, at speed 1,
and the share of a host's time that all replicas together may spend on such batches. With more
replicas, or on a slow machine that is CPU-starved, each rests for longer."""

STANDBY_YIELDS = 4
"""A standby rests for this many times as long as the host is late."""


class Rests:
    """The rests of a host's tasks.

    Parameters
    ----------
    batch_us
        The cluster's batch interval; 0: there is none.
    """

    def __init__(self, batch_us: int) -> None:
        self._batch_us = batch_us
        self._standby_share = STANDBY_REST_SHARES[0]
        self._next_look_us = 0
        self._due_us: list[float] = []
        """Sub-deadlines of the primaries, rising."""
        self._demand_us = [0.0]
        """What evaluating the first ones of them once takes."""

    def ends_us(
        self,
        now_us: int,
        sub_deadline_us: int,
        *,
        standby: bool,
        standby_lag_us: float,
        replicas: int,
        lag_us: int,
        slowness: float = 1.0,
    ) -> tuple[int, int]:
        """Until when a task rests after a batch, and until when if nothing but watermarks comes.

        Parameters
        ----------
        sub_deadline_us
            A standby's is its lag.
        standby_lag_us
            How far a standby of the task may lag.
        replicas
            How many the host has.
        lag_us
            By how much the host is late.
        slowness
            How many times as long small batches should rest because its processor is slow.
        """
        many_us = many_replicas_us(replicas, self._batch_us, slowness)
        late_share = many_share = self._standby_share
        room_us = recovering_us = float("inf")
        if standby:
            lag_us, many_us = STANDBY_YIELDS * lag_us, STANDBY_RESTS * many_us
        else:
            late_share, many_share = REST_SHARE, MANY_SHARE
            recovering_us = RECOVERY_LAGS * standby_lag_us
            room_us = min(self._room_us(sub_deadline_us), recovering_us)
        rests_us = max(
            rest_us(lag_us, min(late_share * sub_deadline_us, room_us), self._batch_us),
            rest_us(many_us, min(many_share * sub_deadline_us, room_us), self._batch_us),
        )
        idle_us = min(recovering_us, IDLE_SHARES[standby] * sub_deadline_us, MOST_IDLE_US)
        idles_us = rest_us(IDLE_RESTS * max(lag_us, many_us), idle_us, self._batch_us)
        until_us = _next_multiple(now_us, rests_us)
        return until_us, max(_next_multiple(now_us, idles_us), until_us)

    def looks(self, now_us: int) -> bool:
        """Whether it is time to look at what the replicas take."""
        return now_us >= self._next_look_us

    def _room_us(self, sub_deadline_us: int) -> float:
        """How long a primary may rest so that all that are due before it can be evaluated then."""
        demand_us = self._demand_us[bisect_right(self._due_us, sub_deadline_us)]
        return max((1 - FREE_SHARE) * sub_deadline_us - demand_us, 0.0)

    def look(
        self,
        now_us: int,
        standbys: Sequence[RecentRates],
        primaries: Iterable[tuple[float, float]] = (),
    ) -> None:
        """Find how long primaries may rest, and for how many times their lag standbys may.

        Parameters
        ----------
        standbys
            What each has taken lately.
        primaries
            The sub-deadline of each, and what evaluating it once takes, µs.
        """
        in_order = sorted(primaries)
        self._due_us = [due_us for due_us, _ in in_order]
        self._demand_us = [0.0, *accumulate(took_us for _, took_us in in_order)]
        self._next_look_us = now_us + LOOK_US
        cores = sum(load.read(now_us)[0] for load in standbys)
        least, most = STANDBY_REST_SHARES
        self._standby_share = least
        if all(load.window_share >= KNOWN_SHARE for load in standbys):
            self._standby_share = min(max(1 / max(STANDBY_MARGIN * cores, 1 / most), least), most)


def many_replicas_us(replicas: float, batch_us: int, slowness: float = 1.0) -> int:
    """How long tasks must rest so that the small batches of a host take no more than their share.

    Parameters
    ----------
    replicas
        How many the host has.
    batch_us
        The cluster's batch interval; a cluster without one has no rests.
    slowness
        How many times as long a small batch takes on the host.
    """
    return round(replicas * START_US * slowness / STARTS_SHARE) if batch_us else 0


def rest_us(wanted_us: float, most_us: float, batch_us: int) -> int:
    """How long a task rests: the batch interval, or longer if more is wanted and possible."""
    return max(_on_grid(min(wanted_us, most_us), batch_us or UNIT_US), batch_us)


def _next_multiple(now_us: int, unit_us: int) -> int:
    """The next multiple of a length; now if that is 0."""
    return (now_us // unit_us + 1) * unit_us if unit_us else now_us


def _on_grid(rest_us: float, unit_us: float) -> int:
    """The longest rest of an allowed length that is no longer than this; 0 if there is none.

    Lengths are 1, 2, 3, 4, 6, 8, 12, … units: longer rests mostly end when shorter ones do.
    """
    units = int(rest_us / unit_us)
    if not units:
        return 0
    least = 2 ** (units.bit_length() - 1)
    allowed = 3 * least // 2 if 2 * units >= 3 * least else least
    return round(allowed * unit_us)

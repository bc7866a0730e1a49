"""The processor time that a host has taken lately, as it reports it.

A host that has just started measures its links and runs everything for the first time. This load
does not stay, and must not keep queries out. So during its first seconds the host is charged its
evaluations and the idle load; the rest is ignored.

A batch costs a host more than the evaluation of its tuples: the fixed part of the evaluation,
dispatching, sending, acknowledging. Each measurement is a sample of that, (processor time beyond
that of tuples, number of batches), and `CostModel` divides it into the idle load and the time of a
batch, C_sche + a of adaptive batching.
"""

from __future__ import annotations

from orchestrator.records import HostLoad
from orchestrator.records.speed import HOST_CORES, Speed
from streams.scheduling.batching import BELIEVED_US, DISPATCH_US
from streams.scheduling.cost_model import CostModel
from streams.scheduling.recent_rates import RecentRates

STARTING_US = 10_000_000
"""How long a host counts as one that has just started."""

LEAST_EVALUATIONS_S = 20.0
"""Batches a second from which on their time is measured. Beside fewer, that of an idle host, which
grows with its links, outweighs them."""


class LoadMeter:
    """Keeps account of a host's processor time.

    Parameters
    ----------
    now_us
        When the host starts.

    Attributes
    ----------
    load
        Processor time taken lately; None until it was measured.
    """

    def __init__(self, now_us: int) -> None:
        self._usage = RecentRates(3, now_us)
        self._measured_us = now_us
        self._started_us = now_us + STARTING_US
        self._evaluating_s = 0.0
        self._evaluations = 0
        self._tuples_s = 0.0
        self._dispatch = CostModel(DISPATCH_US, HOST_CORES * 1e6)
        self.load: HostLoad | None = None

    @property
    def dispatch_us(self) -> float:
        """Processor time of a batch beyond that of its tuples, at speed 1."""
        least_us, most_us = BELIEVED_US
        return min(max(self._dispatch.per_tuple_us, least_us), most_us)

    def evaluated(self, took_us: float, tuples_us: float) -> None:
        """Count an evaluation, and how much of its time is for its tuples."""
        self._evaluating_s += took_us / 1e6
        self._tuples_s += tuples_us / 1e6
        self._evaluations += 1

    def measured(self, cores: float, speed: Speed, now_us: int, *, has_ends: bool) -> None:
        """Take in what the host's process has taken since the last time.

        Parameters
        ----------
        has_ends
            Whether sources or sinks are here. Their time is not counted apart; nothing is ignored.
        """
        passed_s = (now_us - self._measured_us) / 1e6
        taken_s = cores * passed_s
        if now_us < self._started_us and not has_ends:
            slow_s = HOST_CORES * passed_s + self._evaluations * DISPATCH_US / 1e6
            taken_s = min(taken_s, self._evaluating_s + slow_s / speed.ratio)
        elif not has_ends and self._evaluations > LEAST_EVALUATIONS_S * passed_s:
            beside_us = max(taken_s - self._tuples_s, 0.0) * 1e6 * speed.ratio
            self._dispatch.observe(round(self._evaluations / passed_s), beside_us / passed_s)
        self._usage.add(taken_s, self._evaluating_s, self._evaluations)
        self._measured_us, self._evaluating_s, self._evaluations = now_us, 0.0, 0
        self._tuples_s = 0.0
        taken, evaluating, evaluations_s = self._usage.read(now_us)
        self.load = HostLoad(
            cores=taken,
            evaluating_cores=evaluating,
            evaluations_s=evaluations_s,
            speed=speed.ratio,
            dispatch_us=self.dispatch_us,
        )

"""The experiment of adaptive batching (§4) on one simulated processor, with the product's parts.

Queries are trees of operators; each reads one stream with exponential gaps. A dispatch costs the
scheduler 20–80 µs, and each tuple Σ θ₁…θ_{i−1}·C_i. The run queue, the policies and the SDMR
monitor are those of hosts (`streams.scheduling`); only clock and processor are simulated.

Where the text leaves a choice, the choice made here:

- λ is in tuples a ms of each stream: 50 tuples in 0.1 s at λ = 0.5, the reading of Fig. 3;
- a tree is its longest path, as in (4); a depth and a fan-out make as many operators on it;
- a dispatch takes the tuples of the k batch units that the oldest waiting tuple begins;
- all policies drop tuples that are overdue already (theorem 1 and Fig. 7 ask for that), BTS1 and
  ATS1 also those that will be (S(Q), oldest first); Ideal has no overhead and drops like BTS1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from foundation.arrays import FloatArray
from streams.scheduling.batching import (
    GAMMA_US,
    BatchingPolicy,
    HostFigures,
    SdmrMonitor,
    TaskTime,
    next_multiple,
    policy_of,
)
from streams.scheduling.run_queue import Instance, Policy, RunQueue

OVERHEAD_US = (20.0, 80.0)
OPERATOR_US = (1.0, 20.0)
DEADLINES_S = (1.0, 5.0)
"""As the paper has them."""

LONGEST_US = 10_000.0
"""The longest batch of a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallQuery:
    """A query of the experiment: µs a tuple, the deadline, and when its tuples arrive."""

    tuple_us: float
    deadline_us: int
    arrivals_us: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is varied.

    Attributes
    ----------
    rate_ms
        λ: tuples a ms of each stream.
    batch_us
        Φ.
    selectivity
        θ of every operator; None: 0.01 to 1 at random.
    zipf
        Whether the rates of the streams follow Zipf's law, with λ as their mean.
    dearer
        By which factor tuples cost more than in the paper.
    """

    queries: int = 100
    rate_ms: float = 0.5
    batch_us: int = 100_000
    selectivity: float | None = 0.5
    zipf: bool = False
    seconds: float = 20.0
    seed: int = 1
    dearer: float = 1.0
    burst: tuple[float, float, float] | None = None
    """From and until when, s, and by how much all rates are multiplied."""

    def made(self) -> list[SmallQuery]:
        """The queries, the same for every policy."""
        weights = 1 / np.arange(1, self.queries + 1) if self.zipf else np.ones(self.queries)
        rates_s = self.rate_ms * 1000 * self.queries * weights / weights.sum()
        # A query is the same at every rate.
        rngs = (np.random.default_rng([self.seed, number]) for number in range(self.queries))
        return [self._query(*each) for each in zip(rngs, rates_s.tolist(), strict=True)]

    def load_ratio(self) -> float:
        """The time that all tuples take, without dispatching, as a share of the time that passes.

        Above 1 nothing is in balance: what is missed rises with `seconds`.
        """
        work_us = sum(len(each.arrivals_us) * each.tuple_us for each in self.made())
        return work_us / (1e6 * self.seconds)

    def _query(self, rng: np.random.Generator, rate_s: float) -> SmallQuery:
        depth = int(rng.integers(1, 4)) * int(rng.integers(1, 4))
        passed, tuple_us = 1.0, 0.0
        for _ in range(depth):
            tuple_us += passed * rng.uniform(*OPERATOR_US) * self.dearer
            passed *= rng.uniform(0.01, 1.0) if self.selectivity is None else self.selectivity
        deadline_us = round(1e6 * rng.uniform(*DEADLINES_S))
        gaps_s = rng.exponential(1 / rate_s, size=max(round(1.2 * self.seconds * rate_s), 8))
        arrivals_s = np.cumsum(gaps_s)
        if self.burst is not None:
            arrivals_s = _hastened(arrivals_s, *self.burst)
        return SmallQuery(
            tuple_us=tuple_us,
            deadline_us=deadline_us,
            arrivals_us=1e6 * arrivals_s[arrivals_s < self.seconds],
        )


def _hastened(times_s: FloatArray, begin_s: float, end_s: float, factor: float) -> FloatArray:
    """Times of a steady stream as those of one that is faster for a while."""
    lasts_s = (end_s - begin_s) * factor
    inside = (times_s - begin_s) / factor + begin_s
    after = times_s - lasts_s + (end_s - begin_s)
    return np.where(
        times_s < begin_s, times_s, np.where(times_s < begin_s + lasts_s, inside, after)
    )


@dataclass(slots=True)
class Outcome:
    """What a policy has done.

    Attributes
    ----------
    decided, missed
        Tuples; dropped ones are missed.
    ks
        Batch units of each rest.
    trace
        (s, mean k, miss ratio) each Γ.
    """

    decided: int = 0
    missed: int = 0
    dropped: int = 0
    overhead_s: float = 0.0
    busy_s: float = 0.0
    lasted_s: float = 0.0
    ks: list[float] = field(default_factory=list[float])
    trace: list[tuple[float, float, float]] = field(
        default_factory=list[tuple[float, float, float]]
    )

    def figures(self) -> dict[str, float]:
        """Units last."""
        return {
            "sdmr_pct": 100 * self.missed / self.decided if self.decided else 0.0,
            "overhead_s": self.overhead_s,
            "cpu_pct": 100 * self.busy_s / self.lasted_s if self.lasted_s else 0.0,
            "k_mean": float(np.mean(self.ks)) if self.ks else 0.0,
            "k_max": max(self.ks, default=0.0),
        }


@dataclass(slots=True)
class _Task:
    query: SmallQuery
    time: TaskTime
    policy: BatchingPolicy
    done: int = 0
    """Tuples that were taken."""
    ready_us: float = 0.0
    span_us: float = math.inf
    tuples_us: float = 0.0


class Experiment:
    """One policy on one set of queries.

    Parameters
    ----------
    policy
        By its name; `ideal`; or a name with a `1` after it: predicted overdue tuples are dropped.
    law
        Makes the policy of each task, instead of its name.
    keeps
        Whether nothing is dropped, as on hosts; a dispatch then takes tuples for `LONGEST_US`.
    defers
        Whether the run queue defers overdue work, if it is kept.
    """

    def __init__(
        self,
        setup: Setup,
        policy: str,
        law: Callable[[], BatchingPolicy] | None = None,
        *,
        keeps: bool = False,
        defers: bool = True,
    ) -> None:
        self._setup, self._keeps = setup, keeps
        self._ideal = policy == "ideal"
        self._predicts = self._ideal or policy in ("bts1", "ats1")
        name = {"ideal": "bts-1", "bts1": "bts-1", "ats1": "ats-algorithm"}.get(policy, policy)
        shared = policy_of(name) if name == "measured" else None
        make = law or (lambda: shared or policy_of(name))
        self._tasks = [
            _Task(
                query=each,
                time=TaskTime(
                    sub_deadline_us=each.deadline_us, standby=False, standby_lag_us=math.inf
                ),
                policy=make(),
            )
            for each in setup.made()
        ]
        self._rng = np.random.default_rng(setup.seed + 1)
        self._host = HostFigures(batch_us=setup.batch_us, replicas=len(self._tasks))
        self._host.dispatch_us = float(np.mean(OVERHEAD_US))
        self._sdmr = SdmrMonitor()
        self._queue = RunQueue(Policy.EDF, defers=keeps and defers)
        self._out = Outcome()
        self._now_us = self._looked_us = 0.0
        self._looked_busy_s = 0.0

    def run(self) -> Outcome:
        """Until every tuple was taken or dropped."""
        starts = np.array([_first(task) for task in self._tasks])
        out = self._out
        while True:
            for at in np.flatnonzero(starts <= self._now_us):
                self._release(int(at))
                starts[at] = math.inf
            instance = self._queue.pop(int(self._now_us))
            if instance is None:
                self._now_us = max(float(starts.min()), self._now_us)
                if math.isinf(self._now_us):
                    break
                continue
            task = self._tasks[int(instance.task)]
            self._dispatch(int(instance.task), task)
            starts[int(instance.task)] = max(_first(task), task.ready_us)
            if self._now_us - self._looked_us >= GAMMA_US:
                self._look()
            out.lasted_s = self._now_us / 1e6
        return out

    def _release(self, at: int) -> None:
        task = self._tasks[at]
        oldest_us = float(task.query.arrivals_us[task.done])
        come = int(np.searchsorted(task.query.arrivals_us, self._now_us, side="right"))
        self._queue.put(
            Instance(
                task=str(at),
                released_us=int(oldest_us),
                deadline_us=int(oldest_us) + task.query.deadline_us,
                standby=False,
                cost_us=(come - task.done) * task.query.tuple_us,
            )
        )

    def _dispatch(self, at: int, task: _Task) -> None:
        query, out = task.query, self._out
        began_us = self._now_us
        overhead_us = 0.0 if self._ideal else float(self._rng.uniform(*OVERHEAD_US))
        come = int(np.searchsorted(query.arrivals_us, began_us, side="right"))
        # What is overdue already is dropped by all.
        alive = int(np.searchsorted(query.arrivals_us, began_us - query.deadline_us, side="left"))
        dropped = 0 if self._keeps else max(min(alive, come) - task.done, 0)
        first = task.done + dropped
        last = come
        if task.policy.groups is not None:
            last = min(first + task.policy.groups, come)
        elif first < come and math.isfinite(task.span_us):
            until_us = float(query.arrivals_us[first]) + max(task.span_us, self._setup.batch_us)
            last = min(int(np.searchsorted(query.arrivals_us, until_us, side="right")), come)
        if self._keeps:
            last = min(last, first + max(int(LONGEST_US / query.tuple_us), 1))
        if self._predicts and first < last:
            # S(Q): of the oldest, those beyond what can be done in time; each drop moves dl.
            while first < last:
                dl_us = float(query.arrivals_us[first]) + query.deadline_us
                left_us = dl_us - began_us - overhead_us
                if left_us >= (last - first) * query.tuple_us:
                    break
                first, dropped = first + 1, dropped + 1
        taken = last - first
        if taken or not self._ideal:
            work_us = taken * query.tuple_us
            self._now_us += (overhead_us if taken else 0.0) + work_us
            out.overhead_s += (overhead_us if taken else 0.0) / 1e6
            out.busy_s += (self._now_us - began_us) / 1e6
            task.tuples_us += work_us
        in_time_us = self._now_us - query.deadline_us
        late = int(np.searchsorted(query.arrivals_us[first:last], in_time_us, side="left"))
        missed = dropped + late
        self._sdmr.decided(str(at), taken + dropped, missed, int(began_us))
        out.decided, out.missed = out.decided + taken + dropped, out.missed + missed
        out.dropped += dropped
        task.done = last
        rest_us, _ = task.policy.rests_us(task.time, self._host)
        rests = last == come and rest_us > 0
        task.ready_us = float(next_multiple(int(began_us), rest_us)) if rests else 0.0
        task.span_us = float(rest_us) if rest_us else math.inf
        if self._setup.batch_us:
            out.ks.append(rest_us / self._setup.batch_us)

    def _look(self) -> None:
        passed_us = self._now_us - self._looked_us
        self._looked_us = self._now_us
        now_us, host = int(self._now_us), self._host
        once = [
            (float(task.query.deadline_us), task.tuples_us * self._setup.batch_us / passed_us)
            for task in self._tasks
        ]
        host.look(now_us, [], once, (self._out.busy_s - self._looked_busy_s) * 1e6 / passed_us)
        self._looked_busy_s = self._out.busy_s
        policies = {id(task.policy): (at, task.policy) for at, task in enumerate(self._tasks)}
        shared = len(policies) == 1
        for at, policy in policies.values():
            sdmr = self._sdmr.host_sdmr(now_us) if shared else self._sdmr.sdmr(str(at), now_us)
            policy.adapt(sdmr, host)
        for task in self._tasks:
            task.tuples_us = 0.0
        recent = self._out.ks[-len(self._tasks) :]
        mean_k = float(np.mean(recent)) if recent else 0.0
        self._out.trace.append((self._now_us / 1e6, mean_k, self._sdmr.host_sdmr(now_us)))


def _first(task: _Task) -> float:
    """When the next tuple of a task arrives; infinite after the last."""
    arrivals_us = task.query.arrivals_us
    return float(arrivals_us[task.done]) if task.done < len(arrivals_us) else math.inf

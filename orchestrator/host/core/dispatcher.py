"""Decides what a host evaluates next.

Under earliest deadline first, primaries that form a chain on this host are one *task*
(`streams.scheduling.tasks`); a standby is a task of its own. Input that enters the first operator
of a task at time r must have left the last one by r + d_T (deadline placement, §5.4). The task with
the earliest such deadline is dispatched first. One dispatch evaluates a batch of timestamp groups
of one operator: the operator closest to the task's end that has work, so that the task finishes
what it has started. After each batch another task may have become more urgent.

A task rests after its first operator has run, so that input arriving meanwhile is evaluated
together. After a pause a task starts at once; a task that has a backlog, or has just taken over,
does not rest. A rest ends at a multiple of its length. So tasks start at the same moments, and
their output travels together. Hosts that share a clock rest alike, so that the rests of a chain
of hosts do not add up. A policy of `streams.scheduling.batching` says how long rests last: the
cluster's, or the query's own. An SDMR monitor counts the arrivals that left their task too late,
and policies adapt to that.

A task that ends in a periodic statement is *released* by the watermark that passes one of its
releases: its deadline counts from there, and it starts at once. Input that comes in between only
changes windows; it rests as usual, and no result waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

import pyarrow as pa

from ha.roles import ReplicaRole
from orchestrator.host.core.hosted_replica import HostedReplica
from orchestrator.records import BatchingStatus, CostStatus, ReplicaLoad
from streams.plan.program import ReleasePlan
from streams.scheduling.batching import (
    GAMMA_US,
    MEASURED,
    STANDBY_LAGS,
    BatchingPolicy,
    HostFigures,
    Measured,
    SdmrMonitor,
    TaskTime,
    next_multiple,
    policy_of,
)
from streams.scheduling.cadence import BATCH_US, TIMESTAMPS_PER_DISPATCH, batch_length_us
from streams.scheduling.cost_model import CostModel
from streams.scheduling.in_time import QUEUED_SHARE, OperatorCost, own_part_us, tuples_in_time
from streams.scheduling.recent_rates import RecentRates
from streams.scheduling.run_queue import Instance, Policy, RunQueue
from streams.scheduling.tasks import TaskOperator, extract_tasks
from streams.vectors.chunk import rows_bytes
from topology.cluster_clock import ClusterClock

BEHIND_US = 1_000_000
"""A replica is behind if its input waits for longer than this, and for longer than its deadline or
a standby's longest rest. No garbage collection, and no burst that a plan allows for, takes so
long."""

WORTHWHILE = 8.0
MOST_WORTHWHILE_US = 5_000.0
"""The tuples of a batch may take `WORTHWHILE` times as long as the batch's fixed cost, up to
`MOST_WORTHWHILE_US`. The fixed cost is estimated poorly at first, and must not make batches very
long."""

RESTLESS = 2
"""After a takeover, here or of the producer of an input, so many evaluations are not followed by a
rest. The first evaluates the tuples that were here. The missing ones come in a moment, perhaps from
another replica that takes over, and output resumes with them."""

LEAST_COST_US = 1e-3
"""Cost of a tuple whose estimate is zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A batch to evaluate: a replica, and the most timestamp groups and tuples to evaluate."""

    fragment: str
    timestamp_groups: int
    tuples: int


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Input that has entered a task together, and has not left it.

    Attributes
    ----------
    watermark_ms
        It is complete up to there.
    at_us
        When it had entered.
    releases
        Whether results wait for it: always, unless the task is periodic.
    """

    watermark_ms: int
    at_us: int
    releases: bool


@dataclass(slots=True)
class _Task:
    """A chain of operators with one sub-deadline.

    Attributes
    ----------
    generations
        Generation of each operator's state.
    sub_deadline_us
        d_T.
    entered
        What has entered and not left yet, oldest first.
    patience_us
        How long input may wait before the task is behind.
    standby_lag_us
        How far its standbys may lag, or how far it may, if it is one; the least of its operators.
    rests_until_us, idles_until_us
        When the task may start again, and when it may if nothing but watermarks waits.
    restless
        Evaluations of its first operator that no rest is to follow.
    policy, policy_name
        Says how long it rests.
    rest_us
        How long its last rest was to be.
    releases
        Of its last operator, if that is periodic and nobody else reads the others' results.
    period_us
        Between two of these, on the cluster's clock.
    importance
        The greatest of its operators'.
    """

    name: str
    operators: tuple[str, ...]
    generations: tuple[int, ...]
    time: TaskTime
    patience_us: int
    policy: BatchingPolicy
    policy_name: str
    releases: ReleasePlan | None = None
    period_us: int = 0
    importance: int = 0
    entered: deque[_Arrival] = field(default_factory=deque[_Arrival])
    rests_until_us: int = 0
    idles_until_us: int = 0
    restless: int = 0
    rest_us: int = 0

    @property
    def sub_deadline_us(self) -> int:
        """d_T; a standby's is its lag."""
        return self.time.sub_deadline_us

    @property
    def standby(self) -> bool:
        """Whether no consumer waits for its results."""
        return self.time.standby

    @property
    def due_us(self) -> float:
        """How long after its arrival input must be evaluated: a standby may rest meanwhile."""
        return self.sub_deadline_us * (STANDBY_LAGS[0] if self.standby else 1.0)

    @property
    def released_us(self) -> int | None:
        """When the oldest input entered for which results wait; None if there is none."""
        return next((one.at_us for one in self.entered if one.releases), None)

    @property
    def identity(self) -> object:
        """Two tasks with equal identity share their pending input."""
        return self.operators, self.generations, self.standby


class Dispatcher:
    """The tasks of one host.

    Parameters
    ----------
    replicas
        The host's replicas, which the dispatcher reads and never changes.
    policy
        Order in which tasks run.
    batch_us
        Least time between two starts of a task.
    clock
        The cluster's, by which tuples have entered the system.
    batching
        The policy of tasks whose query names none.
    policies
        Makes other policies by their names than there are.

    Attributes
    ----------
    figures
        What policies go by.
    sdmr
        Counts the arrivals that were late.
    batch_length_us
        How long a batch may last, so that input which arrives meanwhile is in time.
    tightest_us
        The time that the most urgent task has for its input.
    """

    def __init__(
        self,
        replicas: Mapping[str, HostedReplica],
        policy: Policy,
        batch_us: int,
        clock: ClusterClock | None = None,
        batching: str = MEASURED,
        policies: Callable[[str], BatchingPolicy] | None = None,
    ) -> None:
        self._replicas = replicas
        self._policy = policy
        self._clock = clock or ClusterClock()
        self.figures = HostFigures(batch_us=batch_us)
        self.sdmr = SdmrMonitor()
        self._batching, self._policy_of = batching, policies or policy_of
        self._measured = Measured()
        self._next_look_us = 0
        self._left: dict[str, tuple[_Task, int, list[int]]] = {}
        """Fragment whose batch is being evaluated → its task, when it began, and when the arrivals
        had entered that leave with it."""
        self._tasks: dict[str, _Task] = {}
        self._task_of: dict[str, _Task] = {}
        defers = policy is not Policy.UNDEFERRED
        self._queue = RunQueue(policy if defers else Policy.EDF, defers=defers)
        self._resting: dict[str, int] = {}
        self._ends: list[tuple[int, str]] = []
        """When rests end, soonest first; what does not agree with `_resting` is over."""
        self._ready: set[str] = set()
        """Replicas with work; updated when input arrives and after each evaluation."""
        self._costs: dict[str, CostModel] = {}
        self._loads: dict[str, RecentRates] = {}
        self._pending_at_us = -1
        self._pending = 0.0, 0
        """Expected duration of the pending work of all primaries' tasks at that time, and how many
        tasks there are."""
        self._parts_us: dict[str, float] = {}
        """Fragment → what the parts of its present batch have taken, µs."""
        self.batch_length_us = BATCH_US[1]
        self.tightest_us = 0.0

    def rebuild_tasks(self, now_us: int) -> None:
        """Form tasks again after replicas or their roles have changed."""
        before = self._tasks
        stood_by = {name for name, task in before.items() if task.standby}
        self._tasks = {task.name: task for task in (*self._primaries(), *self._standbys())}
        self._task_of = {name: task for task in self._tasks.values() for name in task.operators}
        for name, task in self._tasks.items():
            old = before.get(name)
            if old is not None and old.identity == task.identity:
                task.entered, task.rests_until_us = old.entered, old.rests_until_us
                task.idles_until_us, task.restless = old.idles_until_us, old.restless
                task.rest_us = old.rest_us
                if old.policy_name == task.policy_name:
                    task.policy = old.policy
            else:
                self._queue.discard(name)
                if not task.standby and not stood_by.isdisjoint(task.operators):
                    task.restless = RESTLESS
        for name in before.keys() - self._tasks.keys():
            self._queue.discard(name)
        self._resting.clear()
        self._ends.clear()
        self._left.clear()
        self.sdmr.keep(self._tasks)
        self._drop_unused_costs()
        for name in self._replicas.keys() - self._loads.keys():
            self._loads[name] = RecentRates(6, now_us)
        self._ready = {name for name, each in self._replicas.items() if each.replica.has_work}
        tightest_us = min((t.sub_deadline_us for t in self._tasks.values()), default=0)
        self.tightest_us = min((t.due_us for t in self._tasks.values()), default=0.0)
        self.batch_length_us = batch_length_us(tightest_us)
        self._look(now_us)
        for task in self._tasks.values():
            self._enqueue_or_rest(task, now_us)

    def arrived(self, fragment: str, now_us: int) -> None:
        """Note that input has arrived for a replica."""
        task = self._task_of.get(fragment)
        if task is None:
            return
        if fragment == task.name:
            self._enter(task, now_us)
            if fragment in self._ready and self._resting.get(fragment) == self._until_us(task):
                # It rests although it has work, and more work changes nothing until then.
                return
        self._update_ready(fragment)
        self._enqueue_or_rest(task, now_us)

    def rests(self, fragment: str) -> bool:
        """Whether a replica has work and rests: until that ends, more data changes nothing.

        More data may release a periodic task.
        """
        task = self._task_of.get(fragment)
        return (
            task is not None
            and task.releases is None
            and fragment == task.name
            and fragment in self._ready
            and self._resting.get(fragment) == self._until_us(task)
        )

    def _enter(self, task: _Task, now_us: int) -> None:
        """Note up to where input of a task has entered by now."""
        input_watermark_ms = self._replicas[task.name].replica.engine.input_watermark_ms
        entered_ms = task.entered[-1].watermark_ms if task.entered else self._left_ms(task)
        if input_watermark_ms > entered_ms:
            plan = task.releases
            released = plan is None or plan.next_from(entered_ms + 1) <= input_watermark_ms
            task.entered.append(_Arrival(input_watermark_ms, now_us, released))

    @property
    def next_us(self) -> int | None:
        """When there will be work: in the past if there is some now, None without input."""
        if len(self._queue):
            return 0
        ends = self._ends
        while ends and self._resting.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] if ends else None

    def pop(self, now_us: int) -> Dispatch | None:
        """The batch to evaluate now, if any; call `done` after its evaluation."""
        while self._ends and self._ends[0][0] <= now_us:
            until_us, name = heappop(self._ends)
            if self._resting.get(name) == until_us:
                self._enqueue(self._tasks[name], now_us)
        while (instance := self._queue.pop(now_us)) is not None:
            task = self._tasks[instance.task]
            for fragment in reversed(task.operators):
                if fragment in self._ready:
                    return Dispatch(
                        fragment=fragment,
                        timestamp_groups=task.policy.groups or TIMESTAMPS_PER_DISPATCH,
                        tuples=self._tuples(fragment, instance.deadline_us - now_us),
                    )
        return None

    def done(self, fragment: str, now_us: int) -> None:
        """Note that a batch that was dispatched at `now_us` has been evaluated."""
        task = self._task_of[fragment]
        self._update_ready(fragment)
        if now_us >= self._next_look_us:
            self._look(now_us)
            self._adapt(now_us)
        if fragment == task.name and fragment not in self._ready:
            # With a backlog, there is nothing to wait for.
            if task.restless:
                task.restless -= 1
            else:
                task.rest_us, idle_us = task.policy.rests_us(task.time, self.figures)
                task.rests_until_us = next_multiple(now_us, task.rest_us)
                task.idles_until_us = max(next_multiple(now_us, idle_us), task.rests_until_us)
        self._left[fragment] = task, now_us, self._leave(task)
        # Data that the replica had let wait has queued its task, although it runs.
        self._queue.discard(task.name)
        self._enqueue_or_rest(task, now_us)

    def end_rest(self, fragment: str, now_us: int) -> None:
        """Have a task start now, although it rests: too much input waits."""
        task = self._task_of.get(fragment)
        if task is not None and self._until_us(task) > now_us:
            task.rests_until_us = task.idles_until_us = now_us
            self._enqueue_or_rest(task, now_us)

    def wake(self, fragment: str, now_us: int) -> None:
        """Have a task start now, and not rest for some evaluations, as after a takeover.

        The producer of an input has changed, and output resumes with the tuples that the new
        primary sends.
        """
        if (task := self._task_of.get(fragment)) is not None:
            task.restless = RESTLESS
        self.end_rest(fragment, now_us)

    def moved_on(self, fragment: str, now_us: int) -> None:
        """Note that a standby has adopted a later state: input up to there has left its task."""
        task = self._task_of.get(fragment)
        if task is None:
            return
        self._update_ready(fragment)
        self._leave(task)
        self._enqueue_or_rest(task, now_us)

    def update_held_up(self, fragment: str, now_us: int) -> None:
        """Notice whether consumers hold a replica up; it goes on once they do not."""
        hosted = self._replicas.get(fragment)
        if hosted is not None and hosted.replica.update_held_up(now_us):
            self.arrived(fragment, now_us)

    def as_many(self, count: int) -> float:
        """How many replicas or streams would keep a fast processor busy for as long as these."""
        return count * self.figures.slowness

    def batching_of(self, fragment: str, now_us: int) -> BatchingStatus | None:
        """How the primary of a fragment is batched; None if it is not one of this host's."""
        task = self._task_of.get(fragment)
        if task is None or task.standby:
            return None
        unit_us = self.figures.batch_us
        return BatchingStatus(
            policy=task.policy_name,
            k=task.rest_us // unit_us if unit_us else 0,
            sdmr_pct=round(100 * self.sdmr.sdmr(task.name, now_us), 2),
        )

    def is_behind(self, fragment: str, now_us: int) -> bool:
        """Whether the task that begins with this fragment is behind (`BEHIND_US`)."""
        task = self._tasks.get(fragment)
        if task is None or not task.entered:
            return False
        return now_us - task.entered[0].at_us > task.patience_us

    def in_time(self, fragment: str, now_us: int) -> tuple[int, float] | None:
        """S(Q): how many tuples the task that begins with a fragment can evaluate in time, and the
        time that it has for those that it takes, µs.

        None if no primary's task begins with it: what it takes is bounded elsewhere.
        """
        task = self._tasks.get(fragment)
        if task is None or task.standby:
            return None
        if self._pending_at_us != now_us:
            self._pending_at_us = now_us
            primaries = [each for each in self._tasks.values() if not each.standby]
            self._pending = sum(map(self._pending_us, primaries)), len(primaries)
        pending_us, tasks = self._pending
        others_us = pending_us - self._pending_us(task)
        left_us = own_part_us(task.sub_deadline_us, others_us, max(tasks, 1))
        dispatch_us = self.figures.dispatch_us * self.figures.slowness
        chain: list[OperatorCost] = []
        for name in task.operators:
            model = self._cost_of(name)
            _, _, _, tuples_s, emitted_s, _ = self._loads[name].read(now_us)
            selectivity = emitted_s / tuples_s if tuples_s else 1.0
            # The time of a dispatch has the fixed cost of its batch.
            fixed_us = max(model.fixed_us, dispatch_us)
            chain.append(OperatorCost(fixed_us, model.per_tuple_us, selectivity))
        return tuples_in_time(chain, left_us), QUEUED_SHARE * task.sub_deadline_us

    def count(self, fragment: str, tuples: int, timestamps: int, emitted: pa.RecordBatch) -> None:
        """Count an evaluation, the tuples that it took, and those that it emitted."""
        emitted_bytes = rows_bytes(emitted)
        self._loads[fragment].add(0.0, 1, timestamps, tuples, emitted.num_rows, emitted_bytes)

    def charge(self, fragment: str, tuples: int, took_us: float, *, is_done: bool = True) -> None:
        """Learn how long a batch took, or a part of it that was not its last."""
        before_us = self._parts_us.pop(fragment, 0.0)
        if is_done:
            self._cost_of(fragment).observe(tuples, before_us + took_us)
        else:
            self._parts_us[fragment] = before_us + took_us
        self._loads[fragment].add(took_us / 1e6, 0, 0, 0, 0, 0)
        if (left := self._left.pop(fragment, None)) is None:
            return
        task, began_us, entered_us = left
        if not task.standby:
            # Results leave at the end of their batch.
            latest_us = began_us + took_us - task.sub_deadline_us
            missed = sum(each < latest_us for each in entered_us)
            self.sdmr.decided(task.name, len(entered_us), missed, began_us)

    def tuples_us(self, fragment: str, tuples: int, took_us: float) -> float:
        """How much of the time of a batch its tuples took, as far as is known."""
        return min(self._cost_of(fragment).per_tuple_us * tuples, took_us)

    def cost(self, fragment: str) -> CostStatus | None:
        """Measured cost of evaluating a fragment; None before the first batch."""
        model = self._costs.get(fragment)
        if model is None or model.samples == 0:
            return None
        return CostStatus(
            fixed_us=model.fixed_us, per_tuple_us=model.per_tuple_us, samples=model.samples
        )

    def load(self, fragment: str, now_us: int) -> ReplicaLoad:
        """The processor time that a fragment has taken lately."""
        rates = self._loads[fragment].read(now_us)
        cores, evaluations_s, timestamps_s, tuples_s, emitted_s, emitted_bytes_s = rates
        return ReplicaLoad(
            cores=cores,
            evaluations_s=evaluations_s,
            timestamps_s=timestamps_s,
            tuples_s=tuples_s,
            emitted_s=emitted_s,
            emitted_bytes_s=emitted_bytes_s,
            window_share=self._loads[fragment].window_share,
        )

    def _primaries(self) -> list[_Task]:
        here = {
            name: hosted.assignment
            for name, hosted in self._replicas.items()
            if hosted.replica.role is ReplicaRole.PRIMARY
        }
        operators: list[TaskOperator] = []
        for name, a in here.items():
            elsewhere = [ms for reader, ms in a.readers_ms.items() if reader not in here]
            operators.append(
                TaskOperator(
                    name=name,
                    inputs=tuple(a.inputs),
                    sub_deadline_ms=a.sub_deadline_ms,
                    deadline_ms=min(a.readers_ms.values(), default=float("inf")),
                    elsewhere_ms=min(elsewhere, default=None),
                )
            )
        # First come first served knows no chains: it goes by the age of tuples.
        chains = self._policy is not Policy.FIFO
        groups = [operators] if chains else [[one] for one in operators]
        return [
            self._task(
                task.operators,
                task.sub_deadline_ms,
                deadline_ms=min(here[task.operators[-1]].readers_ms.values(), default=0.0),
            )
            for group in groups
            for task in extract_tasks(group)
        ]

    def _standbys(self) -> list[_Task]:
        return [
            self._task((name,), hosted.assignment.standby_lag_ms)
            for name, hosted in self._replicas.items()
            if hosted.replica.role is ReplicaRole.STANDBY
        ]

    def _task(
        self,
        operators: tuple[str, ...],
        sub_deadline_ms: float,
        *,
        deadline_ms: float | None = None,
    ) -> _Task:
        """A task of primaries with the least deadline of their results, or of a standby."""
        waits_ms = deadline_ms or sub_deadline_ms
        if deadline_ms is None:
            # While it rests, it is not behind.
            waits_ms *= STANDBY_LAGS[1]
        policy = self._replicas[operators[0]].assignment.batching or self._batching
        here = [self._replicas[name] for name in operators]
        periods = [each.replica.program.shown_at for each in here]
        # Who else reads the results of another operator waits for them at any time.
        alone = all(len(each.assignment.readers_ms) == 1 for each in here[:-1])
        # A standby has a lag, whatever its results show.
        releases = periods[-1] if alone and deadline_ms is not None else None
        period_ms = 0.0
        if releases is not None:
            period_ms = here[-1].assignment.period_ms or releases.period_ms
        period_us = round(period_ms * 1000)
        return _Task(
            name=operators[0],
            operators=operators,
            generations=tuple(self._replicas[name].replica.generation for name in operators),
            time=TaskTime(
                sub_deadline_us=round(sub_deadline_ms * 1000),
                standby=deadline_ms is None,
                standby_lag_us=1000
                * min(self._replicas[name].assignment.standby_lag_ms for name in operators),
            ),
            patience_us=max(round(waits_ms * 1000), BEHIND_US) + period_us,
            policy=self._measured if policy == MEASURED else self._policy_of(policy),
            policy_name=policy,
            releases=releases,
            period_us=period_us,
            importance=max((each.importance for each in periods if each is not None), default=0),
        )

    def _enqueue_or_rest(self, task: _Task, now_us: int) -> None:
        if not self._has_work(task):
            return
        until_us = self._until_us(task)
        if until_us <= now_us or self._has_work(task, after_first=True):
            self._enqueue(task, now_us)
        elif self._resting.get(task.name) != until_us:
            self._resting[task.name] = until_us
            heappush(self._ends, (until_us, task.name))

    def _until_us(self, task: _Task) -> int:
        """Until when a task rests, given its waiting input."""
        if task.releases is not None and task.released_us is not None:
            return 0
        has_tuples = self._replicas[task.name].replica.engine.waiting
        return task.rests_until_us if has_tuples else task.idles_until_us

    def _enqueue(self, task: _Task, now_us: int) -> None:
        self._resting.pop(task.name, None)
        released_us, waits_us = task.released_us, task.sub_deadline_us
        if released_us is None:
            released_us = now_us
            if task.releases is not None:
                # No result waits for it before the next release. It is due from when it came: what
                # is left of a backlog is no younger than what went before.
                released_us = task.entered[0].at_us if task.entered else now_us
                waits_us += task.period_us
        if self._policy is Policy.FIFO:
            released_us = now_us
            # In the order in which tuples entered the system, not this operator: newer tuples must
            # not overtake older ones (deadline placement, §4.1).
            ingestion_time_us = self._replicas[task.name].replica.engine.oldest_ingestion_time_us
            if ingestion_time_us is not None:
                released_us = ingestion_time_us - self._clock.ahead_us
        self._queue.put(
            Instance(
                task=task.name,
                released_us=released_us,
                deadline_us=released_us + waits_us,
                standby=task.standby,
                cost_us=self._pending_us(task),
                importance=task.importance,
            )
        )

    def _look(self, now_us: int) -> None:
        """Take in the processor time that the replicas here have taken lately."""
        self._next_look_us = now_us + GAMMA_US
        tasks = self._tasks.values()
        # Each operator of a chain has a batch of its own.
        self.figures.replicas = len(self._task_of)
        self.figures.look(
            now_us,
            [self._loads[task.name] for task in tasks if task.standby],
            [
                (task.sub_deadline_us, self._once_us(name, now_us))
                for task in tasks
                if not task.standby
                for name in task.operators
            ],
            sum(self._loads[name].read(now_us)[0] for name in self._task_of),
        )

    def _adapt(self, now_us: int) -> None:
        """Have policies adapt to the miss ratios of the last Γ."""
        self._measured.adapt(self.sdmr.host_sdmr(now_us), self.figures)
        for task in self._tasks.values():
            if task.policy is not self._measured:
                task.policy.adapt(self.sdmr.sdmr(task.name, now_us), self.figures)

    def _leave(self, task: _Task) -> list[int]:
        """Note that input has left a task; when those had entered that results waited for."""
        left_ms = self._left_ms(task)
        found: list[int] = []
        while task.entered and task.entered[0].watermark_ms <= left_ms:
            left = task.entered.popleft()
            found += [left.at_us] if left.releases else []
        return found

    def _once_us(self, fragment: str, now_us: int) -> float:
        """Time of one evaluation of a fragment, as measured lately; of one tuple, if never."""
        cores, evaluations_s, *_ = self._loads[fragment].read(now_us)
        return cores / evaluations_s * 1e6 if evaluations_s else self._cost_of(fragment).cost_us(1)

    def _has_work(self, task: _Task, *, after_first: bool = False) -> bool:
        return not self._ready.isdisjoint(task.operators[after_first:])

    def _update_ready(self, fragment: str) -> None:
        if self._replicas[fragment].replica.has_work:
            self._ready.add(fragment)
        else:
            self._ready.discard(fragment)

    def _left_ms(self, task: _Task) -> int:
        """The watermark up to which input has left the task."""
        return self._replicas[task.operators[-1]].replica.log.end.watermark_ms

    def _pending_us(self, task: _Task) -> float:
        """Expected time to evaluate the pending input."""
        return sum(
            self._cost_of(name).cost_us(self._replicas[name].replica.engine.waiting)
            for name in task.operators
            if name in self._ready
        )

    def _tuples(self, fragment: str, left_us: int) -> int:
        """Number of tuples to evaluate in one batch.

        As many as are expected to fill the length of a batch, but enough to be worth its fixed
        cost. A batch's results leave at its end, so a batch that can be in time ends before its
        deadline. Input that is late anyway catches up soonest in the longest batches.
        """
        model = self._cost_of(fragment)
        least_us, most_us = BATCH_US
        length_us = most_us
        if left_us >= 0:
            length_us = max(min(self.batch_length_us, left_us), least_us)
        worthwhile_us = min(WORTHWHILE * model.fixed_us, MOST_WORTHWHILE_US)
        lasts_us = max(length_us - model.fixed_us, worthwhile_us)
        return max(int(lasts_us / max(model.per_tuple_us, LEAST_COST_US)), 1)

    def _cost_of(self, fragment: str) -> CostModel:
        if fragment not in self._costs:
            estimate_us = self._replicas[fragment].assignment.cost_us
            self._costs[fragment] = CostModel(max(estimate_us, LEAST_COST_US))
        return self._costs[fragment]

    def _drop_unused_costs(self) -> None:
        """Drop the costs learnt of replicas that no longer run here."""
        for learnt in (self._costs, self._loads):
            for name in learnt.keys() - self._replicas.keys():
                del learnt[name]

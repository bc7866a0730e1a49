"""Hosts on Spark executors, one per executor, restarted when they end.

Each node's host is a Spark job of its own, with one task that runs as long as the host does. A
single job for all hosts would not do: Spark adds up the failures of a job's tasks and aborts the
job when there are too many, and in barrier mode the first death ends all tasks.

An executor that dies takes its host along and fails that host's job only. Spark starts another
executor, and the pool submits the job again under the same node name, until the pool is stopped.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from orchestrator.records import HostSpec

LEAST_PAUSE_S = 0.1
"""Pause before a lost host is submitted again: Spark needs a moment to notice the loss."""

MOST_PAUSE_S = 5.0
"""Longest pause between submissions of a host that keeps ending."""

SETTLED_S = 30.0
"""A host that ran this long had started well: its end begins a new series of attempts."""

STOP_TIMEOUT_S = 20.0
"""Spark checks every two seconds whether a running task was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """Base of the pool's events; the first submission of a node's host is attempt 1."""

    node: str
    attempt: int


class HostSubmitted(HostEvent):
    """A node's host was submitted to Spark."""


class SessionLost(HostEvent):
    """The Spark application ended: the node's host does not come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLost(HostEvent):
    """The executor of a node's host died, and the host with it."""

    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnded(HostEvent):
    """A host ended but its executor did not; `cause` is None if the host returned."""

    cause: str | None


_spark_errors = (Py4JError, PySparkException, AttributeError, OSError)
"""Errors of Spark's calls; the last two come when the session was stopped or its process died."""

PoolEvent = HostSubmitted | ExecutorLost | HostEnded | SessionLost


class HostsStuck(TimeoutError):
    """Spark did not end some hosts in time."""

    def __init__(self, nodes: Sequence[str], timeout_s: float) -> None:
        super().__init__(
            f"hosts still run {timeout_s:g} s after they were cancelled: {', '.join(nodes)}"
        )
        self.nodes = tuple(nodes)


class HostPool:
    """Runs a host for every node until the pool is stopped.

    Parameters
    ----------
    session
        A Spark session with at least one executor of one core for every node.
    specs
        One for each host; their node names differ.
    run
        The host: called on an executor, in a process of its own, with its spec. It must be
        importable there.
    on_event
        Called with each event on a thread of the pool; must return soon.
    """

    def __init__(
        self,
        session: SparkSession,
        specs: Sequence[HostSpec],
        run: Callable[[HostSpec], None],
        on_event: Callable[[PoolEvent], None],
    ) -> None:
        self._context = session.sparkContext
        self._run = run
        self._on_event = on_event
        self._stopping = threading.Event()
        self._threads = {
            spec.node: InheritableThread(
                target=self._keep, args=(spec,), name=f"host-{spec.node}", daemon=True
            )
            for spec in specs
        }
        if len(self._threads) != len(specs):
            raise ValueError(f"node names repeat: {[spec.node for spec in specs]}")

    def start(self) -> None:
        """Submit every node's host."""
        for thread in self._threads.values():
            thread.start()

    @property
    def is_whole(self) -> bool:
        """Whether each node's thread runs, which submits its host again."""
        return all(thread.is_alive() for thread in self._threads.values())

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End all hosts; when this returns, Spark has ordered all of their processes killed.

        The last one may need a moment more: Spark's daemon, told by a pipe, is who kills it.

        Raises
        ------
        HostsStuck
            Naming the hosts that did not end within `timeout_s`.
        """
        self._stopping.set()
        deadline = time.monotonic() + timeout_s
        running = [node for node, thread in self._threads.items() if thread.ident is not None]
        while running:
            # Repeatedly, because a job may be submitted just after its cancellation.
            for node in running:
                self._cancel(node)
                self._threads[node].join(0.2 / len(running))
            running = [node for node in running if self._runs(node)]
            if running and time.monotonic() > deadline:
                raise HostsStuck(running, timeout_s)

    def _runs(self, node: str) -> bool:
        """Whether a node's thread or task still runs.

        A cancelled job returns at once; its task ends later, when its process is killed.
        """
        if self._threads[node].is_alive():
            return True
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(_group(node))]
            numbers = [number for job in jobs if job for number in job.stageIds]
            stages = [tracker.getStageInfo(number) for number in numbers]
        except _spark_errors:
            return False
        return any(stage.numActiveTasks for stage in stages if stage)

    def _cancel(self, node: str) -> None:
        # On failure the session has ended, and all its jobs with it.
        with suppress(*_spark_errors):
            self._context.cancelJobGroup(_group(node))

    def _keep(self, spec: HostSpec) -> None:
        """Submit one node's host until the pool is stopped."""
        pause_s = LEAST_PAUSE_S
        attempt = 0
        while not self._stopping.is_set():
            attempt += 1
            self._on_event(HostSubmitted(node=spec.node, attempt=attempt))
            began = time.monotonic()
            event = self._submit(spec, attempt)
            if self._stopping.is_set():
                return
            self._on_event(event)
            if isinstance(event, SessionLost):
                return
            if time.monotonic() - began > SETTLED_S:
                pause_s = LEAST_PAUSE_S
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def _submit(self, spec: HostSpec, attempt: int) -> PoolEvent:
        """Run one node's host as a Spark job; the event that ended it."""
        run = self._run

        def host(_partition: Iterable[int]) -> None:
            run(spec)

        context = self._context
        try:
            # Without an interrupt Spark kills the Python process. An interrupted task would end
            # alone and leave the process behind.
            context.setJobGroup(_group(spec.node), f"Host {spec.node}", interruptOnCancel=False)
            context.parallelize([0], 1).foreachPartition(host)
        except _spark_errors as error:
            if self._session_ended():
                return SessionLost(node=spec.node, attempt=attempt)
            message = str(error)
            if "ExecutorLostFailure" in message:
                return ExecutorLost(node=spec.node, attempt=attempt, cause=gist(message))
            return HostEnded(node=spec.node, attempt=attempt, cause=gist(message))
        return HostEnded(node=spec.node, attempt=attempt, cause=None)

    def _session_ended(self) -> bool:
        try:
            # The only public property that a stopped context refuses.
            _ = self._context.defaultParallelism
        except _spark_errors:
            return True
        return False


def _group(node: str) -> str:
    """Spark's name for a node's jobs."""
    return f"vivace-host-{node}"


def gist(message: str) -> str:
    """The line of a Spark failure that names the cause.

    >>> gist("Job aborted, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) "
    ...      "(10.0.0.1 executor 0): ExecutorLostFailure (executor 0 exited)\\nDriver stacktrace:")
    'ExecutorLostFailure (executor 0 exited)'
    """
    head = re.split(r"\n\s*at |\n\s*Driver stacktrace", message, maxsplit=1)[0].strip()
    if "Traceback (most recent call last)" in head:
        # The exception's own line follows the last indented one.
        return re.split(r"\n[ \t]+[^\n]*\n(?=\S)", head)[-1].strip()
    _, found, failure = head.partition("most recent failure: ")
    if not found:
        return head
    return re.sub(r"^Lost task .*?executor [^)]*\): ", "", failure.strip(), count=1)

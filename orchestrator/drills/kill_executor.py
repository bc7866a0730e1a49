"""Drills that fail the executor of a fragment's primary.

`kill-executor`: the whole executor dies at once, its Java process and the host in it, as if its
machine had failed. `kill-python-worker`: only the host dies, as of a bug or for want of memory.
`hang`: the host is stopped for some seconds, and no connection breaks. `kill-driver`: the driver of
its Spark application dies, and all executors of that application with it.

The secondary must then take over, and output must resume within the recovery bound, with no tuple
lost or repeated. Spark must bring the node back, so that the fragment has a secondary again. A host
that hung steps down when it goes on.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import psutil

from foundation.suggestions import nearest
from orchestrator.control.observe.audit_events import RESTORED
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.dataflow import Fragment
from orchestrator.control.observe.read_cache import RARELY_CHANGING, ReadCache
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.embedded.process_faults import STOPPED, NotImposed, imposed
from orchestrator.embedded.spark_processes import kill_driver
from orchestrator.embedded.spark_processes import kill_executor as sigkill
from orchestrator.errors import InvalidInput, Refused, VivaceError
from orchestrator.progress import Progress
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import Store
from streams.language import parse
from streams.plan.compiler import compile_statement

NAME = "kill-executor"

HANG_S = 5.0

HEAL_TIMEOUT_S = 480.0
"""How long a takeover, and then healing, may take: Spark starts another executor in about ten
seconds, and an application in more, but on a busy machine both take minutes."""

PROTECTED_TIMEOUT_S = 20.0
"""How long a drill waits for a secondary that is warming up, before it is refused."""

LOOK_S = 0.1


class DrillFailed(VivaceError):
    """The drill could not be carried out, or the cluster did not recover."""

    exit_status = 1


class Inapplicable(VivaceError):
    """A drill does not fit the cluster."""

    def __init__(self, drill: str, why: str) -> None:
        super().__init__(f"drill {drill} does not fit: {why}")
        self.why = why


class Unprotected(Refused):
    """The executor to be killed runs a primary without a warm secondary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How an executor fails.

    Attributes
    ----------
    strike
        Carries it out on the host's process, and returns when the fault is over.
    ends_host
        Whether the node comes back with another host.
    whole_domain
        Whether all nodes of its failure domain fail with it.
    """

    name: str
    what: str
    strike: Callable[[int], object]
    ends_host: bool = True
    whole_domain: bool = False

    def unfit(self, view: ClusterView) -> str | None:
        """Why the drill does not fit a cluster; None if it does."""
        domains = {node.domain for node in view.executors.values()}
        if self.whole_domain and len(domains) < 2:
            return "the cluster has one Spark application (`applications: 2` gives it a second)"
        return None

    def struck(self, view: ClusterView, node: str) -> tuple[str, ...]:
        """The nodes that fail if it strikes one."""
        nodes = view.executors
        if not self.whole_domain:
            return (node,)
        return tuple(n for n in sorted(nodes) if nodes[n].domain == nodes[node].domain)


def _kill_host(host_pid: int) -> None:
    os.kill(host_pid, signal.SIGKILL)


def _hang(host_pid: int) -> None:
    with imposed(STOPPED, [psutil.Process(host_pid)], HANG_S):
        time.sleep(HANG_S)


KILL_EXECUTOR = Way(
    name=NAME, what="SIGKILL to the executor that runs a fragment's primary", strike=sigkill
)

WAYS: Mapping[str, Way] = {
    way.name: way
    for way in (
        KILL_EXECUTOR,
        Way(
            name="kill-python-worker",
            what="SIGKILL to the host in the executor of a fragment's primary",
            strike=_kill_host,
        ),
        Way(
            name="hang",
            what=f"the host of a fragment's primary is stopped for {HANG_S:g} s (SIGSTOP)",
            strike=_hang,
            ends_host=False,
        ),
        Way(
            name="kill-driver",
            what="SIGKILL to the Spark driver of a fragment's primary; its executors end with it",
            strike=kill_driver,
            whole_domain=True,
        ),
    )
}
"""Name → drill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The executor to be killed.

    Attributes
    ----------
    hosts
        Node → incarnation of each host that fails with it, itself among them.
    fragments
        Those whose primary runs on one of these nodes, `<query>.<fragment>`.
    bound_ms
        The tightest recovery bound among their queries.
    """

    node: str
    hosts: Mapping[str, str]
    host_pid: int
    fragments: tuple[str, ...]
    bound_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A kill, and its consequences as the store records them.

    Attributes
    ----------
    killed_us, detected_us, restored_us
        Cluster clock: the kill; when the last of the secondaries noticed; when every fragment had
        a warm secondary and the node a new host.
    causes
        How each secondary noticed.
    unprotected_s
        The longest time that a fragment had no warm secondary because of the kill; None if the
        history tells of none.
    by_and_by
        Whether the hosts ended some time after the kill, each at another moment.
    """

    target: Target
    killed_us: int
    detected_us: int
    causes: tuple[str, ...]
    restored_us: int
    unprotected_s: float | None = None
    by_and_by: bool = False

    @staticmethod
    def recorded(target: Target, killed_us: int, restored_us: int, view: ClusterView) -> Killed:
        """A kill whose takeovers the view holds."""
        found = [view.fragments[name].record.took_over for name in target.fragments]
        takeovers = [takeover for takeover in found if takeover is not None]
        return Killed(
            target=target,
            killed_us=killed_us,
            detected_us=max((t.detected_at_us for t in takeovers), default=killed_us),
            causes=tuple(t.cause for t in takeovers),
            restored_us=restored_us,
        )

    @property
    def detection_ms(self) -> float:
        """From the kill until the slowest secondary noticed."""
        return (self.detected_us - self.killed_us) / 1000

    @property
    def redundancy_restored_s(self) -> float:
        """From the kill until everything was protected again."""
        return (self.restored_us - self.killed_us) / 1e6


def choose(view: ClusterView, target: str | None, way: Way = KILL_EXECUTOR) -> Target:
    """The executor to kill: a node, or the node of a fragment's primary; by default of a join's.

    Raises
    ------
    InvalidInput
        There is no such target.
    Refused
        A primary that fails has no warm secondary elsewhere: killing it would lose state, which no
        drill is meant to do.
    """
    node = target if target in view.executors else _node_of_primary(view, target)
    if node not in view.executors:
        if target is None:
            raise InvalidInput(
                f"drill {way.name}", "", None, "no fragment runs here", "Apply a query first."
            )
        names = [found.record.fragment for found in view.fragments.values()]
        raise InvalidInput(
            "command line", "--target", target, "is neither a running fragment nor a node",
            nearest(target, [*names, *view.executors]),
        )  # fmt: skip
    nodes = way.struck(view, node)
    fragments = {n: f.record for n, f in view.fragments.items() if f.record.primary.node in nodes}
    for name, fragment in fragments.items():
        if not view.protected(fragment) or _falls_with(fragment, nodes):
            raise Unprotected(
                f"drill {way.name}", "--target", node,
                f"would end {name}, which has no warm secondary elsewhere",
                "Wait until `vivace status` shows it protected.", {},
            )  # fmt: skip
    bounds = [view.query_records[f.query].recovery_bound_ms for f in fragments.values()]
    return Target(
        node=node,
        hosts={each: view.nodes[each].record.incarnation for each in nodes},
        host_pid=view.nodes[node].record.pid,
        fragments=tuple(fragments),
        bound_ms=min(bounds, default=float("inf")),
    )


def _falls_with(fragment: FragmentRecord, nodes: Collection[str]) -> bool:
    """Whether all replicas of a fragment lie on some nodes."""
    return all(replica.node in nodes for replica in fragment.replicas)


def choose_protected(
    store: Store, target: str | None, on_progress: Progress, way: Way = KILL_EXECUTOR
) -> Target:
    """As `choose`, but wait a while for a secondary that is warming up."""
    give_up = time.monotonic() + PROTECTED_TIMEOUT_S
    while True:
        try:
            return choose(read_view(store), target, way)
        except Unprotected:
            if time.monotonic() > give_up:
                raise
            on_progress("wait", "until every fragment concerned has a warm secondary")
            time.sleep(LOOK_S)


def _node_of_primary(view: ClusterView, target: str | None) -> str:
    """Node of a named fragment's primary, or by default of a join's; empty if there is none."""
    if target is not None:
        named = [name for name, f in view.fragments.items() if target in (name, f.record.fragment)]
    else:
        joining = {f.key for f in view.dataflow.fragments.values() if _joins(f)}
        joins = [name for name in view.fragments if name in joining]
        named = joins or list(view.fragments)
    return view.fragments[named[0]].record.primary.node if named else ""


def _joins(fragment: Fragment) -> bool:
    """Whether a fragment contains a join."""
    (statement,) = parse(fragment.statement)
    return compile_statement(statement, fragment.inputs).joins


def run(
    store: Store, target: str | None, on_progress: Progress, way: Way = KILL_EXECUTOR
) -> Killed:
    """Choose an executor and kill it; see `choose` and `kill`."""
    return kill(store, choose_protected(store, target, on_progress, way), on_progress, way)


def kill(store: Store, chosen: Target, on_progress: Progress, way: Way) -> Killed:
    """Kill an executor and wait until everything is protected again.

    Raises
    ------
    DrillFailed
        If nobody takes over, or redundancy is not restored in time.
    """
    on_progress(
        "kill", f"{', '.join(chosen.hosts)}, primary of {', '.join(chosen.fragments) or 'nothing'}"
    )
    clocks = read_view(store).cluster_clocks
    killed_us = cluster_now_us(clocks)
    try:
        way.strike(chosen.host_pid)
    except (psutil.Error, ProcessLookupError, NotImposed) as error:
        raise DrillFailed(f"drill {way.name} could not strike: {error}") from error
    view = _await(
        store,
        lambda v: [name for name in chosen.fragments if not _taken_over(v, name, chosen)],
        f"no secondary has taken over from {chosen.node}",
    )
    survivors = {view.fragments[name].record.primary.node for name in chosen.fragments}
    on_progress("took over", ", ".join(sorted(survivors)))
    _await(
        store,
        lambda v: _amiss(v, chosen, way),
        f"redundancy is not restored after the loss of {', '.join(chosen.hosts)}",
    )
    killed = Killed.recorded(chosen, killed_us, cluster_now_us(clocks), view)
    unprotected = unprotected_s(store, killed_us)
    killed = replace(killed, unprotected_s=unprotected, by_and_by=way.whole_domain)
    on_progress("restored", f"after {killed.redundancy_restored_s:.1f} s")
    if killed.unprotected_s is not None:
        detail = "no fragment was without a warm secondary for more than "
        on_progress("protected", f"{detail}{killed.unprotected_s:.2f} s")
    return killed


def unprotected_s(store: Store, since_us: int) -> float | None:
    """The longest time without a warm secondary that has ended since a moment, s."""
    events = [entry.event for entry in store.history() if entry.event.at_us >= since_us]
    lasted_ms = [e.lasted_ms for e in events if e.kind == RESTORED and e.lasted_ms is not None]
    return max(lasted_ms) / 1e3 if lasted_ms else None


def _taken_over(view: ClusterView, name: str, target: Target) -> bool:
    found = view.fragments.get(name)
    return found is not None and found.record.primary.incarnation not in target.hosts.values()


def _amiss(view: ClusterView, target: Target, way: Way) -> list[str]:
    """What is missing until everything is as before."""
    back = {node: view.nodes[node].record for node in target.hosts if node in view.nodes}
    missing = [f"{node} is not back" for node in target.hosts if node not in back]
    if way.ends_host:
        missing += [
            f"{node} has not been replaced"
            for node, record in back.items()
            if record.incarnation == target.hosts[node]
        ]
    missing += [f"{name} is not protected" for name in view.unprotected]
    if not view.fragments:
        missing.append("nothing is placed")
    if way.whole_domain and not apart(view):
        missing.append("a fragment has both replicas in one failure domain")
    return missing


def apart(view: ClusterView) -> bool:
    """Whether no fragment has both replicas in one failure domain."""
    domains = {name: node.domain for name, node in view.executors.items()}
    return all(
        len({domains.get(replica.node, "") for replica in found.record.replicas[:2]}) == 2
        for found in view.fragments.values()
    )


def _await(
    store: Store, amiss: Callable[[ClusterView], Sequence[str]], otherwise: str
) -> ClusterView:
    """Wait until nothing is amiss any more."""
    give_up = time.monotonic() + HEAL_TIMEOUT_S
    with closing(ReadCache(store, RARELY_CHANGING)) as reader:
        while missing := amiss(view := read_view(reader)):
            if time.monotonic() > give_up:
                raise DrillFailed(
                    f"{otherwise} within {HEAL_TIMEOUT_S:.0f} s: {', '.join(missing)}"
                )
            time.sleep(LOOK_S)
    return view

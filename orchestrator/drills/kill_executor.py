"""Drills that fail the executor of a fragment's primary: which one, and what follows.

The secondary must then take over, and output must resume within the recovery bound, with no tuple
lost or repeated. Spark must bring the node back, so that the fragment has a secondary again. A host
that hung steps down when it goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from foundation.suggestions import nearest
from orchestrator.control.observe.audit_events import RESTORED
from orchestrator.control.observe.dataflow import Fragment
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.acting import LOOK_S, Acting, wait_for_view
from orchestrator.drills.drill import Drill
from orchestrator.drills.hands import REAL, Hands
from orchestrator.errors import InvalidInput, Refused
from orchestrator.progress import Progress
from orchestrator.records import FragmentRecord
from orchestrator.store.protocol import Store
from streams.language import parse
from streams.plan.compiler import compile_statement

PROTECTED_TIMEOUT_S = 20.0
"""How long a drill waits for a secondary that is warming up, before it is refused."""


class Unprotected(Refused):
    """The executor to be killed runs a primary without a warm secondary."""


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


def choose(view: ClusterView, target: str | None, drill: Drill) -> Target:
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
                f"drill {drill.name}", "", None, "no fragment runs here", "Apply a query first."
            )
        names = [found.record.fragment for found in view.fragments.values()]
        raise InvalidInput(
            "", "target", target, "is neither a running fragment nor a node",
            nearest(target, [*names, *view.executors]),
        )  # fmt: skip
    nodes = drill.struck(view, node)
    fragments = {n: f.record for n, f in view.fragments.items() if f.record.primary.node in nodes}
    for name, fragment in fragments.items():
        if not view.protected(fragment) or _falls_with(fragment, nodes):
            raise Unprotected(
                f"drill {drill.name}", "--target", node,
                f"would end {name}, which has no warm secondary elsewhere",
                "Wait until `vivace status` shows it protected.", {},
            )  # fmt: skip
    bounds = [view.query_records[f.query].recovery_bound_ms for f in fragments.values()]
    return Target(
        node=node,
        hosts={each: view.nodes[each].record.incarnation for each in nodes},
        fragments=tuple(fragments),
        bound_ms=min(bounds, default=float("inf")),
    )


def _falls_with(fragment: FragmentRecord, nodes: Collection[str]) -> bool:
    """Whether all replicas of a fragment lie on some nodes."""
    return all(replica.node in nodes for replica in fragment.replicas)


def choose_protected(
    store: Store, target: str | None, on_progress: Progress, drill: Drill, hands: Hands = REAL
) -> Target:
    """As `choose`, but wait a while for a secondary that is warming up."""
    waited_s = 0.0
    while True:
        try:
            return choose(read_view(store), target, drill)
        except Unprotected:
            if waited_s > PROTECTED_TIMEOUT_S:
                raise
            on_progress("wait", "until every fragment concerned has a warm secondary")
            hands.rest(LOOK_S)
            waited_s += LOOK_S


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


def fail(drill: Drill, acting: Acting) -> Killed:
    """Fail an executor, and wait until everything is protected again.

    Raises
    ------
    DrillFailed
        If nobody takes over, or redundancy is not restored in time.
    """
    chosen = choose(acting.view, acting.node, drill)
    names, told = ", ".join(chosen.hosts), acting.on_progress
    told("kill", f"{names}, primary of {', '.join(chosen.fragments) or 'nothing'}")
    struck = drill.strike(acting)
    killed_us = acting.now_us if struck is None else struck.at_us
    view = wait_for_view(
        acting,
        lambda v: [name for name in chosen.fragments if not _taken_over(v, name, chosen)],
        f"no secondary has taken over from {chosen.node}",
    )
    survivors = {view.fragments[name].record.primary.node for name in chosen.fragments}
    told("took over", ", ".join(sorted(survivors)))
    wait_for_view(
        acting,
        lambda v: _amiss(v, chosen, drill),
        f"redundancy is not restored after the loss of {names}",
    )
    killed = Killed.recorded(chosen, killed_us, acting.now_us, view)
    unprotected = unprotected_s(acting.store, killed_us)
    killed = replace(killed, unprotected_s=unprotected, by_and_by=drill.whole_domain)
    told("restored", f"after {killed.redundancy_restored_s:.1f} s")
    if killed.unprotected_s is not None:
        detail = "no fragment was without a warm secondary for more than "
        told("protected", f"{detail}{killed.unprotected_s:.2f} s")
    return killed


def unprotected_s(store: Store, since_us: int) -> float | None:
    """The longest time without a warm secondary that has ended since a moment, s."""
    events = [entry.event for entry in store.history() if entry.event.at_us >= since_us]
    lasted_ms = [e.lasted_ms for e in events if e.kind == RESTORED and e.lasted_ms is not None]
    return max(lasted_ms) / 1e3 if lasted_ms else None


def _taken_over(view: ClusterView, name: str, target: Target) -> bool:
    found = view.fragments.get(name)
    return found is not None and found.record.primary.incarnation not in target.hosts.values()


def _amiss(view: ClusterView, target: Target, drill: Drill) -> list[str]:
    """What is missing until everything is as before."""
    back = {node: view.nodes[node].record for node in target.hosts if node in view.nodes}
    missing = [f"{node} is not back" for node in target.hosts if node not in back]
    if drill.ends_host:
        missing += [
            f"{node} has not been replaced"
            for node, record in back.items()
            if record.incarnation == target.hosts[node]
        ]
    missing += [f"{name} is not protected" for name in view.unprotected]
    if not view.fragments:
        missing.append("nothing is placed")
    if drill.whole_domain and not apart(view):
        missing.append("a fragment has both replicas in one application")
    return missing


def apart(view: ClusterView) -> bool:
    """Whether no fragment has both replicas in one Spark application."""
    owners = {name: node.labels.application for name, node in view.executors.items()}
    return all(
        len({owners.get(replica.node, "") for replica in found.record.replicas[:2]}) == 2
        for found in view.fragments.values()
    )

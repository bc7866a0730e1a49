"""The drill `kill-executor`: SIGKILL to the executor that runs a fragment's primary.

The whole executor dies at once, its Java process and the host in it, as if its machine had. Then
the secondary must take over, output must resume within the recovery bound with nothing lost and
nothing twice, and Spark must bring the node back so that the fragment has a secondary again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.clock import now_us
from orchestrator.control.dataflow import Fragment
from orchestrator.control.view import ClusterView, read_view
from orchestrator.errors import Refused, VivaceError
from orchestrator.progress import Progress
from orchestrator.records import FragmentRecord
from orchestrator.spark.hosts.executors import kill_executor as sigkill
from orchestrator.store.protocol import Store
from streams.compiler import compile_statement
from streams.language import parse

NAME = "kill-executor"

HEAL_TIMEOUT_S = 90.0
"""For Spark to start another executor (about ten seconds) on a busy machine."""

PROTECTED_TIMEOUT_S = 20.0
"""For a secondary that is being brought up to become warm, before a drill is refused."""

LOOK_S = 0.1


class DrillFailed(VivaceError):
    """The drill could not be carried out, or the cluster did not recover."""

    exit_status = 1


class Unprotected(Refused):
    """What is to be killed bears a primary without a warm secondary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is killed.

    Attributes
    ----------
    fragments
        Those whose primary runs on the node, `<query>.<fragment>`.
    bound_ms
        The tightest recovery bound among their queries.
    """

    node: str
    incarnation: str
    host_pid: int
    fragments: tuple[str, ...]
    bound_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """What was done and what the store says of its consequences.

    Attributes
    ----------
    detected_us
        When the last of the secondaries noticed.
    restored_us
        When every fragment had a warm secondary and the node a new host; cluster clock.
    """

    target: Target
    killed_us: int
    detected_us: int
    causes: tuple[str, ...]
    restored_us: int

    @property
    def detection_ms(self) -> float:
        """From the kill until the slowest secondary noticed."""
        return (self.detected_us - self.killed_us) / 1000

    @property
    def redundancy_restored_s(self) -> float:
        """From the kill until everything was protected again."""
        return (self.restored_us - self.killed_us) / 1e6


def choose(view: ClusterView, target: str | None) -> Target:
    """The executor to kill: a node, or the node of a fragment's primary; by default of a join's.

    Raises
    ------
    Refused
        If there is no such thing, or something on the node has no warm secondary: killing it
        would lose state, which is not what a drill is for.
    """
    chosen = _record(view, target)
    node = target if target in view.executors else chosen.primary.node if chosen else None
    if node is None or node not in view.executors:
        known = ", ".join([*sorted(view.fragments), *sorted(view.executors)]) or "nothing"
        raise Refused(
            subject=f"drill {NAME}",
            field="target",
            value=target,
            problem="is neither a running fragment nor a node",
            remedy=f"There is: {known}.",
            figures={},
        )
    record = view.nodes[node].record
    fragments = {n: f.record for n, f in view.fragments.items() if f.record.primary.node == node}
    for name, fragment in fragments.items():
        if not view.protected(fragment):
            raise Unprotected(
                subject=f"drill {NAME}",
                field="target",
                value=node,
                problem=f"would end {name}, which has no warm secondary",
                remedy="Wait until `vivace status` shows it protected.",
                figures={},
            )
    bounds = [view.query_records[f.query].recovery_bound_ms for f in fragments.values()]
    return Target(
        node=node,
        incarnation=record.incarnation,
        host_pid=record.pid,
        fragments=tuple(fragments),
        bound_ms=min(bounds, default=float("inf")),
    )


def choose_protected(store: Store, target: str | None, on_progress: Progress) -> Target:
    """As `choose`, but wait a while for a warm secondary that is on its way."""
    give_up = time.monotonic() + PROTECTED_TIMEOUT_S
    while True:
        try:
            return choose(read_view(store), target)
        except Unprotected:
            if time.monotonic() > give_up:
                raise
            on_progress("wait", "until every fragment concerned has a warm secondary")
            time.sleep(LOOK_S)


def _record(view: ClusterView, target: str | None) -> FragmentRecord | None:
    if target is not None:
        named = [
            found.record
            for name, found in view.fragments.items()
            if target in (name, found.record.fragment)
        ]
        return named[0] if named else None
    joining = {f.key for f in view.dataflow.fragments.values() if _joins(f)}
    joins = [name for name in view.fragments if name in joining]
    names = joins or list(view.fragments)
    return view.fragments[names[0]].record if names else None


def _joins(fragment: Fragment) -> bool:
    """Whether a fragment contains a join."""
    (statement,) = parse(fragment.statement)
    return compile_statement(statement, fragment.inputs).joins


def run(store: Store, target: str | None, on_progress: Progress) -> Killed:
    """Kill an executor and wait until everything is protected again.

    Raises
    ------
    Refused
        See `choose`.
    DrillFailed
        If nobody takes over, or redundancy is not restored in time.
    """
    chosen = choose_protected(store, target, on_progress)
    on_progress("kill", f"{chosen.node}, primary of {', '.join(chosen.fragments) or 'nothing'}")
    killed_us = now_us()
    sigkill(chosen.host_pid)
    view = _await(
        store,
        lambda v: all(_taken_over(v, name, chosen) for name in chosen.fragments),
        f"no secondary has taken over from {chosen.node}",
    )
    takeovers = [view.fragments[name].record.took_over for name in chosen.fragments]
    detected = [t.detected_at_us for t in takeovers if t is not None]
    on_progress(
        "took over",
        ", ".join(sorted({view.fragments[n].record.primary.node for n in chosen.fragments})),
    )
    _await(
        store,
        lambda v: _restored(v, chosen),
        f"redundancy is not restored after the loss of {chosen.node}",
    )
    restored_us = now_us()
    on_progress("restored", f"after {(restored_us - killed_us) / 1e6:.1f} s")
    return Killed(
        target=chosen,
        killed_us=killed_us,
        detected_us=max(detected, default=killed_us),
        causes=tuple(t.cause for t in takeovers if t is not None),
        restored_us=restored_us,
    )


def _taken_over(view: ClusterView, name: str, target: Target) -> bool:
    found = view.fragments.get(name)
    return found is not None and found.record.primary.incarnation != target.incarnation


def _restored(view: ClusterView, target: Target) -> bool:
    back = view.nodes.get(target.node)
    return (
        back is not None
        and back.record.incarnation != target.incarnation
        and bool(view.fragments)
        and all(view.protected(found.record) for found in view.fragments.values())
    )


def _await(store: Store, condition: Callable[[ClusterView], bool], otherwise: str) -> ClusterView:
    give_up = time.monotonic() + HEAL_TIMEOUT_S
    while not condition(view := read_view(store)):
        if time.monotonic() > give_up:
            raise DrillFailed(f"{otherwise} within {HEAL_TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)
    return view

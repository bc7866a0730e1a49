"""Drills of coordinators and of what is done on purpose: moves, drains, restarts of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from orchestrator.control.observe.view import read_view
from orchestrator.drills.acting import (
    LOOK_S,
    Acting,
    Disturbed,
    DrillFailed,
    DrillStrike,
    await_flow,
    await_moves,
    await_restored,
    await_successor,
    reached_ms,
    wait_for,
)
from orchestrator.drills.blast import primary_on
from orchestrator.drills.hands import Process
from orchestrator.drills.striking import end_coordinator, end_host
from orchestrator.errors import Refused
from orchestrator.records import StrikeKind
from orchestrator.store.protocol import CANDIDATES, LEADER

DRAIN_PATIENCE_S = 30.0
"""How long a rolling restart tries to drain a node: what stands in the way may pass, such as the
load of the processes that the restart before has started."""


def kill_coordinator(acting: Acting) -> DrillStrike:
    """Kill the leader, and wait for the next one."""
    candidate = _leader(acting)
    at_us = end_coordinator(acting, candidate, StrikeKind.KILL)
    wait_for(acting, lambda: _leads(acting) not in (None, candidate), "no other coordinator leads")
    return DrillStrike(at_us=at_us)


def kill_leader_during_plan(acting: Acting) -> None:
    """Kill the leader as soon as it has begun a switchover; the next one must end it."""
    fragment = _fragment(acting)
    candidate = _leader(acting)
    name = acting.moves.switch(fragment)

    def begun() -> bool:
        plan = read_view(acting.store).moves[name].record
        return any(step.begun_us is not None for step in plan.steps)

    wait_for(acting, begun, f"the switchover of {fragment} is not begun")
    end_coordinator(acting, candidate, StrikeKind.KILL)

    def settled() -> bool:
        view = read_view(acting.store)
        plan = view.moves.get(name)
        return (plan is None or plan.record.ended_us is not None) and view.settled(
            view.fragments[fragment].record
        )

    wait_for(acting, settled, f"the next coordinator has not ended the switchover of {fragment}")
    await_moves(acting, acting.moves.switch(fragment))


def switch_over(acting: Acting) -> None:
    """Have a fragment's replicas change roles twice."""
    fragment = _fragment(acting)
    for _ in range(2):
        await_moves(acting, acting.moves.switch(fragment))
        await_restored(acting)


def drain_and_kill(acting: Acting) -> None:
    """Drain a node, kill its executor, and let the node be used again."""
    try:
        await_moves(acting, acting.moves.drain(acting.node))
        if left := _replicas_on(acting):
            raise DrillFailed(f"{acting.node} was drained and still has {', '.join(left)}")
        end_host(acting, StrikeKind.KILL_EXECUTOR)
        await_successor(acting, acting.node)
    finally:
        acting.moves.uncordon(acting.node)


def rolling_restart(acting: Acting) -> DrillStrike:
    """End every process of the cluster but its supervisors, one after the other.

    As a careful operator would, it waits after each until all is protected and outputs flow.
    """
    begun_us, found = acting.now_us, list[Disturbed]()
    for what, restart, sources in _restarts(acting):
        if acting.breach.is_set():
            break
        acting.on_progress("restart", what)
        struck_us, before_ms = acting.now_us, reached_ms(acting)
        undrained = restart()
        over_us = acting.now_us
        await_restored(acting)
        await_flow(acting, before_ms)
        found.append(
            Disturbed(
                struck_us=struck_us,
                over_us=over_us,
                restored_us=acting.now_us,
                ended_sources=sources,
                remarks=() if undrained is None else (undrained,),
            )
        )
    return DrillStrike(at_us=begun_us, steps=tuple(found))


def restart_server(acting: Acting, server: Process, end: Callable[[], None]) -> None:
    """End a ZooKeeper server, and wait until the cluster has as many again."""
    count = len(acting.hands.servers(acting.cluster_pid))
    end()

    def is_back() -> bool:
        now = acting.hands.servers(acting.cluster_pid)
        return len(now) == count and server not in now

    wait_for(acting, is_back, "ZooKeeper was not started again")


def _restarts(acting: Acting) -> Iterator[tuple[str, Callable[[], str | None], bool]]:
    """What is restarted, how, and whether streams have no source meanwhile.

    How returns a remark if it was not done as planned.
    """
    for name in _candidates(acting):
        yield "a coordinator", lambda name=name: _restart_coordinator(acting, name), False
    for server in acting.hands.servers(acting.cluster_pid):
        yield "ZooKeeper", lambda each=server: restart_server(acting, each, each.terminate), False
    for node in sorted(acting.view.executors):
        yield f"node {node}", lambda node=node: restart_node(acting.at(node)), False
    for site in sorted(acting.view.hosts.keys() - acting.view.executors.keys()):
        sources = bool(acting.view.nodes[site].record.sources)
        yield f"site {site}", lambda site=site: _restart_site(acting.at(site)), sources


def _candidates(acting: Acting) -> Sequence[str]:
    """The coordinators, the oldest first."""
    found = acting.store.list(CANDIDATES).records
    return sorted(found, key=lambda name: found[name].created)


def _restart_coordinator(acting: Acting, name: str) -> None:
    count = len(_candidates(acting))

    def is_back() -> bool:
        now = _candidates(acting)
        return len(now) == count and name not in now

    end_coordinator(acting, name, StrikeKind.END)
    wait_for(acting, is_back, "the coordinator was not started again")
    wait_for(acting, lambda: _leads(acting) is not None, "no coordinator leads")


def restart_node(acting: Acting) -> str | None:
    """Drain a node if its replicas may go elsewhere, and have its executor replaced."""
    try:
        if (refused := _drained(acting)) is not None:
            await_restored(acting)
        end_host(acting, StrikeKind.KILL_EXECUTOR)
        await_successor(acting, acting.node)
    finally:
        acting.moves.uncordon(acting.node)
    return refused


def _drained(acting: Acting) -> str | None:
    """Drain a node as soon as that is not refused; after a while, why it was not done."""
    give_up_us = acting.now_us + round(DRAIN_PATIENCE_S * 1e6)
    while True:
        try:
            plan = acting.moves.drain(acting.node)
        except Refused as refused:
            if acting.now_us >= give_up_us:
                return f"{acting.node} was not drained: {refused}"
            acting.on_progress("wait", f"until {acting.node} can be drained: {refused}")
            acting.hands.rest(LOOK_S)
        else:
            await_moves(acting, plan)
            return None


def _restart_site(acting: Acting) -> None:
    end_host(acting, StrikeKind.END)
    await_successor(acting, acting.node, with_drivers=True)


def _leads(acting: Acting) -> str | None:
    found = acting.store.get(LEADER)
    return None if found is None else found.record.candidate


def _leader(acting: Acting) -> str:
    if (candidate := _leads(acting)) is None:
        raise DrillFailed("no coordinator leads")
    return candidate


def _fragment(acting: Acting) -> str:
    """A fragment whose primary runs on the node."""
    fragment = primary_on(acting.view, acting.node)
    if fragment is None:
        raise DrillFailed(f"{acting.node} runs no primary")
    return fragment


def _replicas_on(acting: Acting) -> list[str]:
    return [
        name
        for name, found in sorted(read_view(acting.store).fragments.items())
        if acting.node in [replica.node for replica in found.record.replicas]
    ]

"""Drills of coordinators and of what is done on purpose: moves, drains, restarts of everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from orchestrator.control.observe.view import read_view
from orchestrator.drills.acting import (
    Acting,
    Disturbed,
    await_flow,
    await_restored,
    await_successor,
    reached_ms,
    wait_for,
)
from orchestrator.drills.blast import primary_on
from orchestrator.drills.hands import Process
from orchestrator.drills.kill_executor import LOOK_S, DrillFailed
from orchestrator.errors import Refused
from orchestrator.store.protocol import LEADER

DRAIN_PATIENCE_S = 30.0
"""How long a rolling restart tries to drain a node: what stands in the way may pass, such as the
load of the processes that the restart before has started."""


def kill_coordinator(acting: Acting) -> None:
    """Kill the leader, and wait for the next one."""
    candidate = _leader(acting)
    acting.hands.kill_coordinator(acting.cluster_pid, candidate)
    wait_for(acting, lambda: _leads(acting) not in (None, candidate), "no other coordinator leads")


def kill_leader_during_plan(acting: Acting) -> None:
    """Kill the leader as soon as it has begun a switchover; the next one must end it."""
    fragment = _fragment(acting)
    candidate = _leader(acting)
    name = acting.mover.switch(fragment, wait=False)

    def begun() -> bool:
        plan = read_view(acting.store).moves[name].record
        return any(step.begun_us is not None for step in plan.steps)

    wait_for(acting, begun, f"the switchover of {fragment} is not begun")
    acting.hands.kill_coordinator(acting.cluster_pid, candidate)

    def settled() -> bool:
        view = read_view(acting.store)
        plan = view.moves.get(name)
        return (plan is None or plan.record.ended_us is not None) and view.settled(
            view.fragments[fragment].record
        )

    wait_for(acting, settled, f"the next coordinator has not ended the switchover of {fragment}")
    acting.mover.switch(fragment)


def switch_over(acting: Acting) -> None:
    """Have a fragment's replicas change roles twice."""
    fragment = _fragment(acting)
    for _ in range(2):
        acting.mover.switch(fragment)
        await_restored(acting)


def drain_and_kill(acting: Acting) -> None:
    """Drain a node, kill its executor, and let the node be used again."""
    try:
        acting.mover.drain(acting.node)
        if left := _replicas_on(acting):
            raise DrillFailed(f"{acting.node} was drained and still has {', '.join(left)}")
        acting.hands.kill_executor(acting.view, acting.node)
        await_successor(acting, acting.node)
    finally:
        acting.mover.uncordon(acting.node)


def rolling_restart(acting: Acting) -> Sequence[Disturbed]:
    """End every process of the cluster but its supervisors, one after the other.

    As a careful operator would, it waits after each until all is protected and outputs flow.
    """
    found: list[Disturbed] = []
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
    return found


def restart_server(acting: Acting, server: Process, end: Callable[[], None]) -> None:
    """End a ZooKeeper server, and wait until the cluster has as many again."""
    _restart(acting, server, end, acting.hands.servers, "ZooKeeper was not started again")


def _restart(
    acting: Acting,
    process: Process,
    end: Callable[[], None],
    of_kind: Callable[[int], Sequence[Process]],
    otherwise: str,
) -> None:
    count = len(of_kind(acting.cluster_pid))
    end()

    def is_back() -> bool:
        now = of_kind(acting.cluster_pid)
        return len(now) == count and process not in now

    wait_for(acting, is_back, otherwise)


def _restarts(acting: Acting) -> Iterator[tuple[str, Callable[[], str | None], bool]]:
    """What is restarted, how, and whether streams have no source meanwhile.

    How returns a remark if it was not done as planned.
    """
    pid = acting.cluster_pid
    for coordinator in acting.hands.coordinators(pid):
        yield "a coordinator", lambda each=coordinator: _restart_coordinator(acting, each), False
    for server in acting.hands.servers(pid):
        yield "ZooKeeper", lambda each=server: restart_server(acting, each, each.terminate), False
    for node in sorted(acting.view.executors):
        yield f"node {node}", lambda node=node: restart_node(acting.at(node)), False
    for site in sorted(acting.view.hosts.keys() - acting.view.executors.keys()):
        sources = bool(acting.view.nodes[site].record.sources)
        yield f"site {site}", lambda site=site: _restart_site(acting.at(site)), sources


def _restart_coordinator(acting: Acting, coordinator: Process) -> None:
    otherwise = "the coordinator was not started again"
    _restart(acting, coordinator, coordinator.terminate, acting.hands.coordinators, otherwise)
    wait_for(acting, lambda: _leads(acting) is not None, "no coordinator leads")


def restart_node(acting: Acting) -> str | None:
    """Drain a node if its replicas may go elsewhere, and have its executor replaced."""
    try:
        if (refused := _drained(acting)) is not None:
            await_restored(acting)
        acting.hands.kill_executor(acting.view, acting.node)
        await_successor(acting, acting.node)
    finally:
        acting.mover.uncordon(acting.node)
    return refused


def _drained(acting: Acting) -> str | None:
    """Drain a node as soon as that is not refused; after a while, why it was not done."""
    give_up_us = acting.now_us + round(DRAIN_PATIENCE_S * 1e6)
    while True:
        try:
            acting.mover.drain(acting.node)
        except Refused as refused:
            if acting.now_us >= give_up_us:
                return f"{acting.node} was not drained: {refused}"
            acting.on_progress("wait", f"until {acting.node} can be drained: {refused}")
            acting.hands.rest(LOOK_S)
        else:
            return None


def _restart_site(acting: Acting) -> None:
    acting.hands.site(acting.view, acting.node).terminate()
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

"""The `leaders` kind of benchmark `drills`: the leader is killed while it carries out ten moves.

Of every other fragment primary and secondary change roles and change back; the secondaries of the
others move to a node without a replica, and back. The store's records tell how far the plan has
come: each time another fifth of what ten moves write was written, the coordinator that leads is
killed (SIGKILL). The next one must go on from what it finds. In the end nothing may be left to do.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from bench.silence import longest_silence_ms
from orchestrator.api import Cluster, InvalidInput, Refused, move
from orchestrator.control.decide.moving import ENDED
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.measurement import sequence_faults
from orchestrator.edges.sinks import read_back
from orchestrator.errors import VivaceError
from orchestrator.progress import Progress
from orchestrator.records import FragmentRecord, MovePlan, MoveStep
from orchestrator.store.protocol import LEADER, MOVES, Store

NAME = "ten-moves"

KILLS_AFTER = (1, 7, 13, 19, 25)
"""The leader is killed after so many writes. Two changes of roles write about six times, and two
moves of a secondary about eight times."""

LOOK_S = 0.02

PATIENCE_S = 300.0
"""How long ten moves and five elections may take."""

NOTHING_S = 5.0
"""How long it is watched afterwards that nothing is written any more."""


def leader_kills(cluster: Cluster, archive: Path, tell: Progress) -> dict[str, float]:
    """Flat figures.

    Raises
    ------
    VivaceError
        The plan does not come to its end.
    """
    store = cluster.store
    view = read_view(store)
    steps = ten_moves(cluster, view, tell)
    before = written(view)
    began_us = cluster_now_us(view.cluster_clocks)
    store.create(MOVES.key(NAME), MovePlan(name=NAME, steps=steps, submitted_us=began_us))
    plan, cuts = _pursued(store, before, tell)
    _await_protected(store)
    ended_us = cluster_now_us(read_view(store).cluster_clocks)
    settled = _places(read_view(store))
    time.sleep(NOTHING_S)
    view = read_view(store)
    told = [e.event for e in store.history() if e.event.subject == NAME and e.event.kind == ENDED]
    outputs = [stream for query in view.query_records.values() for stream in query.outputs]
    delivered = [read_back(archive, stream) for stream in outputs]
    arrivals_s = [sorted(each.completed_column("arrived_us") / 1e6) for each in delivered]
    faults = [sequence_faults(each) for each in delivered]
    return {
        "leaders.kills": len(cuts),
        **{f"leaders.kill{n}_after_writes": cut for n, cut in enumerate(cuts, start=1)},
        "leaders.moves": len(plan.steps),
        "leaders.done": sum(step.done for step in plan.steps),
        "leaders.rolled_back": sum(step.failed is not None for step in plan.steps),
        "leaders.took_s": (ended_us - began_us) / 1e6,
        "leaders.told_in_history": len(told),
        "leaders.changed_afterwards": sum(
            place != settled.get(name) for name, place in _places(view).items()
        ),
        "leaders.lost": sum(each.lost for each in faults),
        "leaders.repeated": sum(each.repeated for each in faults),
        "leaders.gap_ms_max": max(
            longest_silence_ms(each, began_us / 1e6, ended_us / 1e6) for each in arrivals_s
        ),
        "leaders.bound_ms": min(q.recovery_bound_ms for q in view.query_records.values()),
    }


def ten_moves(cluster: Cluster, view: ClusterView, tell: Progress) -> tuple[MoveStep, ...]:
    """Two moves for each fragment, after which it is where it was."""
    steps: list[MoveStep] = []
    for number, (name, found) in enumerate(sorted(view.fragments.items())):
        record = found.record
        assert record.secondary is not None, "every fragment is protected"
        role, there, back = "primary", record.secondary.node, record.primary.node
        if number % 2 and (free := _free(cluster, view, record, tell)) is not None:
            role, there, back = "secondary", free, record.secondary.node
        steps += [MoveStep(fragment=name, role=role, node=node) for node in (there, back)]
    return tuple(steps)


def _free(
    cluster: Cluster, view: ClusterView, record: FragmentRecord, tell: Progress
) -> str | None:
    """A node without a replica of a fragment, to which its secondary may move."""
    taken = {replica.node for replica in record.replicas}
    for node in sorted(view.executors.keys() - taken):
        try:
            move(cluster, record.key, "secondary", node, dry_run=True, on_progress=tell)
        except (InvalidInput, Refused):
            continue
        return node
    return None


def written(view: ClusterView) -> int:
    """How often the records of fragments and of the plan have been written."""
    plan = view.moves.get(NAME)
    fragments = sum(found.version for found in view.fragments.values())
    return fragments + (0 if plan is None else plan.version)


def _pursued(store: Store, before: int, tell: Progress) -> tuple[MovePlan, list[int]]:
    """The plan once it has ended, and after how many writes a leader was killed."""
    give_up = time.monotonic() + PATIENCE_S
    cuts: list[int] = []
    killed: set[str] = set()
    while time.monotonic() < give_up:
        view = read_view(store)
        plan = view.moves[NAME].record
        if plan.ended_us is not None:
            return plan, cuts
        leader, writes = store.get(LEADER), written(view) - before
        due = len(cuts) < len(KILLS_AFTER) and writes >= KILLS_AFTER[len(cuts)]
        if due and leader is not None and leader.record.candidate not in killed:
            tell("kill", f"{leader.record.candidate}, after {writes} writes")
            killed.add(leader.record.candidate)
            # A candidate has its pid in its name.
            try:
                os.kill(int(leader.record.candidate.rsplit("-", 2)[1]), signal.SIGKILL)
            except ProcessLookupError:
                continue
            cuts.append(writes)
        time.sleep(LOOK_S)
    raise VivaceError(f"ten moves have not ended within {PATIENCE_S:.0f} s")


def _await_protected(store: Store) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        view = read_view(store)
        if all(view.protected(found.record) for found in view.fragments.values()):
            return
        if time.monotonic() > give_up:
            raise VivaceError("fragments have no warm secondary after ten moves")
        time.sleep(LOOK_S)


def _places(view: ClusterView) -> Mapping[str, object]:
    """Who runs each fragment, in which epoch."""
    return {
        name: (found.record.epoch, found.record.replicas, found.record.third)
        for name, found in view.fragments.items()
    }

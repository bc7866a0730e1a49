"""What a drill strikes: chosen before its outputs are watched, and looked at again right before it
strikes, since replicas and sites may move meanwhile."""

from __future__ import annotations

import os

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.observe.published import read_figures
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.acting import Inapplicable
from orchestrator.drills.blast import blast_of_switchover, blast_radius, planned_recoveries_ms
from orchestrator.drills.disturbances import aimed_at
from orchestrator.drills.drill import Aim, Drill
from orchestrator.drills.hands import REAL, Hands
from orchestrator.drills.kill_executor import choose_protected
from orchestrator.drills.links import aimed_link, blast_of_link
from orchestrator.errors import Outdated
from orchestrator.progress import Progress
from orchestrator.results.drill_report import Blast


class Moved(Outdated):
    """A drill would no longer hit what it was aimed at."""


def aimed(
    cluster: Cluster,
    chosen: Drill,
    target: str | None,
    on_progress: Progress,
    hands: Hands = REAL,
) -> tuple[ClusterView, Blast]:
    """What a drill hits, and the store as it is then; raises as `api.drilling.drill` does."""
    view, blast = _aim(cluster, chosen, target, on_progress, hands)
    if chosen.fails_primary:
        planned_ms = planned_recoveries_ms(view, read_figures(cluster.store))
        found_ms = [planned_ms[name] for name in blast.primaries if name in planned_ms]
        longest_ms = max(found_ms) if len(found_ms) == len(blast.primaries) > 0 else None
        blast = msgspec.structs.replace(blast, planned_ms=longest_ms)
    return view, blast


def still_aimed(
    cluster: Cluster,
    chosen: Drill,
    target: str | None,
    before: Blast,
    on_progress: Progress,
) -> ClusterView:
    """The store as it is now, if a drill hits now what it was aimed at.

    Raises
    ------
    Moved
        It would hit something else.
    """
    view, now = _aim(cluster, chosen, target, on_progress)
    if _struck(now) != _struck(before):
        raise Moved(
            f"drill {chosen.name}", "--target", target or ", ".join((*before.nodes, *before.links)),
            "has moved meanwhile: the drill would hit something else", "Run it again.", {},
        )  # fmt: skip
    return view


def cluster_pid(cluster: Cluster) -> int:
    """The process that runs the cluster on this machine: another one, or this one."""
    if isinstance(cluster.reach, ClusterContext):
        return cluster.reach.pid
    return cluster.reach.started_by or os.getpid()


def _struck(blast: Blast) -> tuple[tuple[str, ...], ...]:
    """What a drill is aimed at: a secondary or an output more or less makes it no other drill."""
    return blast.nodes, blast.links, blast.primaries, blast.streams


def _aim(
    cluster: Cluster,
    chosen: Drill,
    target: str | None,
    on_progress: Progress,
    hands: Hands = REAL,
) -> tuple[ClusterView, Blast]:
    """As `aimed`, without how long the recovery takes by the plan."""
    store = cluster.store
    if (why := chosen.unfit(read_view(store), cluster_pid(cluster))) is not None:
        raise Inapplicable(chosen.name, why)
    if chosen.link is not None:
        named = None if target is not None and ":" in target else target
        node = choose_protected(store, named, on_progress, chosen, hands).node
        view = read_view(store)
        link = aimed_link(view, chosen.name, target, node)
        return view, blast_of_link(view, link, chosen.link)
    if chosen.aim is Aim.PRIMARY:
        protected = choose_protected(store, target, on_progress, chosen, hands)
        view, hit = read_view(store), [*protected.hosts]
    else:
        view = read_view(store)
        hit = list(filter(None, [aimed_at(view, chosen, target)]))
    if chosen.switches:
        return view, blast_of_switchover(view, hit[0])
    blast = blast_radius(view, hit)
    if chosen.aim is Aim.EVERYTHING:
        # Each site ends once, and no node before it was drained.
        sites = view.hosts.keys() - view.executors.keys()
        blast = msgspec.structs.replace(blast, would_lose=blast_radius(view, sites).would_lose)
    return view, blast

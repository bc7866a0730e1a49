"""What a drill strikes: chosen before its outputs are watched, and looked at again right before it
strikes, since replicas and sites may move meanwhile."""

from __future__ import annotations

import os

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.control.observe.published import read_figures
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.deploy.context import ClusterContext
from orchestrator.drills.blast import blast_of_switchover, blast_radius, planned_recoveries_ms
from orchestrator.drills.disturbances import Aim, Disturbance, aimed_at
from orchestrator.drills.kill_executor import Inapplicable, Way, choose_protected
from orchestrator.drills.links import aimed_link, blast_of_link
from orchestrator.errors import Refused
from orchestrator.progress import Progress
from orchestrator.results.drill_report import Blast


class Moved(Refused):
    """A drill would no longer hit what it was aimed at."""


def aimed(
    cluster: Cluster, chosen: Way | Disturbance, target: str | None, on_progress: Progress
) -> tuple[ClusterView, Blast]:
    """What a drill hits, and the store as it is then; raises as `api.drilling.drill` does."""
    view, blast = _aim(cluster, chosen, target, on_progress)
    if isinstance(chosen, Way):
        planned_ms = planned_recoveries_ms(view, read_figures(cluster.store))
        found_ms = [planned_ms[name] for name in blast.primaries if name in planned_ms]
        longest_ms = max(found_ms) if len(found_ms) == len(blast.primaries) > 0 else None
        blast = msgspec.structs.replace(blast, planned_ms=longest_ms)
    return view, blast


def still_aimed(
    cluster: Cluster,
    chosen: Way | Disturbance,
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


def unfit(cluster: Cluster, view: ClusterView, chosen: Way | Disturbance) -> str | None:
    """Why a drill does not fit a cluster; None if it does."""
    if isinstance(chosen, Way):
        return chosen.unfit(view)
    return chosen.needs(cluster_pid(cluster))


def cluster_pid(cluster: Cluster) -> int:
    """The process that runs the cluster: another one, or this one."""
    return cluster.reach.pid if isinstance(cluster.reach, ClusterContext) else os.getpid()


def _struck(blast: Blast) -> tuple[tuple[str, ...], ...]:
    """What a drill is aimed at: a secondary or an output more or less makes it no other drill."""
    return blast.nodes, blast.links, blast.primaries, blast.streams


def _aim(
    cluster: Cluster, chosen: Way | Disturbance, target: str | None, on_progress: Progress
) -> tuple[ClusterView, Blast]:
    """As `aimed`, without how long the recovery takes by the plan."""
    store = cluster.store
    if (why := unfit(cluster, read_view(store), chosen)) is not None:
        raise Inapplicable(chosen.name, why)
    if isinstance(chosen, Way):
        nodes = [*choose_protected(store, target, on_progress, chosen).hosts]
        view = read_view(store)
        return view, blast_radius(view, nodes)
    if chosen.link is not None:
        named = target is not None and ":" in target
        node = choose_protected(store, None if named else target, on_progress).node
        view = read_view(store)
        link = aimed_link(view, chosen.name, target, node)
        return view, blast_of_link(view, link, chosen.link)
    if chosen.aim is Aim.PRIMARY:
        target = choose_protected(store, target, on_progress).node
    view = read_view(store)
    struck = aimed_at(view, chosen, target)
    if chosen.switches:
        return view, blast_of_switchover(view, struck)
    blast = blast_radius(view, list(filter(None, [struck])))
    if chosen.aim is Aim.EVERYTHING:
        # Each site ends once, and no node before it was drained.
        sites = view.hosts.keys() - view.executors.keys()
        blast = msgspec.structs.replace(blast, would_lose=blast_radius(view, sites).would_lose)
    return view, blast

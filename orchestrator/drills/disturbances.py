"""Drills that fail no primary: sites, ZooKeeper, coordinators and disks fail for a while, a node is
slow, replicas move.

No replica has to take over. A site that is killed is started again by its supervisor and goes on
where it was. Otherwise output must go on as if nothing happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import psutil

from foundation.suggestions import nearest
from orchestrator.control.observe.view import ClusterView
from orchestrator.drills import planned
from orchestrator.drills.acting import (
    Acting,
    Disturbed,
    await_restored,
    await_successor,
)
from orchestrator.drills.kill_executor import DrillFailed, choose
from orchestrator.drills.links import CUT_S, DELAY_MS, DELAY_S, LinkChange, disturb
from orchestrator.drills.processes import zookeeper_processes
from orchestrator.embedded.process_faults import NotImposed
from orchestrator.errors import InvalidInput

DISK_FULL_S = 10.0
STORE_PAUSED_S = 10.0
SLOW_S = 15.0


class Aim(Enum):
    """What a disturbance strikes."""

    SOURCE_SITE = "the site of a stream"
    SINK_SITE = "the site of an output"
    STORE = "ZooKeeper"
    LEADER = "the coordinator that leads"
    PRIMARY = "the node of a fragment's primary"
    LINK = "the link over which a primary's output leaves its node"
    EVERYTHING = "all processes, one after the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One of these drills.

    Attributes
    ----------
    strike
        Carries it out, and returns when the fault is over, or cannot be ended any more. If it
        consists of several faults, one after the other, it returns these.
    ends_host
        Whether the site comes back as another process.
    link
        What it does to a link, if that is struck.
    switches
        Whether a fragment's replicas change roles, and no host of theirs fails.
    needs
        Why the drill does not fit a cluster, given its process; None if it does.
    """

    name: str
    what: str
    aim: Aim
    strike: Callable[[Acting], Sequence[Disturbed] | None]
    ends_host: bool = False
    link: LinkChange | None = None
    switches: bool = False
    needs: Callable[[int], str | None] = lambda _: None


def _kill_site(acting: Acting) -> None:
    acting.hands.site(acting.view, acting.node).kill()


def _fill_disk(acting: Acting) -> None:
    with acting.hands.full_disk(acting.view, acting.node, DISK_FULL_S):
        acting.hold(DISK_FULL_S)


def _kill_zookeeper(acting: Acting) -> None:
    server = acting.hands.servers(acting.cluster_pid)[0]
    planned.restart_server(acting, server, server.kill)


def _pause_zookeeper(acting: Acting) -> None:
    with acting.hands.store_stopped(acting.cluster_pid, STORE_PAUSED_S, most=False):
        acting.hold(STORE_PAUSED_S)


def _lose_quorum(acting: Acting) -> None:
    with acting.hands.store_stopped(acting.cluster_pid, STORE_PAUSED_S, most=True):
        acting.hold(STORE_PAUSED_S)


def _slow_node(acting: Acting) -> None:
    with acting.hands.crowded(acting.view, acting.node, SLOW_S):
        acting.hold(SLOW_S)


def _link_drill(name: str, what: str, change: LinkChange) -> Disturbance:
    return Disturbance(
        name=name,
        what=f"{what} for {change.lasts_s:g} s",
        aim=Aim.LINK,
        link=change,
        strike=lambda acting: disturb(acting, change),
    )


def _own_server(cluster_pid: int) -> str | None:
    if zookeeper_processes(cluster_pid):
        return None
    return "the cluster has no ZooKeeper of its own on this machine"


def _ensemble(cluster_pid: int) -> str | None:
    if len(zookeeper_processes(cluster_pid)) > 1:
        return None
    return "the cluster has no ensemble of its own (`zookeeper: {servers: 3}` starts one)"


def _can_bind_threads(_cluster_pid: int) -> str | None:
    if hasattr(os, "sched_setaffinity"):
        return None
    return "this system cannot bind a process to a processor"


DISTURBANCES: Mapping[str, Disturbance] = {
    each.name: each
    for each in (
        Disturbance(
            name="kill-source-site",
            what="SIGKILL to the site where a stream enters",
            aim=Aim.SOURCE_SITE,
            strike=_kill_site,
            ends_host=True,
        ),
        Disturbance(
            name="kill-sink-site",
            what="SIGKILL to the site where an output leaves",
            aim=Aim.SINK_SITE,
            strike=_kill_site,
            ends_host=True,
        ),
        Disturbance(
            name="fill-disk",
            what=f"the site of an output can write nothing to its files for {DISK_FULL_S:g} s",
            aim=Aim.SINK_SITE,
            strike=_fill_disk,
        ),
        Disturbance(
            name="kill-zookeeper",
            what="SIGKILL to a ZooKeeper server, which the cluster starts again",
            aim=Aim.STORE,
            strike=_kill_zookeeper,
            needs=_own_server,
        ),
        Disturbance(
            name="pause-zookeeper",
            what=f"a ZooKeeper server is stopped for {STORE_PAUSED_S:g} s (SIGSTOP)",
            aim=Aim.STORE,
            strike=_pause_zookeeper,
            needs=_own_server,
        ),
        Disturbance(
            name="lose-quorum",
            what=f"most ZooKeeper servers are stopped for {STORE_PAUSED_S:g} s (SIGSTOP)",
            aim=Aim.STORE,
            strike=_lose_quorum,
            needs=_ensemble,
        ),
        Disturbance(
            name="slow-node",
            what=f"the host of a fragment's primary gets a quarter of a processor for {SLOW_S:g} s",
            aim=Aim.PRIMARY,
            strike=_slow_node,
            needs=_can_bind_threads,
        ),
        _link_drill(
            "cut-link",
            "nothing passes between a primary's node and the host that reads its output",
            LinkChange(both_ways=True, lasts_s=CUT_S),
        ),
        _link_drill(
            "cut-link-one-way",
            "nothing passes from a primary's node to the host that reads its output",
            LinkChange(both_ways=False, lasts_s=CUT_S),
        ),
        _link_drill(
            "delay-link",
            f"the link from a primary's node to a reader takes {DELAY_MS:g} ms longer",
            LinkChange(both_ways=False, lasts_s=DELAY_S, delay_ms=DELAY_MS),
        ),
        Disturbance(
            name="kill-coordinator",
            what="SIGKILL to the coordinator that leads",
            aim=Aim.LEADER,
            strike=planned.kill_coordinator,
        ),
        Disturbance(
            name="kill-leader-during-plan",
            what="SIGKILL to the coordinator that leads while it carries out a switchover",
            aim=Aim.PRIMARY,
            strike=planned.kill_leader_during_plan,
            switches=True,
        ),
        Disturbance(
            name="switchover",
            what="primary and secondary of a fragment change roles, and change back",
            aim=Aim.PRIMARY,
            strike=planned.switch_over,
            switches=True,
        ),
        Disturbance(
            name="drain-and-kill",
            what="the node of a fragment's primary is drained, then its executor is killed",
            aim=Aim.PRIMARY,
            strike=planned.drain_and_kill,
        ),
        Disturbance(
            name="rolling-restart",
            what="coordinators, ZooKeeper servers, nodes and sites end and start again, "
            "one after the other; nodes are drained before",
            aim=Aim.EVERYTHING,
            strike=planned.rolling_restart,
        ),
    )
}
"""Name → drill."""


def aimed_at(view: ClusterView, drill: Disturbance, target: str | None) -> str:
    """The site or node that a disturbance strikes: as named, else the first one; empty if none.

    Raises
    ------
    InvalidInput
        There is no such site, or the drill takes no target.
    """
    if drill.aim is Aim.PRIMARY:
        return choose(view, target).node
    if drill.aim in (Aim.STORE, Aim.LEADER, Aim.EVERYTHING):
        if target is None:
            return ""
        raise InvalidInput(
            "command line", "--target", target, f"is given, and {drill.name} takes none",
            f"Leave it out: the drill strikes {drill.aim.value}.",
        )  # fmt: skip
    if drill.aim is Aim.SOURCE_SITE:
        streams = sorted(view.entering.items())
        named = {name: stream.feeding_site for name, stream in streams}
    else:
        queries = view.query_records.values()
        named = {stream: site for query in queries for stream, site in query.outputs.items()}
    if not named:
        raise InvalidInput(f"drill {drill.name}", "", None, "no query runs here", "Apply one.")
    site = next(iter(named.values())) if target is None else named.get(target, target)
    if site not in named.values():
        raise InvalidInput(
            "command line", "--target", target, f"is not {drill.aim.value}",
            nearest(site, {*named, *named.values()}),
        )  # fmt: skip
    return site


def run(drill: Disturbance, acting: Acting) -> Disturbed:
    """Carry a disturbance out, and wait until it has left no trace.

    Raises
    ------
    DrillFailed
        That takes too long, or the process to be struck is gone.
    """
    ended_sources = drill.ends_host and _has_lone_sources(acting)
    struck = ", ".join(acting.links) or acting.node
    acting.on_progress("strike", f"{drill.what}{f': {struck}' if struck else ''}")
    struck_us = acting.now_us
    try:
        steps = drill.strike(acting)
    except (psutil.Error, NotImposed) as error:
        raise DrillFailed(f"drill {drill.name} could not strike: {error}") from error
    if drill.ends_host:
        await_successor(acting, acting.node, with_drivers=True)
    over_us = acting.now_us
    acting.on_progress("over", f"after {(over_us - struck_us) / 1e6:.1f} s")
    await_restored(acting)
    restored_us = acting.now_us
    acting.on_progress("restored", f"after {(restored_us - struck_us) / 1e6:.1f} s")
    return Disturbed(
        struck_us=struck_us,
        over_us=over_us,
        restored_us=restored_us,
        ended_sources=ended_sources,
        steps=tuple(steps or ()),
        remarks=tuple(remark for step in steps or () for remark in step.remarks),
    )


def _has_lone_sources(acting: Acting) -> bool:
    """Whether streams are open at the struck site, and at no other."""
    streams = acting.view.entering
    entering = acting.view.nodes[acting.node].record.sources
    return any(name in streams and len(streams[name].opened_at) == 1 for name in entering)

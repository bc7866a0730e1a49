"""The drills there are.

*The executor of a fragment's primary fails.* `kill-executor`: the whole executor dies at once, its
Java process and the host in it, as if its machine had failed. `kill-python-worker`: only the host
dies, as of a bug or for want of memory. `hang`: the host is stopped for some seconds, and no
connection breaks. `kill-driver`: the driver of its Spark application dies, and all executors of
that application with it. The secondary must then take over, and output must resume within the
recovery bound, with no tuple lost or repeated. Spark must bring the node back, so that the fragment
has a secondary again. A host that hung steps down when it goes on.

*No primary fails.* Sites, ZooKeeper, coordinators and disks fail for a while, a node is slow,
replicas move. No replica has to take over. A site that is killed is started again by its supervisor
and goes on where it was. Otherwise output must go on as if nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import psutil

from foundation.suggestions import nearest
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills import planned
from orchestrator.drills.acting import (
    Acting,
    Disturbed,
    DrillFailed,
    DrillStrike,
    await_restored,
    await_successor,
)
from orchestrator.drills.drill import Aim, Drill
from orchestrator.drills.hands import REAL, Hands
from orchestrator.drills.kill_executor import Killed, choose, choose_protected, fail
from orchestrator.drills.links import CUT_S, DELAY_MS, DELAY_S, LinkChange, disturb
from orchestrator.drills.processes import zookeeper_processes
from orchestrator.drills.striking import struck_host
from orchestrator.embedded.process_faults import NotImposed
from orchestrator.errors import InvalidInput
from orchestrator.progress import Progress
from orchestrator.records import StrikeKind
from orchestrator.store.protocol import Store

HANG_S = 5.0
DISK_FULL_S = 10.0
STORE_PAUSED_S = 10.0
SLOW_S = 15.0

Strike = Callable[[Acting], DrillStrike | None]


def _fails(kind: StrikeKind, lasts_s: float = 0.0) -> Strike:
    """The host of the node or site fails in a way, for a while if that lasts."""

    def strike(acting: Acting) -> DrillStrike:
        with struck_host(acting, acting.node, kind, lasts_s) as at_us:
            acting.hold(lasts_s)
        return DrillStrike(at_us=at_us)

    return strike


def _kill_zookeeper(acting: Acting) -> None:
    server = acting.hands.servers(acting.cluster_pid)[0]
    planned.restart_server(acting, server, server.kill)


def _store_stopped(*, most: bool) -> Strike:
    def strike(acting: Acting) -> None:
        with acting.hands.store_stopped(acting.cluster_pid, STORE_PAUSED_S, most=most):
            acting.hold(STORE_PAUSED_S)

    return strike


def _link_drill(name: str, what: str, change: LinkChange) -> Drill:
    return Drill(
        name=name,
        what=f"{what} for {change.lasts_s:g} s",
        aim=Aim.LINK,
        link=change,
        strike=lambda acting: disturb(acting, change),
    )


def _own_server(_view: ClusterView, cluster_pid: int) -> str | None:
    if zookeeper_processes(cluster_pid):
        return None
    return "no ZooKeeper of the cluster's own runs on this machine, the only one that it can strike"


def _ensemble(view: ClusterView, cluster_pid: int) -> str | None:
    if len(zookeeper_processes(cluster_pid)) == 1:
        return "the cluster has no ensemble of its own (`zookeeper: {servers: 3}` starts one)"
    return _own_server(view, cluster_pid)


def _applications(view: ClusterView, _cluster_pid: int) -> str | None:
    if len({node.labels.application for node in view.executors.values()}) > 1:
        return None
    return "the cluster has one Spark application (`applications: 2` gives it a second)"


KILL_EXECUTOR = Drill(
    name="kill-executor",
    what="SIGKILL to the executor that runs a fragment's primary",
    aim=Aim.PRIMARY,
    strike=_fails(StrikeKind.KILL_EXECUTOR),
    fails_primary=True,
    ends_host=True,
)

DRILLS: Mapping[str, Drill] = {
    each.name: each
    for each in (
        KILL_EXECUTOR,
        Drill(
            name="kill-python-worker",
            what="SIGKILL to the host in the executor of a fragment's primary",
            aim=Aim.PRIMARY,
            strike=_fails(StrikeKind.KILL),
            fails_primary=True,
            ends_host=True,
        ),
        Drill(
            name="hang",
            what=f"the host of a fragment's primary is stopped for {HANG_S:g} s (SIGSTOP)",
            aim=Aim.PRIMARY,
            strike=_fails(StrikeKind.HANG, HANG_S),
            fails_primary=True,
        ),
        Drill(
            name="kill-driver",
            what="SIGKILL to the Spark driver of a fragment's primary; its executors end with it",
            aim=Aim.PRIMARY,
            strike=_fails(StrikeKind.KILL_DRIVER),
            fails_primary=True,
            ends_host=True,
            whole_domain=True,
            unfit=_applications,
        ),
        Drill(
            name="kill-source-site",
            what="SIGKILL to the site where a stream enters",
            aim=Aim.SOURCE_SITE,
            strike=_fails(StrikeKind.KILL),
            ends_host=True,
        ),
        Drill(
            name="kill-sink-site",
            what="SIGKILL to the site where an output leaves",
            aim=Aim.SINK_SITE,
            strike=_fails(StrikeKind.KILL),
            ends_host=True,
        ),
        Drill(
            name="fill-disk",
            what=f"the site of an output can write nothing to its files for {DISK_FULL_S:g} s",
            aim=Aim.SINK_SITE,
            strike=_fails(StrikeKind.FULL_DISK, DISK_FULL_S),
        ),
        Drill(
            name="kill-zookeeper",
            what="SIGKILL to a ZooKeeper server, which the cluster starts again",
            aim=Aim.STORE,
            strike=_kill_zookeeper,
            unfit=_own_server,
        ),
        Drill(
            name="pause-zookeeper",
            what=f"a ZooKeeper server is stopped for {STORE_PAUSED_S:g} s (SIGSTOP)",
            aim=Aim.STORE,
            strike=_store_stopped(most=False),
            unfit=_own_server,
        ),
        Drill(
            name="lose-quorum",
            what=f"most ZooKeeper servers are stopped for {STORE_PAUSED_S:g} s (SIGSTOP)",
            aim=Aim.STORE,
            strike=_store_stopped(most=True),
            unfit=_ensemble,
        ),
        Drill(
            name="slow-node",
            what=f"the host of a fragment's primary gets a quarter of a processor for {SLOW_S:g} s",
            aim=Aim.PRIMARY,
            strike=_fails(StrikeKind.SLOW, SLOW_S),
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
        Drill(
            name="kill-coordinator",
            what="SIGKILL to the coordinator that leads",
            aim=Aim.LEADER,
            strike=planned.kill_coordinator,
        ),
        Drill(
            name="kill-leader-during-plan",
            what="SIGKILL to the coordinator that leads while it carries out a switchover",
            aim=Aim.PRIMARY,
            strike=planned.kill_leader_during_plan,
            switches=True,
        ),
        Drill(
            name="switchover",
            what="primary and secondary of a fragment change roles, and change back",
            aim=Aim.PRIMARY,
            strike=planned.switch_over,
            switches=True,
        ),
        Drill(
            name="drain-and-kill",
            what="the node of a fragment's primary is drained, then its executor is killed",
            aim=Aim.PRIMARY,
            strike=planned.drain_and_kill,
        ),
        Drill(
            name="rolling-restart",
            what="coordinators, ZooKeeper servers, nodes and sites end and start again, "
            "one after the other; nodes are drained before",
            aim=Aim.EVERYTHING,
            strike=planned.rolling_restart,
        ),
    )
}
"""Name → drill, in the order in which all of them are run."""


def aimed_at(view: ClusterView, drill: Drill, target: str | None) -> str:
    """The site or node that a drill strikes: as named, else the first one; empty if none.

    Raises
    ------
    InvalidInput
        There is no such site, or the drill takes no target.
    """
    if drill.aim is Aim.PRIMARY:
        return choose(view, target, drill).node
    if drill.aim in (Aim.STORE, Aim.LEADER, Aim.EVERYTHING):
        if target is None:
            return ""
        raise InvalidInput(
            "", "target", target, f"is given, and {drill.name} takes none",
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
            "", "target", target, f"is not {drill.aim.value}",
            nearest(site, {*named, *named.values()}),
        )  # fmt: skip
    return site


def fail_primary(
    store: Store,
    target: str | None,
    on_progress: Progress,
    *,
    by: str = "",
    drill: Drill = KILL_EXECUTOR,
    hands: Hands = REAL,
) -> Killed:
    """Choose a primary whose secondary is warm, and fail its node; see `choose` and `fail`."""
    node = choose_protected(store, target, on_progress, drill, hands).node
    return fail(
        drill,
        Acting(
            view=read_view(store),
            node=node,
            store=store,
            on_progress=on_progress,
            by=by,
            hands=hands,
        ),
    )


def run(drill: Drill, acting: Acting) -> Killed | Disturbed:
    """Carry a drill out, and wait until it has left no trace.

    Raises
    ------
    DrillFailed
        That takes too long, or the process to be struck is gone.
    """
    if drill.fails_primary:
        return fail(drill, acting)
    ended_sources = drill.ends_host and _has_lone_sources(acting)
    aim = ", ".join(acting.links) or acting.node
    acting.on_progress("strike", f"{drill.what}{f': {aim}' if aim else ''}")
    struck = DrillStrike(at_us=acting.now_us)
    try:
        struck = drill.strike(acting) or struck
    except (psutil.Error, NotImposed) as error:
        raise DrillFailed(f"drill {drill.name} could not strike: {error}") from error
    if drill.ends_host:
        await_successor(acting, acting.node, with_drivers=True)
    over_us, struck_us = acting.now_us, struck.at_us
    acting.on_progress("over", f"after {(over_us - struck_us) / 1e6:.1f} s")
    await_restored(acting)
    restored_us = acting.now_us
    acting.on_progress("restored", f"after {(restored_us - struck_us) / 1e6:.1f} s")
    return Disturbed(
        struck_us=struck_us,
        over_us=over_us,
        restored_us=restored_us,
        ended_sources=ended_sources,
        steps=struck.steps,
        remarks=tuple(remark for step in struck.steps for remark in step.remarks),
    )


def _has_lone_sources(acting: Acting) -> bool:
    """Whether streams are open at the struck site, and at no other."""
    streams = acting.view.entering
    entering = acting.view.nodes[acting.node].record.sources
    return any(name in streams and len(streams[name].opened_at) == 1 for name in entering)

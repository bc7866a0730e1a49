"""Drills that kill no executor: sites, ZooKeeper and disks fail for a while.

No replica has to take over. A site that is killed is started again by its supervisor and goes on
where it was. While ZooKeeper is away or a disk is full, output must go on as if nothing happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

import psutil

from orchestrator.control.clocks import cluster_now_us
from orchestrator.control.view import ClusterView, read_view
from orchestrator.drills.kill_executor import HEAL_TIMEOUT_S, LOOK_S, DrillFailed
from orchestrator.drills.processes import (
    NoProcess,
    full_disk,
    hold,
    host_process,
    suspended,
    zookeeper_process,
)
from orchestrator.errors import Refused
from orchestrator.progress import Progress
from orchestrator.store.protocol import Store, StoreError

DISK_FULL_S = 10.0
STORE_PAUSED_S = 10.0


class Aim(Enum):
    """What a disturbance strikes."""

    SOURCE_SITE = "the site of a stream"
    SINK_SITE = "the site of an output"
    STORE = "ZooKeeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What a disturbance acts on.

    Attributes
    ----------
    node
        The site; empty if ZooKeeper is struck.
    cluster_pid
        The process that runs the cluster.
    breach
        Set when the fault must end at once.
    """

    view: ClusterView
    node: str
    cluster_pid: int
    breach: threading.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One of these drills.

    Attributes
    ----------
    strike
        Carries it out, and returns when the fault is over, or cannot be ended any more.
    ends_host
        Whether the site comes back as another process.
    """

    name: str
    what: str
    aim: Aim
    strike: Callable[[Acting], None]
    ends_host: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """When a disturbance struck, was over, and had left no trace; cluster clock.

    Attributes
    ----------
    over_us
        Of a site that was killed: its sources and sinks work again.
    ended_sources
        Whether streams had no source meanwhile.
    """

    struck_us: int
    over_us: int
    restored_us: int
    ended_sources: bool = False


def _kill_site(acting: Acting) -> None:
    host_process(acting.view, acting.node).kill()


def _fill_disk(acting: Acting) -> None:
    with full_disk(host_process(acting.view, acting.node)):
        hold(DISK_FULL_S, acting.breach)


def _kill_zookeeper(acting: Acting) -> None:
    killed = zookeeper_process(acting.cluster_pid)
    killed.kill()
    give_up = time.monotonic() + HEAL_TIMEOUT_S
    while time.monotonic() < give_up:
        # Until it is noticed, the store may seem to be there.
        with suppress(NoProcess):
            if zookeeper_process(acting.cluster_pid).pid != killed.pid:
                return
        time.sleep(LOOK_S)
    raise DrillFailed(f"ZooKeeper was not started again within {HEAL_TIMEOUT_S:.0f} s")


def _pause_zookeeper(acting: Acting) -> None:
    with suspended(zookeeper_process(acting.cluster_pid)):
        hold(STORE_PAUSED_S, acting.breach)


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
            what="SIGKILL to ZooKeeper, which the cluster starts again",
            aim=Aim.STORE,
            strike=_kill_zookeeper,
        ),
        Disturbance(
            name="pause-zookeeper",
            what=f"ZooKeeper is stopped for {STORE_PAUSED_S:g} s (SIGSTOP)",
            aim=Aim.STORE,
            strike=_pause_zookeeper,
        ),
    )
}
"""Name → drill."""


def aimed_at(view: ClusterView, drill: Disturbance, target: str | None) -> str:
    """The site that a disturbance strikes: as named, else the first one; empty for ZooKeeper.

    Raises
    ------
    Refused
        There is no such site.
    """
    if drill.aim is Aim.STORE:
        if target is None:
            return ""
        sites: list[str] = []
    elif drill.aim is Aim.SOURCE_SITE:
        named = {name: stream.site for name, stream in sorted(view.stream_records.items())}
        sites = list(dict.fromkeys(named.values()))
        target = named.get(target or "", target)
    else:
        queries = view.query_records.values()
        named = {stream: site for query in queries for stream, site in query.outputs.items()}
        sites = list(dict.fromkeys(named.values()))
        target = named.get(target or "", target)
    if target is None and sites:
        return sites[0]
    if target not in sites:
        raise Refused(
            f"drill {drill.name}", "target", target, f"is not {drill.aim.value}",
            f"There is: {', '.join(sites) or 'nothing to name'}.", {},
        )  # fmt: skip
    assert target is not None, "it is one of the sites"
    return target


def run(drill: Disturbance, store: Store, acting: Acting, on_progress: Progress) -> Disturbed:
    """Carry a disturbance out, and wait until it has left no trace.

    Raises
    ------
    DrillFailed
        That takes too long, or the process to be struck is gone.
    """
    clocks = acting.view.cluster_clocks
    on_progress("strike", f"{drill.what}{f': {acting.node}' if acting.node else ''}")
    struck_us = cluster_now_us(clocks)
    try:
        drill.strike(acting)
    except psutil.Error as error:
        raise DrillFailed(f"drill {drill.name} could not strike: {error}") from error
    before = acting.view.nodes[acting.node].record if drill.ends_host else None
    if before is not None:
        _await(
            store,
            lambda view: (
                acting.node in view.nodes
                and view.nodes[acting.node].record.incarnation != before.incarnation
                and before.sources.keys() <= view.nodes[acting.node].record.sources.keys()
                and before.sinks.keys() <= view.nodes[acting.node].record.sinks.keys()
            ),
            f"site {acting.node} is not back",
        )
    over_us = cluster_now_us(clocks)
    on_progress("over", f"after {(over_us - struck_us) / 1e6:.1f} s")
    alive = {name for name in acting.view.nodes if name in acting.view.hosts}
    _await(
        store,
        lambda view: (
            alive <= view.nodes.keys()
            and all(view.protected(found.record) for found in view.fragments.values())
        ),
        "redundancy is not restored",
    )
    restored_us = cluster_now_us(clocks)
    on_progress("restored", f"after {(restored_us - struck_us) / 1e6:.1f} s")
    return Disturbed(
        struck_us=struck_us,
        over_us=over_us,
        restored_us=restored_us,
        ended_sources=before is not None and bool(before.sources),
    )


def _await(store: Store, condition: Callable[[ClusterView], bool], otherwise: str) -> None:
    """Wait for a condition; the store may be away meanwhile."""
    give_up = time.monotonic() + HEAL_TIMEOUT_S
    while time.monotonic() < give_up:
        with suppress(StoreError):
            if condition(read_view(store)):
                return
        time.sleep(LOOK_S)
    raise DrillFailed(f"{otherwise} within {HEAL_TIMEOUT_S:.0f} s")

"""Kills of a cluster's processes, when that must not cost anything.

A query outlives the loss of one replica of each fragment, so an executor is killed only when every
fragment has a warm standby. Sites may be killed whatever else is away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.processes import host_process
from orchestrator.store.protocol import Store, StoreUnavailable
from tests.conftest import PATIENCE_S

Strike = Callable[[ClusterView, str], None]
"""Kills a host."""


def kill_process(view: ClusterView, name: str) -> None:
    """Kill a host that is a process of this machine."""
    host_process(view, name).kill()


def await_view(store: Store, wanted: str, *names: str) -> ClusterView:
    """The cluster once `wanted` holds of it: hosts are `there`, or all is `protected` besides."""

    def holds(view: ClusterView) -> bool:
        there = all(name in view.nodes for name in names)
        protected = all(view.protected(found.record) for found in view.fragments.values())
        return there and (wanted == "there" or protected)

    return _await(store, f"{', '.join(names)} not {wanted}", holds)


def _await(store: Store, why: str, holds: Callable[[ClusterView], bool]) -> ClusterView:
    """The cluster once something holds of it; `why` says what is wrong if it never does.

    On a busy machine, ZooKeeper may be silent for longer than its session's connection bears.
    """
    give_up, view = time.monotonic() + PATIENCE_S, None
    while view is None or not holds(view):
        there = "nothing could be read" if view is None else str(view.nodes.keys())
        assert time.monotonic() < give_up, f"{why}: {there}"
        time.sleep(0.1)
        with suppress(StoreUnavailable):
            view = read_view(store)
    return view


def kill_site(store: Store, site: str) -> None:
    """Kill the host of a site, and wait until another one is there."""
    killed = _kill(store, site, "there")
    _await(
        store,
        f"{site} is not started again",
        lambda view: site in view.nodes and view.nodes[site].record.incarnation != killed,
    )


def kill_executor(store: Store, node: str, strike: Strike = kill_process) -> None:
    """Kill the host of an executor while every fragment has a warm standby.

    Waits until the store knows: before, it says that all are protected, some of them by a replica
    that is gone.
    """
    killed = _kill(store, node, "protected", strike)
    _await(store, f"{node} is still relied on", lambda view: not relies_on(view, killed))


def relies_on(view: ClusterView, incarnation: str) -> bool:
    """Whether a fragment has a replica in a process."""
    replicas = (each for found in view.fragments.values() for each in found.record.replicas)
    return any(each.incarnation == incarnation for each in replicas)


def _kill(store: Store, name: str, wanted: str, strike: Strike = kill_process) -> str:
    """Kill a host; returns its incarnation."""
    view = await_view(store, wanted, name)
    strike(view, name)
    return view.nodes[name].record.incarnation

"""Kills of a cluster's processes, when that must not cost anything.

A query outlives the loss of one replica of each fragment, so an executor is killed only when every
fragment has a warm standby. Sites may be killed whatever else is away.
"""

from __future__ import annotations

import time

from orchestrator.control.view import ClusterView, read_view
from orchestrator.drills.processes import host_process
from orchestrator.store.protocol import Store
from tests.conftest import PATIENCE_S


def await_view(store: Store, wanted: str, *names: str) -> ClusterView:
    """The cluster once `wanted` holds of it: hosts are `there`, or all is `protected` besides."""
    give_up = time.monotonic() + PATIENCE_S
    while True:
        view = read_view(store)
        there = all(name in view.nodes for name in names)
        protected = all(view.protected(found.record) for found in view.fragments.values())
        if there and (wanted == "there" or protected):
            return view
        assert time.monotonic() < give_up, f"{', '.join(names)} not {wanted}: {view.nodes.keys()}"
        time.sleep(0.1)


def kill_site(store: Store, site: str) -> None:
    """Kill the host of a site, and wait until another one is there."""
    _await_another(store, site, _kill(store, site, "there"))


def kill_executor(store: Store, node: str) -> None:
    """Kill the host of an executor while every fragment has a warm standby."""
    _kill(store, node, "protected")


def replace_executor(store: Store, node: str) -> None:
    """Kill the host of an executor, and wait until another one is there.

    Whoever kills several in turn must wait: for a moment the store says that all are protected by
    one that has just been killed.
    """
    _await_another(store, node, _kill(store, node, "protected"))


def _kill(store: Store, name: str, wanted: str) -> str:
    """Kill a host; returns its incarnation."""
    view = await_view(store, wanted, name)
    host_process(view, name).kill()
    return view.nodes[name].record.incarnation


def _await_another(store: Store, name: str, before: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while await_view(store, "there", name).nodes[name].record.incarnation == before:
        assert time.monotonic() < give_up, f"{name} is not started again"
        time.sleep(0.1)

"""Hosts whose record has gone, and that may come back.

A record goes with the session of its host, which may run on. A store that was stopped for long even
ends the sessions of all hosts before it hears any of them. If the leader took them for dead, those
that come back first would be cut off from the others, and replicas would be replaced that live.

The death of a host does not wait for its record: peers notice it within milliseconds, take over and
say so (`ClusterView.suspected`). So the leader goes on for a while as if the record were there. It
knows who ran from the assignments. A leader that has not read the record itself, because it has
just been elected, decides nothing until the host is back, or the while is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.control.observe.view import ClusterView
from orchestrator.records import NodeRecord
from orchestrator.store.protocol import NODES, Versioned

AWAITED_US = 2_000_000
"""Hosts of a loaded machine come back within a second once the store responds."""


class MissingHosts:
    """What one coordinator remembers of hosts."""

    def __init__(self) -> None:
        self._known: Mapping[str, Versioned[NodeRecord]] = {}
        self._since_us: Mapping[str, int] = {}

    def restored(self, view: ClusterView, now_us: int) -> ClusterView | None:
        """The view with the last records of awaited hosts; None if one of those is not known."""
        absent = view.assignments.keys() - view.nodes.keys() - view.broken(NODES).keys()
        self._since_us = {name: self._since_us.get(name, now_us) for name in sorted(absent)}
        awaited = {name for name, us in self._since_us.items() if now_us - us < AWAITED_US}
        last = {name: self._known[name] for name in awaited if name in self._known}
        self._known = {**last, **view.nodes}
        told = {name: view.assignments[name].record.incarnation for name in awaited}
        if any(name not in last or last[name].record.incarnation != told[name] for name in told):
            return None
        return replace(view, nodes=self._known) if awaited else view

    def await_anew(self) -> None:
        """Await every host anew: another coordinator has led meanwhile."""
        self._since_us = {}

"""Fragments and nodes that people name, and cordons of nodes."""

from __future__ import annotations

from collections.abc import Mapping

from foundation.suggestions import nearest
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput
from orchestrator.records import CordonRecord, FragmentRecord, NodeKind


def fragment_named(view: ClusterView, name: str) -> FragmentRecord:
    """A fragment by its own name, or with that of its query in front.

    Raises
    ------
    InvalidInput
        There is none.
    """
    for key, found in view.fragments.items():
        if name in (key, found.record.fragment):
            return found.record
    known: Mapping[str, object] = {f.record.fragment: f for f in view.fragments.values()}
    hint = nearest(name, known)
    raise InvalidInput("", "fragment", name, "is not a fragment that runs here", hint)


def check_node(view: ClusterView, node: str) -> None:
    """Raise `InvalidInput` if there is no live node of this name that runs fragments."""
    if node in view.executors:
        return
    kind = view.hosts[node].kind if node in view.hosts else None
    if kind is NodeKind.SITE:
        problem = "is a site, which runs no fragment"
    else:
        problem = "is not a live node here"
    raise InvalidInput("", "node", node, problem, nearest(node, view.executors))


def cordon_ends(view: ClusterView, node: str) -> bool:
    """Whether there is a cordon that ends by itself."""
    found = view.cordons.get(node)
    return found is not None and found.record.until_us is not None


def cordon_to_write(
    view: ClusterView, node: str, for_s: float | None, now_us: int
) -> tuple[CordonRecord, str] | None:
    """A cordon, and what the history says of it; None: the node has one that lasts as long.

    Parameters
    ----------
    for_s
        When it ends by itself; None: it does not, although it once was to.
    """
    if node in view.cordoned and not (for_s is None and cordon_ends(view, node)):
        return None
    until_us = None if for_s is None else now_us + round(for_s * 1e6)
    most = "" if for_s is None else f", for {for_s:g} s at most"
    record = CordonRecord(node=node, since_us=now_us, until_us=until_us)
    return record, f"nothing new is placed there{most}"

"""The surroundings of a drill's fault, and the times that it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.hands import REAL, Hands
from orchestrator.drills.kill_executor import HEAL_TIMEOUT_S, LOOK_S, DrillFailed
from orchestrator.progress import Progress
from orchestrator.store.protocol import Store, StoreError

CORDON_S = HEAL_TIMEOUT_S + 120.0
"""When the cordon of a node that a drill drains ends, although the drill has not ended it: after a
drain, and the longest that a drill then waits."""

FLOW_PATIENCE_S = 5.0
"""How long a rolling restart waits for outputs: a stream may be at its end."""


class Mover(Protocol):
    """Moves replicas on purpose; see `orchestrator.api.moving`, whose refusals it raises."""

    def switch(self, fragment: str, *, wait: bool = True) -> str:
        """Have primary and secondary change roles; the name of the plan of moves.

        Raises
        ------
        DrillFailed
            That was begun and failed.
        """
        ...

    def drain(self, node: str) -> None:
        """Cordon a node for `CORDON_S`, and move all replicas away; `DrillFailed` as above."""
        ...

    def uncordon(self, node: str) -> None:
        """Let a node be used again, unless an operator has cordoned it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What a disturbance acts on.

    Attributes
    ----------
    node
        The node or site; empty if ZooKeeper or a link is struck.
    links
        Links that are disturbed, `<source>:<target>`.
    cluster_pid
        The process that runs the cluster.
    breach
        Set when the fault must end at once.
    hands
        What does it, and lets time pass.
    """

    view: ClusterView
    node: str
    cluster_pid: int
    breach: threading.Event
    store: Store
    mover: Mover
    on_progress: Progress
    links: tuple[str, ...] = ()
    hands: Hands = REAL

    def at(self, node: str) -> Acting:
        """The same on another node, with what the store says now."""
        return replace(self, node=node, view=read_view(self.store))

    @property
    def now_us(self) -> int:
        """The cluster's clock."""
        return self.hands.now_us(self.view)

    def hold(self, seconds: float) -> None:
        """Let a fault last, but not beyond a breach."""
        self.hands.hold(seconds, self.breach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """When a disturbance struck, was over, and had left no trace; cluster clock.

    Attributes
    ----------
    over_us
        Of a site that was killed: its sources and sinks work again.
    ended_sources
        Whether streams had no source meanwhile.
    steps
        The faults that it consisted of, if there were several.
    remarks
        What was not done as planned, although no promise depends on it.
    """

    struck_us: int
    over_us: int
    restored_us: int
    ended_sources: bool = False
    steps: tuple[Disturbed, ...] = ()
    remarks: tuple[str, ...] = ()


def wait_for(acting: Acting, condition: Callable[[], bool], otherwise: str) -> None:
    """Wait for a condition; the store may be away meanwhile.

    Raises
    ------
    DrillFailed
        It takes too long.
    """
    give_up_us = acting.now_us + round(HEAL_TIMEOUT_S * 1e6)
    while acting.now_us < give_up_us:
        with suppress(StoreError):
            if condition():
                return
        acting.hands.rest(LOOK_S)
    raise DrillFailed(f"{otherwise} within {HEAL_TIMEOUT_S:.0f} s")


def wait_for_view(acting: Acting, condition: Callable[[ClusterView], bool], otherwise: str) -> None:
    """As `wait_for`, of what the store says."""
    wait_for(acting, lambda: condition(read_view(acting.store)), otherwise)


def await_restored(acting: Acting) -> None:
    """Wait until all hosts are there that were there before, and every fragment is protected.

    Raises
    ------
    DrillFailed
        It takes too long.
    """
    alive = acting.view.hosts.keys()
    wait_for_view(
        acting,
        lambda view: alive <= view.nodes.keys() and not view.unprotected,
        "redundancy is not restored",
    )


def await_successor(acting: Acting, node: str, *, with_drivers: bool = False) -> None:
    """Wait until another process is the host of a node or site.

    Parameters
    ----------
    with_drivers
        Whether its sources and sinks must work again.

    Raises
    ------
    DrillFailed
        It takes too long.
    """
    before = acting.view.nodes[node].record

    def is_back(view: ClusterView) -> bool:
        if node not in view.nodes or view.nodes[node].record.incarnation == before.incarnation:
            return False
        record = view.nodes[node].record
        elsewhere = {n for n, each in view.entering.items() if node not in each.opened_at}
        return not with_drivers or (
            before.sources.keys() - elsewhere <= record.sources.keys()
            and before.sinks.keys() <= record.sinks.keys()
        )

    wait_for_view(acting, is_back, f"{node} is not back")


def await_flow(acting: Acting, before_ms: Mapping[tuple[str, str], int]) -> None:
    """Wait until every output has come further than now; for a while only, if one does not.

    Parameters
    ----------
    before_ms
        How far outputs had come some time ago: what has just been started has yet to say it.
    """
    before_ms = {**before_ms, **reached_ms(acting)}
    give_up_us = acting.now_us + round(FLOW_PATIENCE_S * 1e6)

    def flows() -> bool:
        now_ms = reached_ms(acting)
        return all(now_ms.get(output, ms) > ms for output, ms in before_ms.items())

    wait_for(acting, lambda: flows() or acting.now_us >= give_up_us, "outputs do not flow")


def reached_ms(acting: Acting) -> dict[tuple[str, str], int]:
    """Site and output → up to where the sink there has been delivered it, as the site last said."""
    return {
        (site, output): sink.watermark_ms
        for site, node in read_view(acting.store).hosts.items()
        for output, sink in node.sinks.items()
        if sink.watermark_ms is not None
    }

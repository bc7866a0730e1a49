"""The surroundings of a drill's fault, and the times that it leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from orchestrator.control.observe.read_cache import RARELY_CHANGING, ReadCache
from orchestrator.control.observe.view import ClusterView, read_view
from orchestrator.drills.hands import REAL, Hands
from orchestrator.errors import VivaceError
from orchestrator.progress import Progress
from orchestrator.store.protocol import MOVES, Store, StoreError

HEAL_TIMEOUT_S = 480.0
"""How long a takeover, and then healing, may take: Spark starts another executor in about ten
seconds, and an application in more, but on a busy machine both take minutes."""

LOOK_S = 0.1

CORDON_S = HEAL_TIMEOUT_S + 120.0
"""When the cordon of a node that a drill drains ends, although the drill has not ended it: after a
drain, and the longest that a drill then waits."""

FLOW_PATIENCE_S = 5.0
"""How long a rolling restart waits for outputs: a stream may be at its end."""


class DrillFailed(VivaceError):
    """The drill could not be carried out, or the cluster did not recover."""

    exit_status = 1


class Inapplicable(VivaceError):
    """A drill does not fit the cluster."""

    def __init__(self, drill: str, why: str) -> None:
        super().__init__(f"drill {drill} does not fit: {why}")
        self.why = why


class Mover(Protocol):
    """Has replicas moved on purpose, without waiting for it; see `orchestrator.api.moving`, whose
    refusals it raises."""

    def switch(self, fragment: str) -> str:
        """Have primary and secondary change roles; the name of the plan of moves."""
        ...

    def drain(self, node: str) -> str | None:
        """Cordon a node for `CORDON_S`, and have all replicas moved away; the name of the plan of
        moves, if there are any."""
        ...

    def uncordon(self, node: str) -> None:
        """Let a node be used again, unless an operator has cordoned it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What a drill acts on.

    Attributes
    ----------
    node
        The node or site; empty if ZooKeeper or a link is struck.
    links
        Links that are disturbed, `<source>:<target>`.
    cluster_pid
        The process that runs the cluster, for drills of ZooKeeper.
    by
        Who strikes, for the history.
    mover
        Needed by drills that move replicas.
    breach
        Set when the fault must end at once.
    hands
        They let time pass, and strike ZooKeeper.
    """

    view: ClusterView
    node: str
    store: Store
    on_progress: Progress
    by: str
    cluster_pid: int = 0
    mover: Mover | None = None
    breach: threading.Event = field(default_factory=threading.Event)
    links: tuple[str, ...] = ()
    hands: Hands = REAL

    def at(self, node: str) -> Acting:
        """The same on another node, with what the store says now."""
        return replace(self, node=node, view=read_view(self.store))

    @property
    def moves(self) -> Mover:
        """Who moves replicas."""
        assert self.mover is not None, "the drill was said to move none"
        return self.mover

    @property
    def now_us(self) -> int:
        """The cluster's clock."""
        return self.hands.now_us(self.view)

    def hold(self, seconds: float) -> None:
        """Let a fault last, but not beyond a breach."""
        self.hands.hold(seconds, self.breach)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillStrike:
    """When a fault struck, cluster clock, and the steps that it consisted of if there were several.

    Attributes
    ----------
    at_us
        The first, if there were several.
    """

    at_us: int
    steps: tuple[Disturbed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """When a drill that fails no primary struck, was over, and had left no trace; cluster clock.

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


def wait_for_view(
    acting: Acting, amiss: Callable[[ClusterView], Sequence[str]], otherwise: str
) -> ClusterView:
    """Wait until nothing is amiss any more by what the store says; returns that.

    Raises
    ------
    DrillFailed
        It takes too long; tells what is amiss.
    """
    missing, view = ("the store does not answer",), acting.view
    with closing(ReadCache(acting.store, RARELY_CHANGING)) as reader:

        def is_well() -> bool:
            nonlocal missing, view
            view = read_view(reader)
            missing = tuple(amiss(view))
            if missing:
                acting.on_progress("waiting", ", ".join(missing))
            return not missing

        try:
            wait_for(acting, is_well, otherwise)
        except DrillFailed as error:
            raise DrillFailed(f"{error}: {', '.join(missing)}") from None
    return view


def await_restored(acting: Acting) -> None:
    """Wait until all hosts are there that were there before, and every fragment is protected.

    Raises
    ------
    DrillFailed
        It takes too long.
    """
    alive = acting.view.hosts.keys()

    def amiss(view: ClusterView) -> Sequence[str]:
        away = [f"{host} is not back" for host in sorted(alive - view.nodes.keys())]
        return [*away, *(f"{name} is not protected" for name in view.unprotected)]

    wait_for_view(acting, amiss, "redundancy is not restored")


def await_moves(acting: Acting, name: str | None) -> None:
    """Wait until a plan of moves has ended.

    Raises
    ------
    DrillFailed
        That takes too long, or a move has failed.
    """
    if name is None:
        return

    def ended() -> bool:
        plan = acting.store.get(MOVES.key(name))
        return plan is None or plan.record.ended_us is not None

    wait_for(acting, ended, f"the moves of {name} have not ended")
    plan = acting.store.get(MOVES.key(name))
    steps = () if plan is None else plan.record.steps
    if failed := [f"{step.fragment}: {step.failed}" for step in steps if step.failed]:
        raise DrillFailed(f"moves have failed: {'; '.join(failed)}")


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

    def amiss(view: ClusterView) -> Sequence[str]:
        if node not in view.nodes or view.nodes[node].record.incarnation == before.incarnation:
            return [f"{node} has not been replaced"]
        if not with_drivers:
            return []
        record = view.nodes[node].record
        elsewhere = {n for n, each in view.entering.items() if node not in each.opened_at}
        closed = before.sources.keys() - elsewhere - record.sources.keys()
        closed |= before.sinks.keys() - record.sinks.keys()
        return [f"{stream} is not open" for stream in sorted(closed)]

    wait_for_view(acting, amiss, f"{node} is not back")


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

"""How a process that is told to end waits for its turn, and leaves, before it does.

SIGTERM tells a site or a host pool to end. It takes a turn (`TurnRecord`), and ends once the leader
has given it the maintenance slot and says that nothing of its hosts can still go elsewhere
(`orchestrator.control.decide.maintenance`). It does not wait for more than its grace, nor where
nobody leads or the store is away for long; an operator may take its turn from it.

SIGINT, and a second SIGTERM, tell it to end at once, in order: whoever ends a whole cluster does.
"""

from __future__ import annotations

import logging
import secrets
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial

import msgspec

from orchestrator.control.observe.clocks import read_cluster_us
from orchestrator.control.observe.view import SLOT
from orchestrator.records import SlotRecord, TurnRecord
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import LEADER, TURNS, RecordInvalid, Store, StoreError

ALONE_S = 180.0
"""How long a process waits while nobody leads, or the store is away: as long as it may take a
platform to start the only server and then a coordinator again, on a busy machine or another one. A
platform that replaces everything ends these with all others, and whoever waited for less would end
at the same moment as they do. Less than the five minutes in which helm expects a release to be
gone."""

LOOK_EVERY_S = 0.2

_log = logging.getLogger("vivace.process")


class EndSignals:
    """What signals have told the process; called, whether it is to end.

    Attributes
    ----------
    told_to_end
        Whether it was told to.
    at_once
        Whether it is to wait for nothing.
    """

    def __init__(self) -> None:
        self.told_to_end = self.at_once = False

    def __call__(self) -> bool:
        return self.told_to_end

    def told(self, number: int) -> None:
        """Note a signal."""
        self.at_once |= self.told_to_end or number != signal.SIGTERM
        self.told_to_end = True


class Turn:
    """The turn of one process: whether it may end.

    It neither waits nor starts a thread: `leaving_in_turn` or the simulator calls `may_end`.

    Parameters
    ----------
    store
        The turn lasts as long as its session.
    owner
        What the process is, for people.
    nodes
        Whose hosts end with it.
    lives
        Reads their present incarnations; raises `StoreError`.
    grace_s
        How long it may take to end.
    now_s
        A clock that never goes back.
    cluster_us
        Reads the cluster's clock; raises `StoreError`.
    token
        Tells it from other processes that are the same for people.
    """

    def __init__(
        self,
        store: Store,
        owner: str,
        nodes: Sequence[str],
        lives: Callable[[], dict[str, str]],
        *,
        grace_s: float,
        now_s: Callable[[], float],
        cluster_us: Callable[[], int],
        token: str,
    ) -> None:
        self._store, self._now_s, self._cluster_us = store, now_s, cluster_us
        self.name = f"{owner.replace(' ', '-')}-{token}"
        self._key = TURNS.key(self.name)
        self._record = EphemeralRecord(store, self._key)
        self._owner, self._nodes, self._lives = owner, tuple(nodes), lives
        self._told_s = self._served_s = now_s()
        self._until_s = self._told_s + grace_s
        self._turn: TurnRecord | None = None
        self._session = 0
        self.over: str | None = None
        """Why the process may end, once it may."""
        self.has_left = False
        """Whether the reason is that it had its turn."""

    def may_end(self) -> bool:
        """Whether the process may end by now; to be called again until then."""
        now_s = self._now_s()
        if self.over is None:
            try:
                self._look()
            except StoreError as error:
                _log.debug("the turn cannot be looked at: %s", error)
            if self.over is None and now_s >= self._until_s:
                self.over = "its time is over"
            elif self.over is None and now_s - self._served_s >= ALONE_S:
                self.over = f"nobody has led the cluster for {ALONE_S:g} s"
        return self.over is not None

    def _look(self) -> None:
        """Keep the turn in the store, and see what the leader says.

        Raises
        ------
        StoreError
            Call again.
        """
        if self._session == self._store.session and self._store.get(self._key) is None:
            self.over = "an operator has taken its turn"
            return
        told = msgspec.structs.replace(self._turn or self._begun(), lives=self._lives())
        if self._session != self._store.session or told != self._turn:
            self._record.publish(told)
            self._turn, self._session = told, self._store.session
        if self._store.get(LEADER) is not None:
            self._served_s = self._now_s()
        slot = self._slot()
        if slot is not None and slot.turn == self.name and slot.may_end:
            self.over, self.has_left = "it has left", True

    def _begun(self) -> TurnRecord:
        now_us, now_s = self._cluster_us(), self._now_s()
        return TurnRecord(
            owner=self._owner,
            nodes=self._nodes,
            since_us=now_us - round((now_s - self._told_s) * 1e6),
            until_us=now_us + round((self._until_s - now_s) * 1e6),
        )

    def _slot(self) -> SlotRecord | None:
        try:
            found = self._store.get(SLOT)
        except RecordInvalid:
            return None
        return None if found is None else found.record


@contextmanager
def leaving_in_turn(
    store: Store,
    ending: EndSignals,
    owner: str,
    nodes: Sequence[str],
    grace_s: float,
    lives: Callable[[], dict[str, str]],
) -> Generator[Callable[[], bool]]:
    """Gives whether the process is to end now: it was told to, and may, or must.

    Parameters
    ----------
    grace_s
        How long it may take from being told on; 0: it ends at once.
    lives
        Reads the present incarnations of its hosts; raises `StoreError`.
    """
    closed, over = threading.Event(), threading.Event()

    def wait() -> None:
        while not ending.told_to_end:
            if closed.wait(LOOK_EVERY_S):
                return
        _log.info("told to end; %s waits for its turn, for %g s at most", owner, grace_s)
        turn = Turn(
            store,
            owner,
            nodes,
            lives,
            grace_s=grace_s,
            now_s=time.monotonic,
            cluster_us=partial(read_cluster_us, store),
            token=secrets.token_hex(4),
        )
        while not turn.may_end():
            if closed.wait(LOOK_EVERY_S):
                return
        _log.info("%s ends: %s", owner, turn.over)
        over.set()

    threading.Thread(target=wait, name="turn", daemon=True).start()
    try:
        yield lambda: over.is_set() or (ending() and (ending.at_once or not grace_s))
    finally:
        closed.set()

"""Responding to requests, beside the leader's steps: planning takes long.

What moves or deletes something that runs waits neither for what is to be applied, of which hosts
may first try statements, nor for a search for moves that are worth it; and nobody waits for a
search that the leader makes by itself. So each of the four has a `Responder`, and in a coordinator
a thread, of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import get_args

from orchestrator.checkpoints.savepoint import OpenSavepoint, kept_savepoint
from orchestrator.control.decide.proposing import answer, refused_by_a_bug, unanswered
from orchestrator.control.host_trials import HostTrials
from orchestrator.control.observe.view import ClusterView
from orchestrator.records import (
    ApplyRequest,
    AutomaticRequest,
    ExplainRefusalRequest,
    ExplainRequest,
    RebalanceRequest,
    Wish,
)
from orchestrator.store.protocol import PROPOSALS, Store, StoreError

APPLYING, SEARCHING = (ApplyRequest, ExplainRefusalRequest), (RebalanceRequest, ExplainRequest)
AUTOMATIC = (AutomaticRequest,)

KINDS: tuple[tuple[type[Wish], ...], ...] = (
    APPLYING,
    SEARCHING,
    AUTOMATIC,
    tuple(kind for kind in get_args(Wish) if kind not in (*APPLYING, *SEARCHING, *AUTOMATIC)),
)
"""Kinds of requests: those of a kind wait for each other."""


class Responder:
    """Responds to requests of one kind, and never twice to one.

    Parameters
    ----------
    kind
        Of `KINDS`.
    trials
        Has statements tried; None: nothing is tried.
    note_bug
        Told of what kept a request from being planned.
    open_savepoint
        Opens savepoints of the cluster.
    """

    def __init__(
        self,
        store: Store,
        trials: HostTrials | None,
        note_bug: Callable[[Exception], None],
        *,
        kind: tuple[type[Wish], ...],
        open_savepoint: OpenSavepoint = kept_savepoint,
    ) -> None:
        self._store = store
        self._trials = trials
        self._note_bug = note_bug
        self._kind = kind
        self._open_savepoint = open_savepoint
        self._answered: dict[str, int] = {}

    def respond(self, view: ClusterView, leads: Callable[[], bool]) -> None:
        """Write a proposal for each request that has none yet; nothing is read."""
        for name in unanswered(view):
            asked, known = view.requests[name], view.proposals.get(name)
            if not isinstance(asked.record.wish, self._kind):
                continue
            if self._answered.get(name) == asked.created:
                # It was answered after this was read.
                continue
            if not leads():
                return
            try:
                tries = None if self._trials is None else self._trials.among(view)
                proposal = answer(view, asked, tries, self._open_savepoint)
            except Exception as error:  # noqa: BLE001  Whoever asks must not wait for ever.
                self._note_bug(error)
                proposal = refused_by_a_bug(asked, error)
            # Another leader may have been faster, and whoever asked may have gone. What the store
            # does not take now is written after another step.
            with suppress(StoreError):
                if known is None:
                    self._store.create(PROPOSALS.key(name), proposal)
                else:
                    self._store.update(PROPOSALS.key(name), proposal, known.version)
                self._answered[name] = asked.created
        self._answered = {n: at for n, at in self._answered.items() if n in view.requests}

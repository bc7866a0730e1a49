"""What operators do to a cluster while it runs: switchovers, moves and drains, as records.

Times count from the moment the streams begin. Whoever carries an operation out does all that a
client does: it asks the leader, consents to what that proposes, and perhaps withdraws it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal

import msgspec

from orchestrator.errors import Refused
from orchestrator.records import DrainRequest, MoveRequest, PlannedMoves, SwitchRequest
from orchestrator.store.protocol import CORDONS, MOVES, Store
from orchestrator.store.requests import LeaderRequest


class TrialOperation(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True
):
    """Base of all operations."""

    at_ms: int


class Switchover(TrialOperation, frozen=True, kw_only=True, tag="switchover"):
    """Primary and secondary of a fragment change roles."""

    fragment: str


class TrialMove(TrialOperation, frozen=True, kw_only=True, tag="move"):
    """A replica of a fragment goes to a node.

    Attributes
    ----------
    withdrawn_ms
        When that is withdrawn, if it is.
    """

    fragment: str
    role: Literal["primary", "secondary"]
    node: str
    withdrawn_ms: int | None = None


class Drain(TrialOperation, frozen=True, kw_only=True, tag="drain"):
    """A node is cordoned, and all its replicas go to other nodes.

    Attributes
    ----------
    until_ms
        When it is admitted again; None: never.
    """

    node: str
    at_a_time: int = 1
    until_ms: int | None = None


AnyOperation = Switchover | TrialMove | Drain


def wish_of(operation: AnyOperation) -> SwitchRequest | MoveRequest | DrainRequest:
    """What a client asks the leader for."""
    match operation:
        case Switchover():
            return SwitchRequest(fragment=operation.fragment)
        case TrialMove(fragment=fragment, role=role, node=node):
            return MoveRequest(fragment=fragment, role=role, node=node)
        case Drain():
            return DrainRequest(node=operation.node, at_a_time=operation.at_a_time)


class OperationClient:
    """A client that wants one operation, and waits for nothing."""

    def __init__(self, store: Store, name: str, operation: AnyOperation) -> None:
        self._store = store
        self._request = LeaderRequest(store, name)
        self._operation = operation
        self._planned: PlannedMoves | None = None
        self._over = False

    def go_on(self) -> str | None:
        """Ask, unless the leader still knows of it; or consent to its proposal. Returns what has
        become of the operation when that is known.
        """
        if self._over:
            return None
        if not self._request.is_there:
            self._request.make(wish_of(self._operation))
            return None
        if (found := self._request.look()) is None:
            return None
        self._over = True
        if found.moves is not None:
            with suppress(Refused):
                self._request.consent()
        self._request.withdraw()
        self._planned = found.moves
        if found.refusal is not None:
            return str(found.refusal.error)
        return f"{len(found.moves.moves) if found.moves else 0} moves"

    def withdraw(self) -> None:
        """Take the operation back."""
        self._over = True
        self._request.withdraw()
        if self._planned is not None:
            key = MOVES.key(self._planned.name)
            if (plan := self._store.get(key)) is not None:
                withdrawn = msgspec.structs.replace(plan.record, withdrawn=True)
                self._store.update(key, withdrawn, plan.version)
        if isinstance(self._operation, Drain):
            node = CORDONS.key(self._operation.node)
            if (cordon := self._store.get(node)) is not None:
                self._store.delete(node, cordon.version)

"""What operators do to a cluster while it runs: switchovers, moves, drains and changes of queries.

Times count from the moment the streams begin. Whoever carries an operation out does all that a
client does: it asks the leader, consents to what that proposes, and perhaps withdraws it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import structs

from orchestrator.errors import Refused
from orchestrator.records import (
    ApplyRequest,
    DrainRequest,
    MoveRequest,
    PlannedMoves,
    QueryManifest,
    StatementEffect,
    SwitchRequest,
)
from orchestrator.store.protocol import CORDONS, MOVES, QUERIES, Store
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


class Rewording(TrialOperation, frozen=True, kw_only=True, tag="change"):
    """A query is changed in place: into other statements of the same results, so that these are
    known wherever the cut comes to lie."""

    query: str
    """Its name. If all of its statements have a state, another query takes its place."""


AnyOperation = Switchover | TrialMove | Drain | Rewording

AnyWish = SwitchRequest | MoveRequest | DrainRequest | ApplyRequest

_shown = re.compile(r"(?P<named> AS value)(?= FROM )|(?P<plain>, value)(?= FROM )")

KEEPING = (StatementEffect.KEPT, StatementEffect.UNCHANGED)
"""What becomes of the statements of a change that is consented to."""


def reworded(statements: str) -> str:
    """Statements that give the same, and are others: those without state show their value with 0
    added."""
    return ";".join(
        _shown.sub(lambda found: f"{', value' if found['plain'] else ''} + 0 AS value", statement)
        if _keeps(statement)
        else statement
        for statement in statements.split(";")
    )


def _keeps(statement: str) -> bool:
    """Whether a statement has no state: of any other, a change may order the results of a timestamp
    otherwise, and what reads them would give something else."""
    is_loop = statement.rstrip().endswith(">")
    is_plain = statement.count("SELECT") == 1 and "TOP" not in statement and not is_loop
    has_none = statement.count("[") == statement.count("[NOW]") == 1 and "GROUP" not in statement
    return is_plain and has_none and "RSTREAM" in statement


def wish_of(operation: AnyOperation, store: Store) -> AnyWish | None:
    """What a client asks the leader for; None: no query can be changed so."""
    match operation:
        case Rewording():
            queries = [found.record for found in store.list(QUERIES).records.values()]
            queries.sort(key=lambda query: (query.name != operation.query, query.name))
            changed = [structs.replace(q, statements=reworded(q.statements)) for q in queries]
            record = next((q for q in changed if q not in queries), None)
            if record is None:
                return None
            return ApplyRequest(
                queries=(QueryManifest(file="query.yaml:1", record=record, statements_line=1),)
            )
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
            if (wish := wish_of(self._operation, self._store)) is None:
                self._over = True
                return "no statement is without state"
            self._request.make(wish)
            return None
        if (found := self._request.look()) is None:
            return None
        self._over = True
        changed = () if found.plan is None else found.plan.changed
        keeps = all(each.effect in KEEPING for query in changed for each in query.statements)
        if found.moves is not None or (changed and keeps):
            with suppress(Refused):
                self._request.consent()
        self._request.withdraw()
        self._planned = found.moves
        if found.refusal is not None:
            return str(found.refusal.error)
        if isinstance(self._operation, Rewording):
            return "changed" if changed and keeps else "nothing to change, or a state would go"
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

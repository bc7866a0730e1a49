"""Queries that are changed in place: what becomes of each statement, and what carries that out."""

from __future__ import annotations

from enum import Enum

from orchestrator.records.base import Record
from orchestrator.records.fragments import FormerStatement
from orchestrator.records.running_queries import RunningQueryRecord
from orchestrator.records.spec import QueryRecord


class BeginFrom(Enum):
    """From where on statements read whose state cannot be kept."""

    NOW = "now"
    """From where results have come to: what was before is unknown to them."""
    BEGINNING = "beginning"
    """From the beginning, as far as their streams can be read again; results that were delivered
    are not delivered again."""


class StatementEffect(Enum):
    """What a change of a query does to a fragment's state."""

    UNCHANGED = "unchanged"
    """Its statement is as before, and its state is kept."""
    KEPT = "state kept"
    """Its statement differs, and goes on with the state."""
    ANEW = "begins anew"
    """Its state is given up."""
    NEW = "new"
    REMOVED = "removed"


class ChangedStatement(Record, frozen=True, kw_only=True):
    """What becomes of one statement.

    Attributes
    ----------
    why
        Why it begins anew; empty if it does not.
    """

    fragment: str
    effect: StatementEffect
    why: str = ""


class ChangedField(Record, frozen=True, kw_only=True):
    """A field of a manifest, as it was and as it will be."""

    field: str
    was: str
    now: str


class ChangedQuery(Record, frozen=True, kw_only=True):
    """What a change of a query does, or a savepoint from which it begins, for people to consent to.

    Attributes
    ----------
    fields
        Of the manifest, statements excepted.
    statements
        Of each fragment, producers before consumers; those that are removed at the end.
    begin
        From where on those read that begin anew.
    moves
        How many replicas move to other nodes, because the present ones would not keep what the
        query asks for.
    savepoint
        Where the query begins, which does not run; empty: it runs, and is changed in place.
    """

    query: str
    fields: tuple[ChangedField, ...]
    statements: tuple[ChangedStatement, ...]
    begin: BeginFrom = BeginFrom.NOW
    moves: int = 0
    savepoint: str = ""

    def words(self) -> tuple[str, ...]:
        """The change in phrases."""
        fields = (f"{each.field} {each.was} → {each.now}" for each in self.fields)
        differ = (e for e in self.statements if e.effect is not StatementEffect.UNCHANGED)
        statements = (
            f"{each.fragment} {each.effect.value}" + (f": {each.why}" if each.why else "")
            for each in differ
        )
        moves = (f"{self.moves} moves",) if self.moves else ()
        return (*fields, *statements, *moves)

    @property
    def anew(self) -> tuple[str, ...]:
        """The fragments whose state is given up."""
        found = (each for each in self.statements if each.effect is StatementEffect.ANEW)
        return tuple(each.fragment for each in found)


class QueryAlteration(Record, frozen=True, kw_only=True):
    """What carries a change of a query out.

    Attributes
    ----------
    query, running
        The records that take the place of the present ones.
    former
        Key of a fragment that changes at a cut → its former statement.
    restarted
        Key of a fragment that reads its input from another place on → why.
    begin
        From where on those read.
    """

    query: QueryRecord
    running: RunningQueryRecord
    former: dict[str, FormerStatement]
    restarted: dict[str, str]
    begin: BeginFrom = BeginFrom.NOW

"""A plan of moves as a document: to be reviewed, kept in a file, and applied exactly as it is."""

from __future__ import annotations

from orchestrator.records.base import Record
from orchestrator.records.moves import MovePlan, PlannedMove
from orchestrator.records.rebalancing import RebalanceLimits, RebalancePlan

FORMAT = 1
"""Of the document; another one is refused."""

UNNAMED = "plan"
"""What errors call a plan if they do not know its file."""


class Immovable(Record, frozen=True, kw_only=True):
    """A fragment that does not go where a plan would have it, and why."""

    fragment: str
    problem: str


class PlanFile(Record, frozen=True, kw_only=True):
    """Moves that the leader has planned and checked, and what they rest on.

    Attributes
    ----------
    cluster, cluster_id
        The only cluster that it may be applied to.
    moves
        In this order.
    basis
        Path of a record that they rest on → its digest; of a fragment its nodes, of a node its
        incarnation.
    undo_of
        Name of the plan that they take back.
    immovable
        What cannot go back.
    rebalancing
        Why the moves are worth it; None of a plan that takes another one back.
    digest
        Of all of the above: tells whether a file has been changed.
    """

    format: int = FORMAT
    cluster: str
    cluster_id: str
    moves: tuple[PlannedMove, ...]
    basis: dict[str, str]
    undo_of: str | None = None
    immovable: tuple[Immovable, ...] = ()
    rebalancing: RebalancePlan | None = None
    digest: str = ""

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)


class RebalanceRequest(Record, frozen=True, kw_only=True, tag="rebalance"):
    """The moves that are worth it are to be planned."""

    goals: tuple[str, ...] = ()
    limits: RebalanceLimits = RebalanceLimits()


class UndoRequest(Record, frozen=True, kw_only=True, tag="undo"):
    """The way back of a plan of moves that has ended is to be planned."""

    plan: MovePlan


class ApplyPlanRequest(Record, frozen=True, kw_only=True, tag="apply-plan"):
    """A plan is to be carried out; the options are those of `MovePlan`."""

    plan: PlanFile
    at_a_time: int = 1
    keep_going: bool = False
    throttle_bytes_s: float | None = None

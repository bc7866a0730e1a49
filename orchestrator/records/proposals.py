"""What a client asks the leader for, and what the leader proposes.

A client asks (`RequestRecord`). The leader plans, and responds with a proposal: what would run
where, move or be deleted, what that promises, and what it rests on; or why it cannot be had. The
client consents to exactly that proposal, by a write that names its version. The leader accepts the
consent if all that the proposal rests on is still so, with one write; from then on whoever leads
carries it out. Else it says what has changed, and nothing is done.
"""

from __future__ import annotations

from typing import Any, Literal

from orchestrator.errors import Drifted, InvalidInput, Refused, VivaceError
from orchestrator.records.automation import AutomaticRequest
from orchestrator.records.base import Record
from orchestrator.records.changed_queries import BeginFrom, ChangedQuery, QueryAlteration
from orchestrator.records.checkpoints import CheckpointsRecord
from orchestrator.records.explanations import FragmentExplanation, RefusalExplanation
from orchestrator.records.figures import FragmentPlan, PlaceLoad, QueryPlan
from orchestrator.records.fragments import FragmentRecord, PlanFigures
from orchestrator.records.moves import PlannedMoves
from orchestrator.records.plan_files import (
    ApplyPlanRequest,
    PlanFile,
    RebalanceRequest,
    UndoRequest,
)
from orchestrator.records.running_queries import Rewrite, RunningQueryRecord
from orchestrator.records.spec import (
    QueryManifest,
    QueryRecord,
    StreamManifest,
    StreamRecord,
)
from placement.methods import Method


class PlanDocument(Record, frozen=True, kw_only=True):
    """A plan of all queries.

    Attributes
    ----------
    waiting
        Query that is in the store but has no place → why.
    map
        File of the coordinate map, if one was drawn.
    loads
        How busy nodes and machines would be; nothing of those that do not tell their processors.
    rewrites
        Query → what was decided of its statements that may run in another way than written.
    changed
        What becomes of queries that are changed in place.
    method
        How operators are placed, as the cluster's manifest says.
    """

    fragments: tuple[FragmentPlan, ...]
    queries: tuple[QueryPlan, ...]
    waiting: dict[str, str]
    map: str | None = None
    loads: tuple[PlaceLoad, ...] = ()
    rewrites: dict[str, tuple[Rewrite, ...]] = {}
    changed: tuple[ChangedQuery, ...] = ()
    method: Method = Method.VIVACE

    @property
    def as_printed(self) -> bool:
        """Whether operators are placed by the papers' methods."""
        return self.method is Method.PAPER

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)


class ApplyRequest(Record, frozen=True, kw_only=True, tag="apply"):
    """Manifests are to be planned."""

    streams: tuple[StreamManifest, ...] = ()
    queries: tuple[QueryManifest, ...] = ()
    begin: BeginFrom = BeginFrom.NOW
    """For statements of changed queries whose state cannot be kept."""
    savepoint: str = ""
    """With whose states new queries begin; empty: they begin from nothing."""


class SwitchRequest(Record, frozen=True, kw_only=True, tag="switch"):
    """Primary and secondary of a fragment are to change roles."""

    fragment: str
    """Its own name, or with that of its query in front."""


class MoveRequest(Record, frozen=True, kw_only=True, tag="move"):
    """A replica of a fragment is to be on another node."""

    fragment: str
    role: Literal["primary", "secondary"]
    node: str


class DrainRequest(Record, frozen=True, kw_only=True, tag="drain"):
    """A node is to be cordoned, and all its replicas are to go to other nodes."""

    node: str
    at_a_time: int = 1
    cordon_s: float | None = None
    """When the cordon ends by itself; None: it does not."""


class DeleteRequest(Record, frozen=True, kw_only=True, tag="delete"):
    """Queries and streams are to be deleted."""

    names: tuple[str, ...]
    if_there: tuple[str, ...] = ()
    """More of them, some of which may not be there."""
    keep_streams: bool = False
    """Whether streams stay that nothing reads then, and those of `if_there`."""


class ExplainRequest(Record, frozen=True, kw_only=True, tag="explain"):
    """The places of a fragment are to be explained."""

    fragment: str


class ExplainRefusalRequest(Record, frozen=True, kw_only=True, tag="explain-refusal"):
    """It is to be explained why manifests are refused, if they are."""

    streams: tuple[StreamManifest, ...] = ()
    queries: tuple[QueryManifest, ...] = ()


Wish = (
    ApplyRequest
    | SwitchRequest
    | MoveRequest
    | DrainRequest
    | DeleteRequest
    | ExplainRequest
    | ExplainRefusalRequest
    | RebalanceRequest
    | UndoRequest
    | ApplyPlanRequest
    | AutomaticRequest
)


class RequestRecord(Record, frozen=True, kw_only=True):
    """`/requests/<name>` (ephemeral, of whoever asks)."""

    wish: Wish
    by: str = ""
    """Who asks, for the history."""


class Refusal(Record, frozen=True, kw_only=True):
    """Why something cannot be had: an error of the leader, for the client to raise."""

    where: str
    """The file, of input that is wrong; else the subject that is refused."""
    field: str
    value: str | float | None
    problem: str
    remedy: str
    figures: dict[str, float | str] | None = None
    """None: the input is wrong."""
    guessed: tuple[str, ...] = ()
    differences: tuple[tuple[str, str, str], ...] = ()
    """Of a plan that no longer holds: what differs, how it was, and how it is."""

    @staticmethod
    def of(error: InvalidInput | Refused) -> Refusal:
        """An error as a record."""
        value: Any = error.value
        if not isinstance(value, str | float | int | None) or isinstance(value, bool):
            value = str(value)
        if isinstance(error, InvalidInput):
            where, figures, guessed = error.file, None, ()
        else:
            where, figures, guessed = error.subject, dict(error.figures), error.guessed
        return Refusal(
            where=where,
            field=error.field,
            value=value,
            problem=error.problem,
            remedy=error.remedy,
            figures=figures,
            guessed=guessed,
            differences=error.differences if isinstance(error, Drifted) else (),
        )

    @property
    def error(self) -> VivaceError:
        """The error to raise."""
        if self.figures is None:
            return InvalidInput(self.where, self.field, self.value, self.problem, self.remedy)
        parts = (self.where, self.field, self.value, self.problem, self.remedy, self.figures)
        if self.differences:
            return Drifted(*parts, self.guessed, self.differences)
        return Refused(*parts, self.guessed)


class QueryPlacement(Record, frozen=True, kw_only=True):
    """The records that place one query.

    Attributes
    ----------
    updated
        Fragments that run, with the sub-deadlines that the plan gives them.
    """

    query: str
    updated: tuple[FragmentRecord, ...]
    created: tuple[FragmentRecord, ...]
    figures: PlanFigures


class Deletion(Record, frozen=True, kw_only=True):
    """Queries and streams to delete, in this order; `absent` are not there, and might have been."""

    queries: tuple[str, ...]
    streams: tuple[str, ...]
    absent: tuple[str, ...] = ()


class ProposalRecord(Record, frozen=True, kw_only=True):
    """`/proposals/<name>`: the leader's answer to the request of that name.

    Attributes
    ----------
    request
        The store's number of the creation of the request.
    by
        Who asks.
    refusal
        Why there is no plan.
    streams, queries, running
        What is new.
    alterations
        Of queries that run.
    placements
        Of the new queries, in the order in which they were planned.
    checkpoints
        From which fragments of new queries go on: those of a savepoint.
    moves, deletion
        Of what runs.
    explanation
        Of what runs, or would be refused; there is nothing to consent to.
    file
        A plan of moves that was asked for; there is nothing to consent to.
    basis
        Path of a record that the proposal rests on → its digest (`control/decide/basis.py`).
    consented
        Whether the client wants exactly this.
    accepted
        Whether it is carried out.
    changed
        What was no longer so when it was consented to: it is not carried out.
    created
        Whether all of it has been written.
    """

    request: int
    by: str = ""
    refusal: Refusal | None = None
    plan: PlanDocument | None = None
    streams: tuple[StreamRecord, ...] = ()
    queries: tuple[QueryRecord, ...] = ()
    running: tuple[RunningQueryRecord, ...] = ()
    placements: tuple[QueryPlacement, ...] = ()
    checkpoints: tuple[CheckpointsRecord, ...] = ()
    alterations: tuple[QueryAlteration, ...] = ()
    moves: PlannedMoves | None = None
    file: PlanFile | None = None
    deletion: Deletion | None = None
    explanation: FragmentExplanation | RefusalExplanation | None = None
    basis: dict[str, str] = {}
    consented: bool = False
    accepted: bool = False
    changed: tuple[str, ...] = ()
    created: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it was accepted, and some of it has still to be written."""
        return self.accepted and not self.created

    def placement(self, query: str) -> QueryPlacement | None:
        """The records that place a query of it, if it is carried out."""
        found = self.placements if self.accepted else ()
        return next((each for each in found if each.query == query), None)

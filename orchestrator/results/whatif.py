"""What would be so if something were lost, added or otherwise."""

from __future__ import annotations

from orchestrator.records.figures import PlaceLoad, QueryPlan
from orchestrator.results.result import Result


class FragmentOutlook(Result, frozen=True, kw_only=True):
    """A fragment, as it is and as it would be.

    Attributes
    ----------
    primary, secondary
        Nodes, before and after; None: there is none.
    recovery_ms
        By the plan, before and after; None: nobody can take over.
    unprotected_s
        How long it would have no warm secondary; 0: it is protected throughout. None: for as long
        as nothing else changes.
    why
        Why it would stay without, or what else is to say; empty: nothing.
    state_lost
        Whether both replicas are lost, so that it goes on from a checkpoint or begins anew.
    alternatives
        Nodes of primary and secondary that it may get instead: as well as anybody knows the round
        trips, these cost as little, and the leader decides by the readings of its moment.
    """

    query: str
    fragment: str
    primary: tuple[str | None, str | None]
    secondary: tuple[str | None, str | None]
    recovery_ms: tuple[float | None, float | None]
    bound_ms: float
    unprotected_s: float | None = 0.0
    why: str = ""
    state_lost: bool = False
    alternatives: tuple[tuple[str | None, str | None], ...] = ()

    @property
    def key(self) -> str:
        """Its name with that of its query."""
        return f"{self.query}.{self.fragment}"

    @property
    def changes(self) -> bool:
        """Whether anything but figures would be otherwise."""
        moved = self.primary[0] != self.primary[1] or self.secondary[0] != self.secondary[1]
        return moved or self.unprotected_s != 0


class QueryOutlook(Result, frozen=True, kw_only=True):
    """What a query is promised, and would be; None: nothing, since it does not run."""

    query: str
    before: QueryPlan | None
    after: QueryPlan | None

    @property
    def slack_ms(self) -> float | None:
        """What its slowest output would have left of its deadline."""
        return None if self.after is None else self.after.deadline_ms - self.after.latency_ms


class LoadOutlook(Result, frozen=True, kw_only=True):
    """How busy a node or machine is planned to be, and would be; None: it is not there."""

    name: str
    before: PlaceLoad | None
    after: PlaceLoad | None


class RefusedQuery(Result, frozen=True, kw_only=True):
    """A new query, or a stream, that the leader would refuse."""

    query: str
    why: str


class LossOutlook(Result, frozen=True, kw_only=True):
    """What the loss of something would do: a row of the N−1 table.

    Attributes
    ----------
    kind, name
        What is lost: `node`, `application`, `machine` or `site`.
    hosts
        Nodes and sites that are lost with it.
    takeovers
        Fragments whose secondaries would take over.
    recovery_ms, bound_ms
        Of the takeover that is nearest to its bound; None without any.
    unprotected_s
        The longest time that a fragment would have no warm secondary; 0: none is without. None:
        for as long as nothing else changes.
    unhealed
        Fragment → why it would stay without a secondary.
    states_lost, restored
        Fragments of which both replicas are lost: those that would begin anew, and those that would
        go on from checkpoints, later than their bounds say.
    streams, outputs
        Streams that would not enter, and outputs that nobody would take out.
    breaks
        Promises that would be broken afterwards and are kept now, a phrase each.
    kept_by
        By what recovery bounds are kept, a phrase.
    unknown
        Why nobody knows what would come of it: all other fields but the first three say nothing
        then. Empty: it is known.
    """

    kind: str
    name: str
    hosts: tuple[str, ...]
    takeovers: tuple[str, ...] = ()
    recovery_ms: float | None = None
    bound_ms: float | None = None
    unprotected_s: float | None = 0.0
    unhealed: dict[str, str] = {}
    states_lost: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    kept_by: str = ""
    unknown: str = ""

    @property
    def harmless(self) -> bool:
        """Whether every promise would be kept, and everything healed."""
        lost = self.states_lost or self.restored or self.streams or self.outputs or self.unhealed
        return not lost and not self.breaks and not self.unknown


class PlayedOutput(Result, frozen=True, kw_only=True):
    """An output in the simulated world.

    Attributes
    ----------
    tuples
        That arrived.
    timestamps, late
        Whose results were completed, and those of them after the deadline. Made up input may lead
        to no results, which are completed all the same.
    silent_ms
        The longest time without a result after the loss, or of all if nothing is lost.
    recovered_ms
        From the loss to the end of the longest silence that it fell into; None if nothing is lost.
    lost, repeated
        Tuples, by their sequence numbers.
    """

    output: str
    deadline_ms: float
    tuples: int
    timestamps: int
    late: int
    silent_ms: float | None
    recovered_ms: float | None = None
    lost: int = 0
    repeated: int = 0


class PlayedDocument(Result, frozen=True, kw_only=True):
    """What was played in the simulated world.

    Attributes
    ----------
    lasted_s
        Virtual seconds.
    healed_s
        From the loss until every fragment that can be protected was; None: not while it lasted, or
        nothing is lost.
    synthetic
        Streams whose input was made up: values drawn by their types, at the rate that plans take.
    """

    lasted_s: float
    outputs: tuple[PlayedOutput, ...]
    healed_s: float | None = None
    synthetic: tuple[str, ...] = ()


class WhatIfDocument(Result, frozen=True, kw_only=True):
    """What the leader would decide, and what that would promise; nothing was changed.

    Attributes
    ----------
    assumed
        What is assumed, a phrase each; empty: the cluster as it is.
    lost
        Nodes and sites that are assumed to be lost.
    fragments, queries, loads
        As they are and as they would be.
    refused
        New queries that the leader would refuse.
    problems
        What the leader would say that it does not say now.
    breaks
        Promises that are kept now and would be broken, a phrase each.
    losses
        What is assumed to be lost; with `each`, everything that can be, alone.
    played
        What came of it in the simulated world; None: it was not played.
    """

    assumed: tuple[str, ...]
    lost: tuple[str, ...] = ()
    fragments: tuple[FragmentOutlook, ...] = ()
    queries: tuple[QueryOutlook, ...] = ()
    loads: tuple[LoadOutlook, ...] = ()
    refused: tuple[RefusedQuery, ...] = ()
    problems: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    losses: tuple[LossOutlook, ...] = ()
    played: PlayedDocument | None = None

    @property
    def unprotected(self) -> tuple[FragmentOutlook, ...]:
        """Fragments that would stay without a secondary."""
        return tuple(each for each in self.fragments if each.unprotected_s is None)

"""Queries that pause, as clients see them."""

from __future__ import annotations

from orchestrator.results.result import Result


class QueryPause(Result, frozen=True, kw_only=True):
    """A query that was told to pause, or to go on.

    Attributes
    ----------
    paused
        Whether it is paused now.
    changed
        Whether it was not so before.
    begun_anew
        Fragments that went on from no checkpoint; the history says why.
    """

    query: str
    paused: bool
    changed: bool
    begun_anew: tuple[str, ...] = ()

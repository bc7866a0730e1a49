"""Manifests that were checked."""

from __future__ import annotations

from orchestrator.records import Rewrite
from orchestrator.results.result import Result


class ValidateDocument(Result, frozen=True, kw_only=True):
    """The manifests that were checked and found right.

    Attributes
    ----------
    queries
        Query → fragment → streams it reads.
    evaluations
        Query → fragment → how it is evaluated (`streams.plan.choice`).
    stepwise_loops
        Query → loop that is evaluated stepwise → why the compiled core cannot, as a phrase
        (`streams.plan.loop_core`); queries without such loops are left out.
    pushdowns
        Query → fragment → what its aggregates are folded in, and the values that they keep
        (`streams.plan.pushdown`); fragments without aggregates are left out.
    splits
        Query → fragment whose statement may be split → the ways, each with its statements
        (`streams.plan.partial`).
    unchecked
        Sites and nodes that could not be checked: no Cluster manifest was among the files.
    not_found
        Stream → its recording, which is not on this machine; it may be on the site's.
    remarks
        What the owner of the cluster may not have meant, though it is no mistake.
    delayed
        Query → its statements with the delays that they lacked, if these were to be inserted.
    """

    cluster: str | None
    streams: tuple[str, ...]
    queries: dict[str, dict[str, tuple[str, ...]]]
    evaluations: dict[str, dict[str, str]]
    pushdowns: dict[str, dict[str, tuple[str, ...]]]
    splits: dict[str, dict[str, tuple[Rewrite, ...]]]
    unchecked: tuple[str, ...]
    not_found: dict[str, str]
    remarks: tuple[str, ...] = ()
    delayed: dict[str, str] = {}
    stepwise_loops: dict[str, dict[str, str]] = {}

"""What applying and deleting have changed."""

from __future__ import annotations

from enum import Enum

from orchestrator.records import PlanDocument
from orchestrator.results.result import Result


class Effect(Enum):
    """The effect of applying on a stream or a query."""

    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


class Change(Result, frozen=True, kw_only=True):
    """The effect on one manifest."""

    kind: str
    name: str
    effect: Effect


class Applied(Result, frozen=True, kw_only=True):
    """The applied manifests, and where their fragments run.

    Attributes
    ----------
    plan
        The running placement, once everything was seen to run; else the planned one.
    planned_again
        Query whose submitted plan the leader did not carry out → what had changed since it was
        made. Known only after waiting.
    applied
        False after a dry run.
    protected
        Whether every fragment of the queries has been seen to run with a warm standby.
    begins_anew
        Query that could go on from no checkpoint if everything died → why, in a cluster that keeps
        checkpoints.
    """

    cluster: str
    changes: tuple[Change, ...]
    plan: PlanDocument
    planned_again: dict[str, str]
    applied: bool
    protected: bool
    begins_anew: dict[str, str] = {}


class Deleted(Result, frozen=True, kw_only=True):
    """What was deleted; `absent` was not there, and might have been."""

    queries: tuple[str, ...]
    streams: tuple[str, ...]
    absent: tuple[str, ...] = ()

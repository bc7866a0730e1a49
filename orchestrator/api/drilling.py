"""Failure drills: kill something on purpose, and measure the failover."""

from __future__ import annotations

import msgspec

from orchestrator.api.connection import Cluster
from orchestrator.drills import kill_executor
from orchestrator.drills.report import DrillReport, run_kill_executor
from orchestrator.errors import InvalidInput
from orchestrator.progress import Progress, silent
from topology.suggestions import nearest


class DrillDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A drill that can be run."""

    name: str
    what: str


DRILLS = {kill_executor.NAME: run_kill_executor}
"""Name → drill."""


def drills() -> tuple[DrillDocument, ...]:
    """The drills there are."""
    what = (kill_executor.__doc__ or "").split("\n", 1)[0].split(": ", 1)[-1]
    return (DrillDocument(name=kill_executor.NAME, what=what),)


def drill(
    cluster: Cluster, name: str, target: str | None = None, on_progress: Progress = silent
) -> DrillReport:
    """Run a drill while watching every output it bears on.

    Parameters
    ----------
    target
        A fragment, whose primary is hit, or a node; None: the drill chooses.

    Raises
    ------
    InvalidInput
        There is no such drill.
    Refused
        There is no such target, or hitting it would lose state.
    DrillFailed
        The outputs do not flow, nobody takes over, or redundancy is not restored in time.
    """
    if name not in DRILLS:
        raise InvalidInput("command line", "NAME", name, "is no drill", nearest(name, DRILLS))
    return DRILLS[name](cluster.store, cluster.reach, target, on_progress)

"""What a drill is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from orchestrator.control.observe.view import ClusterView

if TYPE_CHECKING:
    from orchestrator.drills.acting import Acting, DrillStrike
    from orchestrator.drills.links import LinkChange


class Aim(Enum):
    """What a drill strikes."""

    SOURCE_SITE = "the site of a stream"
    SINK_SITE = "the site of an output"
    STORE = "ZooKeeper"
    LEADER = "the coordinator that leads"
    PRIMARY = "the node of a fragment's primary"
    LINK = "the link over which a primary's output leaves its node"
    EVERYTHING = "all processes, one after the other"


def _fits(_view: ClusterView, _cluster_pid: int) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One drill.

    Attributes
    ----------
    strike
        Carries it out, and returns when the fault is over, or cannot be ended any more.
    fails_primary
        Whether a secondary must take over.
    ends_host
        Whether the node or site comes back as another process.
    whole_domain
        Whether all nodes of the Spark application fail with the one that is struck.
    link
        What it does to a link, if that is struck.
    switches
        Whether a fragment's replicas change roles, and no host of theirs fails.
    unfit
        Why the drill does not fit a cluster, given its process on this machine; None if it does.
    """

    name: str
    what: str
    aim: Aim
    strike: Callable[[Acting], DrillStrike | None]
    fails_primary: bool = False
    ends_host: bool = False
    whole_domain: bool = False
    link: LinkChange | None = None
    switches: bool = False
    unfit: Callable[[ClusterView, int], str | None] = _fits

    def struck(self, view: ClusterView, node: str) -> tuple[str, ...]:
        """The nodes that fail if it strikes one."""
        if not self.whole_domain:
            return (node,)
        owners = {name: each.labels.application for name, each in view.executors.items()}
        return tuple(name for name in sorted(owners) if owners[name] == owners[node])

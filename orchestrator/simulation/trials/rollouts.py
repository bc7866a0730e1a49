"""The rollouts that a schedule may contain, as records: hosts and processes that end in order.

Times count from the moment the streams begin. A *target* is as that of a fault.
"""

from __future__ import annotations

import msgspec


class Rollout(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Base of all."""

    at_ms: int


class HostLeaves(Rollout, frozen=True, kw_only=True, tag="leave"):
    """A host is told to leave, as by `vivace-container leave`; another one takes its place.

    Attributes
    ----------
    within_ms
        How long it has.
    """

    target: str
    within_ms: int


class ProcessesEnd(Rollout, frozen=True, kw_only=True, tag="roll"):
    """The processes of some hosts are told to end at once, as by SIGTERM; each is replaced.

    Attributes
    ----------
    nodes
        Each is a process of its own.
    grace_ms
        How long each may take.
    back_ms
        After how long its successor starts.
    """

    nodes: tuple[str, ...]
    grace_ms: int
    back_ms: int


class VersionChange(Rollout, frozen=True, kw_only=True, tag="version"):
    """Processes end in order, one after the other; those that replace them are of another version.

    A host that is away is waited for.

    Attributes
    ----------
    nodes
        Hosts, each of which is a process of its own.
    coordinators
        Whether coordinators are replaced, too.
    ahead
        Whether the new processes are of the next version.
    grace_ms
        How long each host may take.
    back_ms
        After how long its successor starts.
    """

    nodes: tuple[str, ...]
    coordinators: bool
    ahead: bool
    grace_ms: int
    back_ms: int


AnyRollout = HostLeaves | ProcessesEnd | VersionChange


def told_to_end(rollouts: tuple[AnyRollout, ...]) -> int:
    """How many hosts end because of them."""
    return sum(1 if isinstance(each, HostLeaves) else len(each.nodes) for each in rollouts)

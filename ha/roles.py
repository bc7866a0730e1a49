"""The roles of a replica, and the events that change them.

The table `transitions` is the specification: for each role and event, the next role and what
happens to the epoch. `succeed` is the only code that changes either, of a replica and of a source
that two sites bring in. Tests check the table, and the diagram in `docs/roles.md` is drawn from it.
"""

from __future__ import annotations

from enum import Enum

from ha.errors import InvariantViolation


class ReplicaRole(Enum):
    """The role of a replica."""

    WARMING = "warming"
    """A secondary that is fetching its state: it cannot take over."""
    STANDBY = "standby"
    """A secondary that has its state: it can take over at once."""
    PRIMARY = "primary"
    """It sends its output."""


class RoleEvent(Enum):
    """An event in the life of a replica."""

    FOUNDED = "founded"
    """It is the first replica of its fragment: it starts with empty state, as primary."""
    STATE_INSTALLED = "state installed"
    STATE_BROKEN = "state broken"
    """Input is missing that only the peer replica's state can replace."""
    STATE_UNUSABLE = "state unusable"
    """Evaluating its input raised an error, so its state cannot be relied on any more. Or it cannot
    continue what its predecessor has sent."""
    PEER_REPLICA_LOST = "peer replica lost"
    PROMOTED = "promoted"
    """A newer plan makes it primary."""
    SUPERSEDED = "superseded"
    """Another host knows a newer epoch: the peer replica has taken over."""
    OVERRULED = "overruled"
    """The store has accepted another primary in this replica's epoch, or in a newer one, or has
    replaced this replica while it took over."""


class EpochRule(Enum):
    """What a transition does to the replica's epoch, which never falls."""

    KEEP = "keeps its epoch"
    ADOPT = "adopts the event's epoch"
    NEXT = "begins the next epoch"


transitions: dict[tuple[ReplicaRole, RoleEvent], tuple[ReplicaRole, EpochRule]] = {
    (ReplicaRole.WARMING, RoleEvent.FOUNDED): (ReplicaRole.PRIMARY, EpochRule.ADOPT),
    (ReplicaRole.WARMING, RoleEvent.STATE_INSTALLED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
    (ReplicaRole.WARMING, RoleEvent.STATE_BROKEN): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.WARMING, RoleEvent.STATE_UNUSABLE): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.WARMING, RoleEvent.PEER_REPLICA_LOST): (ReplicaRole.WARMING, EpochRule.KEEP),
    # It has no state to be primary with. The coordinator sees that, and starts the fragment over.
    (ReplicaRole.WARMING, RoleEvent.PROMOTED): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.WARMING, RoleEvent.SUPERSEDED): (ReplicaRole.WARMING, EpochRule.ADOPT),
    (ReplicaRole.WARMING, RoleEvent.OVERRULED): (ReplicaRole.WARMING, EpochRule.ADOPT),
    # Its primary has crossed a discontinuity of an input, before which it has stopped.
    (ReplicaRole.STANDBY, RoleEvent.STATE_INSTALLED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
    (ReplicaRole.STANDBY, RoleEvent.STATE_BROKEN): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.STANDBY, RoleEvent.STATE_UNUSABLE): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.STANDBY, RoleEvent.PEER_REPLICA_LOST): (ReplicaRole.PRIMARY, EpochRule.NEXT),
    (ReplicaRole.STANDBY, RoleEvent.PROMOTED): (ReplicaRole.PRIMARY, EpochRule.ADOPT),
    (ReplicaRole.STANDBY, RoleEvent.SUPERSEDED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
    (ReplicaRole.STANDBY, RoleEvent.OVERRULED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
    # There is no other state: the missing tuples are lost, and counted.
    (ReplicaRole.PRIMARY, RoleEvent.STATE_BROKEN): (ReplicaRole.PRIMARY, EpochRule.KEEP),
    (ReplicaRole.PRIMARY, RoleEvent.STATE_UNUSABLE): (ReplicaRole.WARMING, EpochRule.KEEP),
    (ReplicaRole.PRIMARY, RoleEvent.PEER_REPLICA_LOST): (ReplicaRole.PRIMARY, EpochRule.KEEP),
    (ReplicaRole.PRIMARY, RoleEvent.PROMOTED): (ReplicaRole.PRIMARY, EpochRule.ADOPT),
    (ReplicaRole.PRIMARY, RoleEvent.SUPERSEDED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
    (ReplicaRole.PRIMARY, RoleEvent.OVERRULED): (ReplicaRole.STANDBY, EpochRule.ADOPT),
}


def transition(role: ReplicaRole, event: RoleEvent) -> tuple[ReplicaRole, EpochRule]:
    """The role after `event`, and what happens to the epoch.

    Raises
    ------
    InvariantViolation
        If the table has no such transition.
    """
    try:
        return transitions[role, event]
    except KeyError:
        raise InvariantViolation(
            f"{event.value!r} cannot happen to a {role.value} replica"
        ) from None


def succeed(
    role: ReplicaRole, epoch: int, event: RoleEvent, of_epoch: int = 0
) -> tuple[ReplicaRole, int]:
    """Role and epoch after `event`.

    Parameters
    ----------
    of_epoch
        Of an event that brings one. A peer that knows no newer epoch than this one changes nothing,
        nor do a plan and the store with an older one. A plan may bring the epoch that others, who
        have read it before, have told of.
    """
    if event is RoleEvent.SUPERSEDED and of_epoch <= epoch:
        return role, epoch
    if event in (RoleEvent.PROMOTED, RoleEvent.OVERRULED) and of_epoch < epoch:
        return role, epoch
    after, rule = transition(role, event)
    match rule:
        case EpochRule.KEEP:
            return after, epoch
        case EpochRule.NEXT:
            return after, epoch + 1
        case EpochRule.ADOPT:
            return after, max(epoch, of_epoch)

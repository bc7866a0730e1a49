"""The roles of a replica, and the events that change them.

The table `transitions` is the specification. `Replica` looks roles up in it, tests check it, and
the diagram in `docs/roles.md` is drawn from it.
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
    PEER_REPLICA_LOST = "peer replica lost"
    PROMOTED = "promoted"
    """A newer plan makes it primary."""
    SUPERSEDED = "superseded"
    """Another host knows a newer epoch: the peer replica has taken over."""


transitions: dict[tuple[ReplicaRole, RoleEvent], ReplicaRole] = {
    (ReplicaRole.WARMING, RoleEvent.FOUNDED): ReplicaRole.PRIMARY,
    (ReplicaRole.WARMING, RoleEvent.STATE_INSTALLED): ReplicaRole.STANDBY,
    (ReplicaRole.WARMING, RoleEvent.STATE_BROKEN): ReplicaRole.WARMING,
    (ReplicaRole.WARMING, RoleEvent.PEER_REPLICA_LOST): ReplicaRole.WARMING,
    (ReplicaRole.WARMING, RoleEvent.SUPERSEDED): ReplicaRole.WARMING,
    (ReplicaRole.STANDBY, RoleEvent.STATE_BROKEN): ReplicaRole.WARMING,
    (ReplicaRole.STANDBY, RoleEvent.PEER_REPLICA_LOST): ReplicaRole.PRIMARY,
    (ReplicaRole.STANDBY, RoleEvent.PROMOTED): ReplicaRole.PRIMARY,
    (ReplicaRole.STANDBY, RoleEvent.SUPERSEDED): ReplicaRole.STANDBY,
    (ReplicaRole.PRIMARY, RoleEvent.PEER_REPLICA_LOST): ReplicaRole.PRIMARY,
    (ReplicaRole.PRIMARY, RoleEvent.PROMOTED): ReplicaRole.PRIMARY,
    (ReplicaRole.PRIMARY, RoleEvent.SUPERSEDED): ReplicaRole.STANDBY,
    # There is no other state: the missing tuples are lost, and counted.
    (ReplicaRole.PRIMARY, RoleEvent.STATE_BROKEN): ReplicaRole.PRIMARY,
}


def next_role(role: ReplicaRole, event: RoleEvent) -> ReplicaRole:
    """The role after `event`.

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

"""What one copy of a fragment may be, and what moves it from one role to the next.

The table is the specification: `docs/roles.md` draws it, `tests` walk it, and `Replica` asks it.
"""

from __future__ import annotations

from enum import Enum

from ha.errors import InvariantViolation


class ReplicaRole(Enum):
    """What a copy is doing."""

    WARMING = "warming"
    """A secondary that is fetching state: it cannot take over."""
    STANDBY = "standby"
    """A secondary that has all state: it takes over at once."""
    PRIMARY = "primary"
    """It sends its output."""


class RoleEvent(Enum):
    """What may happen to a copy."""

    FOUNDED = "founded"
    """Told to be the first copy: it starts from nothing, as primary."""
    STATE_INSTALLED = "state installed"
    STATE_BROKEN = "state broken"
    """Input was lost that only the twin's state can make good."""
    PEER_REPLICA_LOST = "peer replica lost"
    PROMOTED = "promoted"
    """Told by a newer plan to be primary."""
    SUPERSEDED = "superseded"
    """Somebody knows a newer epoch: another copy has taken over."""


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
    # Its state is all there is: what is lost is lost, and counted.
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
        raise InvariantViolation(f"{event.value!r} cannot happen to a {role.value} copy") from None

"""What one copy of a fragment may be, and what moves it from one role to the next.

The table is the specification: `docs/roles.md` draws it, `tests` walk it, and `Replica` asks it.
"""

from __future__ import annotations

from enum import Enum

from ha.errors import InvariantViolation


class Role(Enum):
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
    TWIN_LOST = "twin lost"
    PROMOTED = "promoted"
    """Told by a newer plan to be primary."""
    SUPERSEDED = "superseded"
    """Somebody knows a newer epoch: another copy has taken over."""


transitions: dict[tuple[Role, RoleEvent], Role] = {
    (Role.WARMING, RoleEvent.FOUNDED): Role.PRIMARY,
    (Role.WARMING, RoleEvent.STATE_INSTALLED): Role.STANDBY,
    (Role.WARMING, RoleEvent.STATE_BROKEN): Role.WARMING,
    (Role.WARMING, RoleEvent.TWIN_LOST): Role.WARMING,
    (Role.WARMING, RoleEvent.SUPERSEDED): Role.WARMING,
    (Role.STANDBY, RoleEvent.STATE_BROKEN): Role.WARMING,
    (Role.STANDBY, RoleEvent.TWIN_LOST): Role.PRIMARY,
    (Role.STANDBY, RoleEvent.PROMOTED): Role.PRIMARY,
    (Role.STANDBY, RoleEvent.SUPERSEDED): Role.STANDBY,
    (Role.PRIMARY, RoleEvent.TWIN_LOST): Role.PRIMARY,
    (Role.PRIMARY, RoleEvent.PROMOTED): Role.PRIMARY,
    (Role.PRIMARY, RoleEvent.SUPERSEDED): Role.STANDBY,
    # Its state is all there is: what is lost is lost, and counted.
    (Role.PRIMARY, RoleEvent.STATE_BROKEN): Role.PRIMARY,
}


def next_role(role: Role, event: RoleEvent) -> Role:
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

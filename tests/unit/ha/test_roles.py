from itertools import product

import pytest

from ha.errors import InvariantViolation
from ha.roles import Role, RoleEvent, next_role, transitions


def test_only_a_warm_copy_takes_over() -> None:
    assert next_role(Role.STANDBY, RoleEvent.TWIN_LOST) is Role.PRIMARY
    assert next_role(Role.WARMING, RoleEvent.TWIN_LOST) is Role.WARMING


def test_a_deposed_primary_stays_warm() -> None:
    assert next_role(Role.PRIMARY, RoleEvent.SUPERSEDED) is Role.STANDBY


def test_every_role_survives_every_outside_event() -> None:
    outside = (RoleEvent.TWIN_LOST, RoleEvent.SUPERSEDED, RoleEvent.STATE_BROKEN)
    for role, event in product(Role, outside):
        assert (role, event) in transitions


def test_a_warm_copy_is_not_founded_anew() -> None:
    with pytest.raises(InvariantViolation, match="founded"):
        next_role(Role.STANDBY, RoleEvent.FOUNDED)

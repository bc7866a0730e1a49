from itertools import product

import pytest

from ha.errors import InvariantViolation
from ha.roles import EpochRule, ReplicaRole, RoleEvent, transition, transitions

OUTSIDE = set(RoleEvent) - {RoleEvent.FOUNDED, RoleEvent.STATE_INSTALLED}
"""What happens without a state having come."""


def test_only_a_warm_replica_takes_over() -> None:
    assert transition(ReplicaRole.STANDBY, RoleEvent.PEER_REPLICA_LOST) == (
        ReplicaRole.PRIMARY,
        EpochRule.NEXT,
    )
    assert transition(ReplicaRole.WARMING, RoleEvent.PEER_REPLICA_LOST)[0] is ReplicaRole.WARMING


@pytest.mark.parametrize("event", [RoleEvent.SUPERSEDED, RoleEvent.OVERRULED])
def test_a_deposed_primary_stays_warm(event: RoleEvent) -> None:
    assert transition(ReplicaRole.PRIMARY, event) == (ReplicaRole.STANDBY, EpochRule.ADOPT)


def test_every_role_survives_every_outside_event() -> None:
    for role, event in product(ReplicaRole, OUTSIDE):
        assert (role, event) in transitions


def test_a_replica_without_state_is_no_primary_whatever_it_is_told() -> None:
    for event in OUTSIDE:
        assert transition(ReplicaRole.WARMING, event)[0] is ReplicaRole.WARMING


def test_a_warm_replica_is_not_founded_anew() -> None:
    with pytest.raises(InvariantViolation, match="founded"):
        transition(ReplicaRole.STANDBY, RoleEvent.FOUNDED)

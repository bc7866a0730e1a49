from itertools import product

import pytest

from ha.errors import InvariantViolation
from ha.roles import ReplicaRole, RoleEvent, next_role, transitions


def test_only_a_warm_replica_takes_over() -> None:
    assert next_role(ReplicaRole.STANDBY, RoleEvent.PEER_REPLICA_LOST) is ReplicaRole.PRIMARY
    assert next_role(ReplicaRole.WARMING, RoleEvent.PEER_REPLICA_LOST) is ReplicaRole.WARMING


def test_a_deposed_primary_stays_warm() -> None:
    assert next_role(ReplicaRole.PRIMARY, RoleEvent.SUPERSEDED) is ReplicaRole.STANDBY


def test_every_role_survives_every_outside_event() -> None:
    outside = (RoleEvent.PEER_REPLICA_LOST, RoleEvent.SUPERSEDED, RoleEvent.STATE_BROKEN)
    for role, event in product(ReplicaRole, outside):
        assert (role, event) in transitions


def test_a_warm_replica_is_not_founded_anew() -> None:
    with pytest.raises(InvariantViolation, match="founded"):
        next_role(ReplicaRole.STANDBY, RoleEvent.FOUNDED)

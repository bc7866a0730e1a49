"""What operators do to a cluster while it runs: switchovers, moves and drains, as records.

Times count from the moment the streams begin. Who carries an operation out has done all that a
client does: the plan of moves is written, and the leader checks it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from orchestrator.control.decide.drain import drain_steps
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.planner import Planning
from orchestrator.records import MoveStep


class TrialOperation(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True
):
    """Base of all operations."""

    at_ms: int


class Switchover(TrialOperation, frozen=True, kw_only=True, tag="switchover"):
    """Primary and secondary of a fragment change roles."""

    fragment: str


class ReplicaMove(TrialOperation, frozen=True, kw_only=True, tag="move"):
    """A replica of a fragment goes to a node.

    Attributes
    ----------
    withdrawn_ms
        When that is withdrawn, if it is.
    """

    fragment: str
    role: Literal["primary", "secondary"]
    node: str
    withdrawn_ms: int | None = None


class Drain(TrialOperation, frozen=True, kw_only=True, tag="drain"):
    """A node is cordoned, and all its replicas go to other nodes.

    Attributes
    ----------
    until_ms
        When it is admitted again; None: never.
    """

    node: str
    at_a_time: int = 1
    until_ms: int | None = None


AnyOperation = Switchover | ReplicaMove | Drain


def steps_of(
    operation: AnyOperation, view: ClusterView, query_of: dict[str, str]
) -> tuple[MoveStep, ...]:
    """The moves that an operation consists of now; none if there is nothing to move."""
    if isinstance(operation, Drain):
        planning = Planning.of(view)
        return drain_steps(planning, operation.node)[0]
    key = f"{query_of[operation.fragment]}.{operation.fragment}"
    found = view.fragments.get(key)
    if found is None:
        return ()
    if isinstance(operation, ReplicaMove):
        return (MoveStep(fragment=key, role=operation.role, node=operation.node),)
    secondary = found.record.secondary
    return (
        () if secondary is None else (MoveStep(fragment=key, role="primary", node=secondary.node),)
    )


def operation_text(operation: AnyOperation) -> str:
    """An operation in a line, without its time."""
    fields = msgspec.to_builtins(operation)
    kind = fields.pop("kind")
    del fields["at_ms"]
    return " ".join([kind, *(f"{name}={value}" for name, value in fields.items())])

"""S(Q): how many tuples of a query can be evaluated in time (adaptive batching, §3.3, (4) to (7)).

A tuple that enters an operator passes through the chain behind it. With cost a + b·n of a batch of
n tuples at each operator, and selectivity θ,

    a(Q) = Σ aᵢ                      b(Q) = b₁ + θ₁·b₂ + θ₁·θ₂·b₃ + …              (4), (5)
    S(Q) = (time left − a(Q) − C_sche) / b(Q)                                      (6), (7)

===========  ==============  ===================================================================
symbol       name here       meaning
===========  ==============  ===================================================================
C_sche       (in fixed_us)   processor time of dispatching a batch, µs
θ            selectivity     tuples that an operator emits for each that it takes
===========  ==============  ===================================================================

The paper takes the time that is left from the deadline of the oldest tuple, and drops what is
beyond S(Q) in the operator's queue. Here a host takes S(Q) tuples from a stream's producer, so what
is beyond S(Q) waits where the stream enters, and is dropped there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

QUEUED_SHARE = 0.5
"""Of a sub-deadline, the share in which a host evaluates what it takes. The rest is left to the
batch that runs, to standby work, and to costs that are higher than measured."""

LEAST_US = 1e-3
"""Cost of a tuple whose estimate is zero."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """The cost of an operator of a chain.

    Attributes
    ----------
    fixed_us
        a with C_sche, µs, ≥ 0.
    per_tuple_us
        b, µs, ≥ 0.
    selectivity
        θ, ≥ 0.
    """

    fixed_us: float
    per_tuple_us: float
    selectivity: float = 1.0


def tuples_in_time(chain: Sequence[OperatorCost], left_us: float) -> int:
    """S(Q): tuples that a chain of operators evaluates within a time; at least one.

    Examples
    --------
    >>> chain = (OperatorCost(1000, 40, selectivity=0.5), OperatorCost(1000, 20))
    >>> tuples_in_time(chain, 12_000)
    200
    """
    fixed_us = per_tuple_us = 0.0
    reaching = 1.0
    for operator in chain:
        fixed_us += operator.fixed_us
        per_tuple_us += reaching * operator.per_tuple_us
        reaching *= operator.selectivity
    return max(int((left_us - fixed_us) / max(per_tuple_us, LEAST_US)), 1)


def own_part_us(sub_deadline_us: float, others_us: float, tasks: int) -> float:
    """The time that a task has for what it takes.

    What is pending for the other tasks of its host may run first, but each of them has its part of
    the time only.

    Parameters
    ----------
    others_us
        Expected duration of the others' pending work, µs.
    tasks
        How many there are, with this one, ≥ 1.
    """
    queued_us = QUEUED_SHARE * sub_deadline_us
    return max(queued_us - others_us, queued_us / tasks)

"""Standby schemes: how much of its input a secondary is sent, and what that costs at recovery.

Reliable placement, §3.1 and §4.6. Under *Active Standby* (AS) an upstream sends every tuple to
primary and secondary at once. Under *Semi-Active Standby* (SAS) it keeps them and sends the
secondary batches of B; a tuple that is acknowledged before its batch is full is trimmed and never
sent. B = 1 is Active Standby. *Adaptive Semi-Active Standby* (A-SAS) takes the largest B for which
the recovery time R = max K + ΣQ·p keeps the bound R'.

=========  ==============  =======================================================
symbol     name here       meaning
=========  ==============  =======================================================
B          batch_size      tuples that are sent at once
Q          B − 1           tuples that an upstream holds back at most
p          cost_us         processing time of a tuple
R, R'      recovery, bound recovery time and its bound
N          (local)         tuples between two acknowledgements
=========  ==============  =======================================================

What is sent of a stream follows from N (`placement.standby_schemes.sent_share`). From B > N + 1 on
nothing is ever sent, so larger batches are not considered. The schemes as the product carries them
out, with checkpoints instead of free acknowledgements, are in `placement.standby_schemes`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from placement.evaluation.evaluator import reprocess_ms
from placement.graph import QueryGraph
from placement.records import Recovery


def largest_batch(
    graph: QueryGraph, operator: str, active: Recovery, bound_ms: float, ack_interval_ms: float
) -> int:
    """The B of A-SAS: the largest with which an operator's secondary keeps the bound.

    Parameters
    ----------
    active
        The secondary's recovery under Active Standby.
    bound_ms
        R'. If Active Standby itself does not keep it, 1.
    """
    fastest = max(link.tuples_s for link in graph.inputs[operator])
    enough = math.floor(fastest * ack_interval_ms / 1e3) + 2
    slack_ms = bound_ms - active.total_ms
    if slack_ms < 0:
        return 1
    each_ms = reprocess_ms(graph, operator, batch_size=2)
    # In a product, for the quotient may be beyond all numbers.
    is_ample = slack_ms >= (enough - 1) * each_ms
    batch_size = enough if is_ample else 1 + math.floor(slack_ms / each_ms)
    # The bound is often met to the last digit, where the quotient may have been rounded up.
    while batch_size > 1 and with_batches(graph, operator, active, batch_size).total_ms > bound_ms:
        batch_size -= 1
    return batch_size


def with_batches(graph: QueryGraph, operator: str, active: Recovery, batch_size: int) -> Recovery:
    """Recovery of a secondary fed in batches, from its recovery under Active Standby."""
    return replace(active, reprocess_ms=reprocess_ms(graph, operator, batch_size))

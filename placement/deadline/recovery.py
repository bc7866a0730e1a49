"""Restricts candidates to nodes beside which a secondary can still be placed.

A deadline placement chooses primaries; the secondaries are chosen later. A secondary needs a node
that shares no failure domain with the primary's, and whose latency from every node that feeds the
operator keeps the transfer time K of recovery within the recovery bound (reliable placement, (1)).
Candidates for which there is no such node are removed before the placement is solved.

The nodes of the feeding operators are not known at that time. A node therefore counts as near only
if it is near to all candidates of these operators. This may remove a candidate that would have
been possible, but it never keeps an impossible one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placement.deadline.errors import NoStandby
from placement.deadline.problem import DeadlineProblem


def keep_recoverable(
    problem: DeadlineProblem,
    domains: Mapping[str, Sequence[int]],
    transfer_ms: Mapping[str, float],
    standbys: Sequence[str] | None = None,
) -> DeadlineProblem:
    """The same problem with only those candidates beside which a secondary is possible.

    Parameters
    ----------
    domains
        Node → its failure domain by each kind that counts, for all nodes.
    transfer_ms
        Operator → limit of K, ms: the recovery bound minus detection and reprocessing. An
        operator that is not named needs no secondary.
    standbys
        Nodes on which secondaries may run; None: all.

    Raises
    ------
    NoStandby
        If an operator has no candidate left.
    """
    nodes = [node.name for node in problem.nodes] if standbys is None else list(standbys)
    kept: dict[str, tuple[str, ...]] = {}
    for name in problem.order:
        kept[name] = problem.by_name[name].candidates
        if name in transfer_ms:
            reach_ms = {node: _farthest_ms(problem, name, kept, node) for node in nodes}
            kept[name] = recoverable(name, kept[name], reach_ms, domains, transfer_ms[name])
    return problem.with_candidates(kept)


def recoverable(
    operator: str,
    candidates: Sequence[str],
    reach_ms: Mapping[str, float],
    domains: Mapping[str, Sequence[int]],
    transfer_ms: float,
) -> tuple[str, ...]:
    """Those candidates for which a near enough node lies in no common failure domain.

    Parameters
    ----------
    operator
        Named in the error.
    reach_ms
        Node on which a secondary may run → one-way latency from the farthest feeding node, ms.
    domains
        Node → its failure domain by each kind that counts.
    transfer_ms
        Limit of this latency, ms.

    Raises
    ------
    NoStandby
        If no candidate is left, with the least latency of a node in no common domain.
    """

    def apart(node: str, other: str) -> bool:
        return all(a != b for a, b in zip(domains[node], domains[other], strict=True))

    near = [node for node, ms in reach_ms.items() if ms <= transfer_ms]
    kept = tuple(node for node in candidates if any(apart(node, other) for other in near))
    if kept:
        return kept
    elsewhere = [
        ms for other, ms in reach_ms.items() if any(apart(node, other) for node in candidates)
    ]
    raise NoStandby(operator, transfer_ms, min(elsewhere, default=None))


def _farthest_ms(
    problem: DeadlineProblem, name: str, kept: Mapping[str, tuple[str, ...]], node: str
) -> float:
    """Latency to a node from the farthest node that may feed an operator, ms."""
    index, ms = problem.node_index, problem.latency_ms
    upstream = [at for before in problem.upstream(name) for at in kept[before]]
    for stream in problem.by_name[name].inputs:
        if stream in problem.source:
            upstream += problem.source[stream].nodes
    return max(float(ms[index[before], index[node]]) for before in upstream)

"""Candidates beside which a secondary stays possible.

A deadline placement chooses primaries; their secondaries are chosen later, on another node, in
another failure domain where there are several, and so near to all that feed the operator that the
transfer time K of recovery (reliable placement, (1)) stays within what the bound leaves. Whether
there is such a node must not be left to chance: candidates without one are taken away beforehand.

Which nodes the feeding operators take is not known then. A node counts as near if it is near to
all that they may take, so a candidate may be taken away that would have done; none is kept that
would not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from placement.deadline.errors import NoStandby
from placement.deadline.problem import DeadlineProblem


def keep_recoverable(
    problem: DeadlineProblem,
    domains: Mapping[str, str],
    transfer_ms: Mapping[str, float],
    standbys: Sequence[str] | None = None,
) -> DeadlineProblem:
    """The same problem with those candidates only beside which a secondary is possible.

    Parameters
    ----------
    domains
        Node → failure domain, of all nodes.
    transfer_ms
        Operator → the most that K may take, ms: the recovery bound less detection and
        reprocessing. Operators that it does not name need no secondary.
    standbys
        Nodes that secondaries may take; None: all.

    Raises
    ------
    NoStandby
        If an operator has no candidate left.
    """
    nodes = [node.name for node in problem.nodes] if standbys is None else list(standbys)
    left: dict[str, tuple[str, ...]] = {}
    for name in problem.order:
        candidates = problem.by_name[name].candidates
        if name not in transfer_ms:
            left[name] = candidates
            continue
        reach_ms = {node: _farthest_ms(problem, name, left, node) for node in nodes}
        left[name] = recoverable(name, candidates, reach_ms, domains, transfer_ms[name])
    return DeadlineProblem(
        nodes=problem.nodes,
        operators=tuple(replace(o, candidates=left[o.name]) for o in problem.operators),
        sources=problem.sources,
        outputs=problem.outputs,
        one_way_ms=problem.one_way_ms,
        rates_bytes_s=problem.rates_bytes_s,
    )


def recoverable(
    operator: str,
    candidates: Sequence[str],
    reach_ms: Mapping[str, float],
    domains: Mapping[str, str],
    transfer_ms: float,
) -> tuple[str, ...]:
    """Those candidates beside which another node, in another domain, is near enough.

    Parameters
    ----------
    operator
        For the error.
    reach_ms
        Node that a secondary may take → one-way latency from the farthest feeding node, ms.
    domains
        Node → failure domain. If all nodes lie in one, another node suffices.
    transfer_ms
        The most that this latency may be.

    Raises
    ------
    NoStandby
        If none is left, with the least latency of a node in another place.
    """
    several = len(set(domains.values())) > 1

    def apart(node: str, other: str) -> bool:
        return domains[node] != domains[other] if several else node != other

    near = [node for node, ms in reach_ms.items() if ms <= transfer_ms]
    kept = tuple(node for node in candidates if any(apart(node, other) for other in near))
    if kept:
        return kept
    elsewhere = [
        ms for other, ms in reach_ms.items() if any(apart(node, other) for node in candidates)
    ]
    raise NoStandby(operator, transfer_ms, min(elsewhere, default=None))


def _farthest_ms(
    problem: DeadlineProblem, name: str, left: Mapping[str, tuple[str, ...]], node: str
) -> float:
    """Latency to a node from the farthest that feeds an operator, ms."""
    index, ms = problem.node_index, problem.latency_ms
    feeders = [at for before in problem.upstream(name) for at in left[before]]
    for stream in problem.by_name[name].inputs:
        if stream in problem.source:
            feeders += problem.source[stream].nodes
    return max(float(ms[index[feeder], index[node]]) for feeder in feeders)

"""A first placement: operators one by one in order of their sub-deadlines, then single moves.

Objective (3) is 0 if no demand of (6) exceeds a proportional sub-deadline and no path of
proportional sub-deadlines and latencies exceeds its deadline. The first condition is a packing
problem: each operator, in the order of (6), takes the node on which demand stays farthest below
the proportional sub-deadlines. Then operators are moved one at a time while a move lowers the
penalty.
"""

from __future__ import annotations

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem

NEGLIGIBLE = 1e-9
"""A smaller decrease, in units of (3), does not count as an improvement."""


def place_greedily(problem: DeadlineProblem, rounds: int = 4) -> dict[str, str]:
    """Place all operators.

    Parameters
    ----------
    rounds
        Limit of the passes over the operators that try single moves, ≥ 0.

    Returns
    -------
    dict of str to str
        Operator → node. The placement may have no sub-deadlines that keep the deadlines
        (`placement.deadline.sub_deadlines`).
    """
    demand = DemandTable(problem)
    # Operators with one candidate come first, since the others must adapt to them.
    choice = {name: len(problem.by_name[name].candidates) > 1 for name in problem.charged}
    names = sorted(problem.charged, key=choice.__getitem__)
    for name in names:
        demand.put(name, _best(problem, demand, name))
    for _ in range(rounds):
        moved = False
        for name in names:
            if choice[name]:
                before = demand.take(name)
                now = _best(problem, demand, name, stay=before)
                demand.put(name, now)
                moved = moved or now != before
        if not moved:
            break
    return demand.places()


def _best(problem: DeadlineProblem, demand: DemandTable, name: str, stay: int | None = None) -> int:
    """The candidate with the least penalty for demand and delay; if equal, the least full."""
    nodes = [problem.node_index[node] for node in problem.by_name[name].candidates]
    found = {
        node: (round(penalty + _delay(problem, demand, name, node), 9), ratio)
        for node, (penalty, ratio) in zip(nodes, demand.penalties(name, nodes), strict=True)
    }
    best = min(nodes, key=lambda node: (*found[node], node))
    if stay is not None and found[stay][0] <= found[best][0] + NEGLIGIBLE:
        return stay
    return best


def _delay(problem: DeadlineProblem, demand: DemandTable, name: str, node: int) -> float:
    """Latency to placed neighbours in units of (3), as if sub-deadlines had to absorb all of it."""
    if problem.one_way_ms is None:
        return 0.0
    ms = 0.0
    for stream in problem.by_name[name].inputs:
        if stream in problem.source:
            ms += problem.source_latency_ms(stream, node)
        elif problem.producer[stream] in demand.at:
            ms += float(problem.one_way_ms[demand.at[problem.producer[stream]], node])
    for stream in problem.by_name[name].outputs:
        targets = [demand.at[other] for other in problem.consumers[stream] if other in demand.at]
        if stream in problem.output:
            targets.insert(0, problem.node_index[problem.output[stream].sink])
        for target in targets:
            ms += float(problem.one_way_ms[node, target])
    return ms / problem.cost_ms(name)

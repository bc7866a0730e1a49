"""A good placement at once: greedy by deadline, then one operator moved at a time.

(3) is 0 exactly when no demand of (6) exceeds a fair share and no path of fair shares and
latencies exceeds its deadline. The first is a matter of packing: operators are put, those with
the least fair shares first, where demand stays farthest below fair shares. Then operators are
moved while that brings the objective down.
"""

from __future__ import annotations

from placement.deadline.demand_table import DemandTable
from placement.deadline.problem import DeadlineProblem
from placement.deadline.sub_deadlines import source_ms

NEGLIGIBLE = 1e-9
"""Less than this is no improvement, in units of (3)."""


def place_greedily(problem: DeadlineProblem, rounds: int = 4) -> dict[str, str]:
    """Place all operators.

    Parameters
    ----------
    rounds
        How many times at most each operator is looked at again, ≥ 0.

    Returns
    -------
    dict of str to str
        Operator → node. Nothing says that there are sub-deadlines for it
        (`placement.deadline.sub_deadlines`).
    """
    demand_table = DemandTable(problem)
    by_deadline = sorted(problem.order, key=problem.first.__getitem__)
    # Those without choice first: the others have to go round them.
    by_deadline.sort(key=lambda name: len(problem.by_name[name].candidates) > 1)
    for name in by_deadline:
        demand_table.put(name, _best(problem, demand_table, name))
    free = [name for name in by_deadline if len(problem.by_name[name].candidates) > 1]
    for _ in range(rounds):
        moved = False
        for name in free:
            before = demand_table.take(name)
            now = _best(problem, demand_table, name, stay=before)
            demand_table.put(name, now)
            moved = moved or now != before
        if not moved:
            break
    return {name: problem.nodes[demand_table.at[name]].name for name in problem.order}


def _best(
    problem: DeadlineProblem, demand_table: DemandTable, name: str, stay: int | None = None
) -> int:
    """The node with the least penalty for demand and delay; of equals, the least full."""
    nodes = [problem.node_index[node] for node in problem.by_name[name].candidates]
    penalties = demand_table.penalties(name, nodes)
    found = {
        node: (round(penalty + _delay(problem, demand_table, name, node), 9), full)
        for node, (penalty, full) in zip(nodes, penalties, strict=True)
    }
    best = min(nodes, key=lambda node: (*found[node], node))
    if stay is not None and found[stay][0] <= found[best][0] + NEGLIGIBLE:
        return stay
    return best


def _delay(problem: DeadlineProblem, demand_table: DemandTable, name: str, node: int) -> float:
    """Latency to placed neighbours, as though sub-deadlines had to make all of it good."""
    if problem.one_way_ms is None:
        return 0.0
    ms = 0.0
    for stream in problem.by_name[name].inputs:
        if stream in problem.source:
            ms += source_ms(problem, stream, node)
        elif problem.producer[stream] in demand_table.at:
            ms += float(problem.one_way_ms[demand_table.at[problem.producer[stream]], node])
    for stream in problem.by_name[name].outputs:
        if stream in problem.output:
            sink = problem.node_index[problem.output[stream].sink]
            ms += float(problem.one_way_ms[node, sink])
        for other in problem.consumers[stream]:
            if other in demand_table.at:
                ms += float(problem.one_way_ms[node, demand_table.at[other]])
    return ms / problem.cost_ms(name)

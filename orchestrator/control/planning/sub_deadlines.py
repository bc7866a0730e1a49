"""Step 2: by when each fragment must be done so that every output keeps its deadline.

The cheapest primaries are kept if on every node all work can be done by its sub-deadlines, earliest
deadline first, with time to spare (`SPARE`). Every fragment then gets its proportional
sub-deadline. Else other primaries are needed: `other_primaries` is the one step of planning that
goes back.

Work that is admitted already keeps its sub-deadlines, and a query that would break them is refused.
The only exception are queries that read each other's streams: their sub-deadlines are set anew
together, since a shared fragment must be done in time for each of them.

Fragments that follow each other on one node are contracted to one operator of the deadline problem,
as they are one task of the host: they never wait for each other, so counting them against each
other would refuse plans that can be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.control.planning.task import QueryTask, RunningFragment
from orchestrator.control.planning.workload import FragmentWork, Workload
from placement.deadline.contraction import Contraction, contract
from placement.deadline.demand import admit, tightest, work_of
from placement.deadline.errors import NoStandby
from placement.deadline.paper_model import place_by_paper_model
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    Admitted,
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)
from placement.deadline.recovery import keep_recoverable
from placement.deadline.result import least_by_operator
from placement.deadline.solver import place_by_deadline, unattainable
from placement.deadline.solver_model import SolverSettings
from placement.deadline.sub_deadlines import best_sub_deadlines, proportional_sub_deadlines
from placement.network import NetworkView
from placement.program import MilpSettings

SPARE = 0.2
"""Share of every sub-deadline that the cheapest primaries must leave free for costs that are
higher than expected; with less, primaries that divide the time better are looked for."""

USAGE_WEIGHT = 1e-9
"""Weight of a byte of network usage in the deadline program: it decides between placements that are
equally good."""

SOLVING = MilpSettings(gap=0.01, time_limit_s=20.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubDeadlines:
    """Primaries and the sub-deadlines that they keep.

    Attributes
    ----------
    places
        Operator or fragment → node of its primary.
    sub_deadlines_ms
        Operator or fragment → by when it must be done after its input has come, ms.
    """

    places: dict[str, str]
    sub_deadlines_ms: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineTask:
    """The deadline problem of a query and of those that it shares fragments with.

    Attributes
    ----------
    contraction
        The problem of single fragments, and the one with chains as operators.
    places
        Operator of the contracted problem → node of its cheapest primary.
    """

    contraction: Contraction
    places: Mapping[str, str]

    @property
    def problem(self) -> DeadlineProblem:
        """The contracted problem."""
        return self.contraction.problem

    def of_fragments(self, found: SubDeadlines) -> SubDeadlines:
        """Sub-deadlines of the contracted problem's operators as those of the fragments."""
        parts = self.contraction.parts
        sub_deadlines_ms: dict[str, float] = {}
        for operator, ms in found.sub_deadlines_ms.items():
            sub_deadlines_ms |= self.contraction.shares(operator, ms)
        return SubDeadlines(
            places={part: node for name, node in found.places.items() for part in parts[name]},
            sub_deadlines_ms=sub_deadlines_ms,
        )


def deadline_task(task: QueryTask, cheapest: Mapping[str, Sequence[str]]) -> DeadlineTask:
    """State the deadline problem of a query.

    Part of it are the query's fragments, and those that run with a sub-deadline in a query
    connected with it, unless their own input or sink is gone at present. All other fragments that
    run are admitted work.

    Parameters
    ----------
    cheapest
        Fragment of the query → nodes that its primary may take, the cheapest one first.
    """
    work, network = task.work, task.network
    connected = work.flow.connected_queries(task.query.name)
    where = {
        **work.sites,
        **{name: running.primary for name, running in task.running.items()},
        **{name: nodes[0] for name, nodes in cheapest.items()},
    }
    timed = [n for n in work.fragments if n in task.running and where[n] in network.index]
    names = [
        name
        for name, each in work.fragments.items()
        if name in cheapest
        or (
            name in timed
            and each.fragment.query in connected
            and all(where.get(stream) in network.index for stream in each.fragment.inputs)
            and (each.sink is None or each.sink in network.index)
        )
    ]
    candidates = {name: cheapest.get(name, [where[name]]) for name in names}

    def stays(name: str, reader: str) -> bool:
        return where[name] == where[reader]

    def moves_with(name: str, reader: str) -> bool:
        return stays(name, reader) and set(candidates[name]) == set(candidates[reader])

    running = admitted_work(
        work.chains([name for name in timed if name not in names], stays), task.running
    )
    problem = deadline_problem(
        [work.fragments[name] for name in names],
        work,
        where,
        candidates,
        running,
        network,
        task.settings.hop_overhead_ms,
    )
    # A stream that is read outside the problem as well ends a chain: only the workload knows.
    chains = [set(chain) for chain in work.chains(names, moves_with)]
    contraction = contract(problem, lambda name, reader: any({name, reader} <= c for c in chains))
    return DeadlineTask(
        contraction=contraction,
        places={name: where[parts[0]] for name, parts in contraction.parts.items()},
    )


def deadline_problem(
    fragments: Sequence[FragmentWork],
    work: Workload,
    where: Mapping[str, str],
    candidates: Mapping[str, Sequence[str]],
    running: Mapping[str, tuple[Admitted, ...]],
    network: NetworkView,
    hop_overhead_ms: float,
) -> DeadlineProblem:
    """Fragments as operators of a deadline problem.

    Work on nodes that no fragment may take is left out: nothing that is decided here changes it.
    A node that is late already is no candidate if there is another: it must not keep a query from
    being placed elsewhere.

    Parameters
    ----------
    where
        Stream that is not made by the fragments → node on which it enters.
    candidates
        Fragment → nodes that its primary may take.
    running
        Node → work that is admitted already.
    hop_overhead_ms
        Cost of a link between two nodes besides its latency.
    """
    names = {each.name for each in fragments}
    read = {stream for each in fragments for stream in each.fragment.inputs}
    operators = tuple(
        DeadlineOperator(
            name=each.name,
            cost_ms=each.instance_ms,
            inputs=tuple(each.fragment.inputs),
            outputs=(each.name,),
            candidates=_in_time(candidates[each.name], running),
        )
        for each in fragments
    )
    eligible = {node for operator in operators for node in operator.candidates}
    indices = np.arange(len(network.nodes))
    one_way_ms = network.one_way_between(indices, indices) + hop_overhead_ms
    np.fill_diagonal(one_way_ms, 0.0)
    return DeadlineProblem(
        nodes=tuple(
            DeadlineNode(
                name=node.name,
                admitted=running.get(node.name, ()) if node.name in eligible else (),
            )
            for node in network.nodes
        ),
        operators=operators,
        sources=tuple(
            DeadlineSource(stream=stream, nodes=(where[stream],)) for stream in sorted(read - names)
        ),
        outputs=tuple(
            # A stream that nobody reads yet has to be made in time all the same.
            DeadlineOutput(
                stream=each.name,
                deadline_ms=each.deadline_ms,
                sink=each.sink or candidates[each.name][0],
            )
            for each in fragments
            if each.sink is not None or each.name not in read
        ),
        one_way_ms=one_way_ms,
        rates_bytes_s={stream: work.rates[stream].bytes_s for stream in read | names},
    )


def admitted_work(
    chains: Iterable[Sequence[str]], running: Mapping[str, RunningFragment]
) -> dict[str, tuple[Admitted, ...]]:
    """Node → the primaries that run there as chains, and by when they are due."""
    found: dict[str, tuple[Admitted, ...]] = {}
    for chain in chains:
        due = [running[name].timing for name in chain]
        work = Admitted(
            name=chain[0],
            cost_ms=sum(timing.cost_ms for timing in due),
            deadline_ms=sum(timing.sub_deadline_ms for timing in due),
        )
        node = running[chain[0]].primary
        found[node] = (*found.get(node, ()), work)
    return found


def kept_by_cheapest(problem: DeadlineProblem, places: Mapping[str, str]) -> SubDeadlines | None:
    """Proportional sub-deadlines of the cheapest primaries; None if they leave too little time."""
    proportional_ms = proportional_sub_deadlines(problem, places)
    eligible = all(node in problem.by_name[name].candidates for name, node in places.items())
    if proportional_ms is None or not eligible:
        return None
    tight_ms = {name: (1 - SPARE) * ms for name, ms in proportional_ms.items()}
    if not admit(problem.nodes, work_of(problem, places, tight_ms)):
        return None
    return SubDeadlines(places=dict(places), sub_deadlines_ms=proportional_ms)


def other_primaries(problem: DeadlineProblem, *, as_printed: bool = False) -> SubDeadlines:
    """Primaries among the candidates and sub-deadlines that keep all deadlines, by the program of
    deadline placement, §5.2.

    Parameters
    ----------
    as_printed
        Primaries are those of the program as printed, which knows no latencies. The sub-deadlines
        are the best ones of these places that keep the deadlines with latencies; without any, they
        are as good as the printed program's own.

    Raises
    ------
    DeadlinesUnattainable, SolverStopped, TooManyPaths
        No placement among the candidates keeps all deadlines, or none was found in time.
    """
    if as_printed:
        places = place_by_paper_model(problem, SOLVING).places
        pairs_ms = best_sub_deadlines(problem, places)
        if pairs_ms is None:
            raise unattainable(problem, SolverSettings(milp=SOLVING))
        return SubDeadlines(places=places, sub_deadlines_ms=least_by_operator(pairs_ms))
    settings = SolverSettings(usage_weight=USAGE_WEIGHT, milp=SOLVING)
    found = place_by_deadline(problem, settings)
    return SubDeadlines(places=found.places, sub_deadlines_ms=found.sub_deadlines_ms)


def with_standbys(problem: DeadlineProblem, task: QueryTask) -> DeadlineProblem:
    """The problem with those candidates only beside which a secondary keeps the recovery bound."""
    catch_up_ms = task.query.recovery_bound_ms - task.detection_ms
    choices = [o.name for o in problem.operators if len(o.candidates) > 1]
    network = task.network
    labels = network.domains.distinct.T.tolist()
    domains = {node.name: each for node, each in zip(network.nodes, labels, strict=True)}
    hosts = [node.name for node in network.hosts]
    try:
        return keep_recoverable(problem, domains, dict.fromkeys(choices, catch_up_ms), hosts)
    except NoStandby:
        # The test assumes inputs from the farthest candidates; they may come from nearer ones.
        return problem


def best_effort(problem: DeadlineProblem, places: Mapping[str, str]) -> SubDeadlines:
    """Proportional sub-deadlines of a query that runs although its deadlines cannot be kept."""
    least_ms: dict[str, float] = {}
    for pair in problem.pairs:
        least_ms[pair.operator] = min(
            pair.proportional_ms, least_ms.get(pair.operator, pair.proportional_ms)
        )
    return SubDeadlines(places=dict(places), sub_deadlines_ms=least_ms)


def _in_time(
    candidates: Sequence[str], running: Mapping[str, tuple[Admitted, ...]]
) -> tuple[str, ...]:
    """Candidates without nodes that cannot even do what they run; all of them if none is left."""

    def late(node: str) -> bool:
        work = tightest(node, running.get(node, ()))
        return work is not None and work.slack_ms < 0

    return tuple(node for node in candidates if not late(node)) or tuple(candidates)

"""Sub-deadlines: by when each fragment must be done so that every output keeps its deadline.

The cheapest placement is kept if on every node all work can be done by its sub-deadlines, earliest
deadline first, with time to spare; its sub-deadlines are then the fairest ones there are. Else the
deadline program looks for another placement among the same candidates, and its sub-deadlines are
those it proves possible (deadline placement, §5.2). Work that is admitted already keeps its
sub-deadlines, and a query that would break them is refused; only queries that read each other's
streams have their deadlines divided anew, together, since what they share must be done in time for
each.

Fragments that follow each other on one node are one operator of the program, as they are one task
of the host: they never wait for each other, so counting them against each other would refuse what
is possible.

An instance is what comes at once (`problem.Rate.burst`); its cost is what was measured of the
fragment, or what its owner estimates until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.control.dataflow import Dataflow, Fragment
from orchestrator.records import QueryRecord, Timing
from placement.deadline.demand import admit, tightest, work_of
from placement.deadline.problem import DeadlineProblem
from placement.deadline.proportional import proportional_sub_deadlines
from placement.deadline.records import (
    Admitted,
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)
from placement.deadline.settings import SolverSettings
from placement.deadline.solver import place_by_deadline
from placement.network import NetworkView
from placement.program import MilpSettings

LEAST_COST_MS = 0.2
"""Least cost of an instance: that of dispatching it, whatever is in it. A share of the deadline by
a smaller one would be due before anybody could look at it."""

SPARE = 0.2
"""Share of every sub-deadline that the cheapest placement must leave free for costs that are
higher than expected; with less, one that divides the time better is looked for."""

USAGE_WEIGHT = 1e-9
"""What a byte of network usage counts for in the deadline program: it decides between placements
that are equally fair."""

SOLVING = MilpSettings(gap=0.01, time_limit_s=20.0)


Chain = tuple[Fragment, ...]
"""Fragments that follow each other on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubDeadlines:
    """A placement that keeps the deadlines.

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
    """Queries whose deadlines are divided together, since they read each other's streams.

    Attributes
    ----------
    chains
        Fragments of all of them, producers before consumers, those that stay together in one tuple.
    queries
        By name.
    where
        Stream that is not made by the fragments → node on which it enters.
    candidates
        Fragment → nodes that its primary may take; one if it runs already; the same all along a
        chain.
    costs_ms
        Fragment → cost of an instance.
    rates_bytes_s
        By stream.
    running
        Node → work of other queries.
    hop_overhead_ms
        What a link between two nodes costs besides its latency.
    """

    chains: Sequence[Chain]
    queries: Mapping[str, QueryRecord]
    where: Mapping[str, str]
    candidates: Mapping[str, Sequence[str]]
    costs_ms: Mapping[str, float]
    rates_bytes_s: Mapping[str, float]
    running: Mapping[str, tuple[Admitted, ...]]
    hop_overhead_ms: float

    def problem(self, view: NetworkView) -> DeadlineProblem:
        """In the deadline program's terms.

        What other nodes run is left out: nothing that is decided here changes it, and a node that
        is late already must not keep a query from being placed elsewhere.
        """
        names = [chain[-1].name for chain in self.chains]
        operators = tuple(map(self._operator, self.chains))
        eligible = {node for operator in operators for node in operator.candidates}
        read = {stream for chain in self.chains for stream in chain[0].inputs}
        indices = np.arange(len(view.nodes))
        one_way_ms = view.one_way_between(indices, indices) + self.hop_overhead_ms
        np.fill_diagonal(one_way_ms, 0.0)
        return DeadlineProblem(
            nodes=tuple(
                DeadlineNode(
                    name=node.name,
                    admitted=self.running.get(node.name, ()) if node.name in eligible else (),
                )
                for node in view.nodes
            ),
            operators=operators,
            sources=tuple(
                DeadlineSource(stream=stream, nodes=(self.where[stream],))
                for stream in sorted(read.difference(names))
            ),
            outputs=tuple(self._outputs(read)),
            one_way_ms=one_way_ms,
            rates_bytes_s={stream: self.rates_bytes_s[stream] for stream in read.union(names)},
        )

    def by_operator(self, of_fragments: Mapping[str, str]) -> dict[str, str]:
        """What is said of fragments, and alike of all of a chain, said of operators."""
        return {chain[0].name: of_fragments[chain[0].name] for chain in self.chains}

    def divided(self, divided: SubDeadlines) -> SubDeadlines:
        """What is said of operators, said of fragments: each has its share by its cost."""
        places: dict[str, str] = {}
        sub_deadlines_ms: dict[str, float] = {}
        for chain in self.chains:
            whole_ms = self._cost_ms(chain)
            for fragment in chain:
                share = self.costs_ms[fragment.name] / whole_ms
                places[fragment.name] = divided.places[chain[0].name]
                sub_deadlines_ms[fragment.name] = divided.sub_deadlines_ms[chain[0].name] * share
        return SubDeadlines(places=places, sub_deadlines_ms=sub_deadlines_ms)

    def _cost_ms(self, chain: Chain) -> float:
        return sum(self.costs_ms[fragment.name] for fragment in chain)

    def _operator(self, chain: Chain) -> DeadlineOperator:
        candidates = self.candidates[chain[0].name]
        in_time = [node for node in candidates if not self._is_late(node)]
        return DeadlineOperator(
            name=chain[0].name,
            cost_ms=self._cost_ms(chain),
            inputs=tuple(chain[0].inputs),
            outputs=(chain[-1].name,),
            candidates=tuple(in_time or candidates),
            weight=len(chain),
        )

    def _is_late(self, node: str) -> bool:
        """Whether a node cannot even do what it runs: something costs more than was planned."""
        work = tightest(node, self.running.get(node, ()))
        return work is not None and work.slack_ms < 0

    def _outputs(self, read: set[str]) -> Iterator[DeadlineOutput]:
        for *_, fragment in self.chains:
            query, name = self.queries[fragment.query], fragment.name
            sink = query.outputs.get(name)
            if sink is None and name not in read:
                # Nobody reads it yet; it has to be done in time all the same.
                sink = self.candidates[name][0]
            if sink is not None:
                yield DeadlineOutput(stream=name, deadline_ms=query.deadline_of(name), sink=sink)


def chains(
    flow: Dataflow,
    fragments: Iterable[Fragment],
    queries: Mapping[str, QueryRecord],
    together: Callable[[str, str], bool],
) -> list[Chain]:
    """Fragments, those joined that only follow each other and stay together.

    Parameters
    ----------
    fragments
        Producers before consumers.
    together
        Whether two neighbours stay on one node.
    """
    readers: dict[str, set[str]] = {}
    for fragment in flow.fragments.values():
        for stream in fragment.inputs:
            readers.setdefault(stream, set()).add(fragment.name)
    found: dict[str, list[Fragment]] = {}
    for fragment in fragments:
        before = next(iter(fragment.inputs))
        maker = flow.fragments.get(before)
        if (
            before in found
            and maker is not None
            and len(fragment.inputs) == 1
            and readers[before] == {fragment.name}
            and before not in queries[maker.query].outputs
            and together(before, fragment.name)
        ):
            # A chain goes by its last fragment until another follows.
            found[fragment.name] = [*found.pop(before), fragment]
        else:
            found[fragment.name] = [fragment]
    return [tuple(chain) for chain in found.values()]


Protect = Callable[[DeadlineProblem], DeadlineProblem]
"""The same problem with those candidates only beside which a secondary keeps the recovery bound."""


def divide_deadlines(
    problem: DeadlineProblem, places: Mapping[str, str], protect: Protect
) -> SubDeadlines:
    """Keep the placement if it leaves time to spare; else look for one that keeps the deadlines.

    Parameters
    ----------
    places
        The cheapest placement.
    protect
        Applied if another placement is looked for.

    Raises
    ------
    DeadlinesUnattainable, SolverStopped
        No placement among the candidates keeps all deadlines, or none was found in time.
    """
    proportional_ms = proportional_sub_deadlines(problem, places)
    eligible = all(node in problem.by_name[name].candidates for name, node in places.items())
    if proportional_ms is not None and eligible:
        tight_ms = {name: (1 - SPARE) * ms for name, ms in proportional_ms.items()}
        if admit(problem.nodes, work_of(problem, places, tight_ms)).admitted:
            return SubDeadlines(places=dict(places), sub_deadlines_ms=proportional_ms)
    settings = SolverSettings(usage_weight=USAGE_WEIGHT, milp=SOLVING)
    found = place_by_deadline(protect(problem), settings)
    return SubDeadlines(places=found.places, sub_deadlines_ms=found.sub_deadlines_ms)


def best_effort_sub_deadlines(problem: DeadlineProblem, places: Mapping[str, str]) -> SubDeadlines:
    """Fair shares, for a query that runs although its deadlines cannot be kept."""
    least_ms: dict[str, float] = {}
    for pair in problem.pairs:
        least_ms[pair.operator] = min(
            pair.proportional_ms, least_ms.get(pair.operator, pair.proportional_ms)
        )
    return SubDeadlines(places=dict(places), sub_deadlines_ms=least_ms)


def urgency_ms(flow: Dataflow, queries: Mapping[str, QueryRecord]) -> dict[str, float]:
    """Fragment → the least end-to-end deadline of the outputs that it leads to, ms; infinite if it
    leads to none."""
    found: dict[str, float] = {}
    for fragment in reversed(list(flow.fragments.values())):
        query = queries[fragment.query]
        name = fragment.name
        own_ms = query.deadline_of(name) if name in query.outputs else float("inf")
        found[name] = min(found.get(name, float("inf")), own_ms)
        for stream in fragment.inputs:
            found[stream] = min(found.get(stream, float("inf")), found[name])
    return found


def work_on(
    chains: Iterable[Chain],
    places: Mapping[str, tuple[str, str | None]],
    timings: Mapping[str, Timing],
) -> dict[str, tuple[Admitted, ...]]:
    """Node → the primaries that run there, and by when they are due."""
    found: dict[str, list[Admitted]] = {}
    for chain in chains:
        due = [timings[fragment.name] for fragment in chain]
        work = Admitted(
            name=chain[0].name,
            cost_ms=sum(timing.cost_ms for timing in due),
            deadline_ms=sum(timing.sub_deadline_ms for timing in due),
        )
        found.setdefault(places[chain[0].name][0], []).append(work)
    return {node: tuple(work) for node, work in found.items()}

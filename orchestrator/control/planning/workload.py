"""The work of every fragment: its input, the cost of evaluating it, and its readers.

This is the one model of a fragment's work. The placement problem (`Workload.graph`), the deadline
problem (`planning.sub_deadlines`) and the tasks of hosts (`control.decide.assignments`) are derived
from it.

Rates follow from the manifests: a stream brings the rate it declares; a fragment turns it into
`selectivity` bytes out per byte in; tuples are counted by the width of their rows, for which
strings are taken to be 16 bytes long (`streams.vectors.widths`), if no trial shows that they are
longer. Measured costs count as soon as there are some. Until then the owner's estimates count, else
the findings of a trial (`planning.trying`), else `COST_US`.

The processor time of a replica is the sum of rates times costs:

    evaluations/s · (fixed cost + overhead) + tuples/s · cost of a tuple

`evaluations` says how often there are evaluations. The *overhead* is the time that a host spends on
everything but evaluating (`overhead`). The cost of chunks from other hosts depends on the other
replicas of the host (`Workload.receiving_cores`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from orchestrator.control.observe.dataflow import AS_WRITTEN, Dataflow, Fragment
from orchestrator.control.observe.entering import EnteringStream
from orchestrator.control.observe.measured_load import mean_speed
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.evaluations import (
    NO_DEADLINE_MS,
    ExpectedEvaluations,
    expected_evaluations,
    limited,
)
from orchestrator.control.planning.overhead import LEAST_TUPLES_S, RECEIVED, overhead_us
from orchestrator.records import (
    CostStatus,
    Estimate,
    QueryRecord,
    ReplicaLoad,
    RunningQueryRecord,
    StreamRecord,
    Tried,
)
from orchestrator.records.assignments import SINK_PREFIX
from placement.graph import Link, Operator, QueryGraph
from streams.scheduling.chains import merge_chains
from streams.vectors.widths import row_bytes

LEAST_COST_MS = 0.2
"""Least cost of an instance: that of dispatching it, however few tuples it has. A sub-deadline in
proportion to a smaller cost would pass before any host could dispatch the fragment."""

COST_US = 20.0
"""Cost of a tuple of which nothing is known, at speed 1."""

LAG_SHARE = 0.25
"""Share of the recovery bound left by a plan that a secondary may lag. The rest covers delays that
no plan knows: a busy machine, and other replicas that catch up at the same time."""


def emitted_row_bytes(query: QueryRecord, fragment: Fragment, tried: Tried | None) -> float:
    """Width of a row that a fragment emits."""
    stated = query.estimates.get(fragment.name, Estimate()).selectivity
    if stated is None and tried is not None and tried.row_bytes is not None:
        return tried.row_bytes
    return row_bytes(fragment.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How much of a stream there is.

    Attributes
    ----------
    burst
        Tuples that come at once.
    arrivals_s
        How often something comes, be it only a watermark.
    """

    bytes_s: float
    tuples_s: float
    burst: float
    arrivals_s: float = 0.0


class CostBasis(Enum):
    """Where the cost of a fragment is known from."""

    MEASURED = "measured"
    STATED = "stated"
    TRIED = "tried"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Processor time of an evaluation of a fragment: fixed_us + per_tuple_us · tuples.

    Attributes
    ----------
    speed
        Speed of the processors on which it was found. None: that of the executors as they are,
        because it was measured there, or its owner states it.
    """

    fixed_us: float
    per_tuple_us: float
    basis: CostBasis
    speed: float | None = None

    def at_speed(self, speed: float) -> Cost:
        """As it is on processors of this speed."""
        if self.speed is None:
            return self
        slower = self.speed / speed
        return replace(
            self,
            fixed_us=self.fixed_us * slower,
            per_tuple_us=self.per_tuple_us * slower,
            speed=speed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentWork:
    """One fragment: its input, its costs, its constraints and its readers.

    The cost of chunks from other hosts is no part of it.

    Attributes
    ----------
    cost_us
        Time per input tuple, as stated, tried or assumed.
    stated_cost_us
        The same, if its owner has stated it.
    cost
        Cost of an evaluation, by the best knowledge there is.
    instance_ms
        Time that evaluating a burst takes, by that cost.
    evaluations_s, standby_evaluations_s
        How often its primary is evaluated, and its secondary.
    evaluating_cores, cores, standby_cores
        Processor time of its primary for evaluations, the same for everything, and processor time
        of its secondary.
    allowed
        Nodes that its primary may take; any if empty.
    bound_ms
        Recovery bound of its query.
    deadline_ms, sink
        End-to-end deadline of its stream, and the site it is delivered to; None if to none.
    readers_ms
        Fragments that read its stream, and its sink → least end-to-end deadline of the outputs
        that each leads to.
    """

    fragment: Fragment
    cost_us: float
    stated_cost_us: float | None
    cost: Cost
    instance_ms: float
    evaluations_s: float
    standby_evaluations_s: float
    evaluating_cores: float
    cores: float
    standby_cores: float
    allowed: tuple[str, ...]
    bound_ms: float
    deadline_ms: float
    sink: str | None
    readers_ms: Mapping[str, float]

    @property
    def name(self) -> str:
        """Of the fragment and of its stream."""
        return self.fragment.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The work of all fragments.

    Attributes
    ----------
    flow
        The compiled queries.
    sites
        Stream that enters from outside → its site; of two, one that is there.
    rates
        By stream.
    fragments
        By name, producers before consumers.
    expected
        How often replicas should evaluate, and their expected input.
    overhead_us
        Of an evaluation.
    """

    flow: Dataflow
    sites: Mapping[str, str]
    expected: ExpectedEvaluations
    overhead_us: float
    rates: Mapping[str, Rate]
    fragments: Mapping[str, FragmentWork]

    def of(self, query: str) -> list[FragmentWork]:
        """Work of a query's fragments, producers before consumers."""
        return [work for work in self.fragments.values() if work.fragment.query == query]

    def with_ends(self, sites: Mapping[str, str], sinks: Mapping[str, str]) -> Workload:
        """The same work, where some streams enter and some fragments' streams leave elsewhere."""
        fragments = {
            name: replace(each, sink=sinks[name]) if name in sinks else each
            for name, each in self.fragments.items()
        }
        return replace(self, sites={**self.sites, **sites}, fragments=fragments)

    def chains(
        self, names: Collection[str], together: Callable[[str, str], bool]
    ) -> list[tuple[str, ...]]:
        """Fragments merged with the one that alone reads their stream, if both stay together.

        Parameters
        ----------
        names
            Fragments, producers before consumers.
        together
            Whether two fragments that follow each other stay on one node.
        """

        def followers(name: str, consumers: Collection[str]) -> list[str]:
            # A sink, or a fragment that is not among the names, reads the stream too.
            alone = len(self.fragments[name].readers_ms) == 1
            return [each for each in consumers if alone and together(name, each)]

        return merge_chains(
            {name: self.fragments[name].fragment.inputs for name in names}, followers
        )

    def graph(
        self,
        query: str,
        primaries: Mapping[str, str],
        flows_to: Mapping[str, frozenset[str]],
    ) -> QueryGraph:
        """The placement problem of one query: its fragments between pinned sources and sinks.

        Parameters
        ----------
        primaries
            Fragment of another query that this one reads → node on which it is pinned.
        flows_to
            Stream → nodes to which it flows whole because of other queries.
        """
        fragments = self.of(query)
        inputs = sorted(
            {s for work in fragments for s in work.fragment.inputs} - {w.name for w in fragments}
        )
        operators = [
            Operator(
                name=work.name,
                cost_us=work.cost_us,
                # As if the node had nothing else that makes or reads the inputs.
                cores=work.cores + self.receiving_cores([work.name], ())[work.name],
                allowed=work.allowed,
            )
            for work in fragments
        ]
        operators += [
            Operator(
                name=stream,
                pinned=self.sites.get(stream) or primaries[stream],
                flows_to=flows_to.get(stream, frozenset()),
            )
            for stream in inputs
        ]
        links = [
            self._link(stream, work.name) for work in fragments for stream in work.fragment.inputs
        ]
        for work in fragments:
            if work.sink is not None:
                sink = f"{work.name} at {work.sink}"
                operators.append(Operator(name=sink, pinned=work.sink))
                links.append(self._link(work.name, sink))
        return QueryGraph(name=query, operators=tuple(operators), links=tuple(links))

    def receiving_cores(
        self, replicas: Collection[str], primaries: Collection[str]
    ) -> dict[str, float]:
        """Processor time of a host for chunks from other hosts, by replica."""
        each_us = RECEIVED * self.overhead_us
        received_s = self.expected.received_s(replicas, primaries)
        return {name: count_s * each_us / 1e6 for name, count_s in received_s.items()}

    def sent_bytes_s(self, stream: str, target: str) -> float:
        """Data rate at which a stream is sent to a fragment, which gets the columns that it uses,
        or to a sink, which gets all."""
        bytes_s = self.rates[stream].bytes_s
        if target not in self.fragments:
            return bytes_s
        reader = self.fragments[target].fragment
        return bytes_s * row_bytes(reader.uses[stream]) / row_bytes(reader.inputs[stream])

    def _link(self, stream: str, target: str) -> Link:
        return Link(
            source=stream,
            target=target,
            rate_bytes_s=self.sent_bytes_s(stream, target),
            tuples_s=self.rates[stream].tuples_s,
        )


def workload(
    view: ClusterView,
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    running: Mapping[str, RunningQueryRecord] = AS_WRITTEN,
) -> Workload:
    """The work of all fragments.

    Parameters
    ----------
    view
        Gives the cluster's settings and measured costs.
    flow, streams, queries, running
        The dataflow to run: that of the store, or with the manifests to be applied.
    """
    batch_ms, entering = view.settings.batch_ms, view.entering_of(streams)
    together = _together(view, entering)
    stream_rates = rates(flow, streams, queries, batch_ms, together, running)
    due_ms = urgency_ms(flow, queries)

    speed = mean_speed(view.executors.values())
    detection_ms = view.settings.detection_ms
    lags_ms = {
        name: lag_ms(queries[each.query].recovery_bound_ms - detection_ms, due_ms[name])
        for name, each in flow.fragments.items()
    }
    expected = expected_evaluations(
        view,
        flow,
        {name: stream_rates[name].arrivals_s for name in streams},
        {name: rate.tuples_s for name, rate in stream_rates.items()},
        due_ms,
        lags_ms,
    )
    # Emulated costs are slept, and all other work of a host fits into that time.
    overhead = 0.0 if view.settings.emulate_costs else overhead_us(view, expected)
    readers_ms: dict[str, dict[str, float]] = {name: {} for name in flow.columns}
    for name, fragment in flow.fragments.items():
        for stream in fragment.inputs:
            readers_ms[stream][name] = min(due_ms[name], NO_DEADLINE_MS)
    fragments: dict[str, FragmentWork] = {}
    for name, fragment in flow.fragments.items():
        query = queries[fragment.query]
        if name in query.outputs:
            readers_ms[name][SINK_PREFIX + name] = query.deadline_of(name)
        taken = taken_by(fragment, stream_rates)
        planned = _planned_cost(query, name, _tried(running, fragment))
        known = _measured_cost(view.measured_cost(fragment))
        cost = known or (planned if view.settings.emulate_costs else planned.at_speed(speed))
        measured = view.measured_load(fragment)
        made_s, standby_made_s = (
            expected.evaluations_s[name],
            expected.standby_evaluations_s[name],
        )
        evaluating_us_s = _evaluating_us_s(cost, made_s, taken.tuples_s, measured)
        standby_us_s = _evaluating_us_s(cost, standby_made_s, taken.tuples_s, measured)
        fragments[name] = FragmentWork(
            fragment=fragment,
            cost_us=planned.per_tuple_us + planned.fixed_us / max(taken.burst, 1.0),
            stated_cost_us=planned.per_tuple_us if planned.basis is CostBasis.STATED else None,
            cost=cost,
            instance_ms=_instance_ms(taken, known or planned),
            evaluations_s=made_s,
            standby_evaluations_s=standby_made_s,
            evaluating_cores=evaluating_us_s / 1e6,
            cores=(evaluating_us_s + made_s * overhead) / 1e6,
            standby_cores=(standby_us_s + standby_made_s * overhead) / 1e6,
            allowed=query.primaries.get(name, ()),
            bound_ms=query.recovery_bound_ms,
            deadline_ms=query.deadline_of(name),
            sink=query.outputs.get(name),
            readers_ms=readers_ms[name],
        )
    hosts = view.hosts.keys()
    sites = {name: _site(stream, hosts) for name, stream in entering.items()}
    return Workload(
        flow=flow,
        sites=sites,
        expected=expected,
        overhead_us=overhead,
        rates=stream_rates,
        fragments=fragments,
    )


def lag_ms(left_ms: float, sub_deadline_ms: float) -> float:
    """How far a secondary may lag, of what the recovery bound leaves; one that breaks the bound
    anyway has the time of a primary."""
    return LAG_SHARE * left_ms if left_ms > 0 else sub_deadline_ms


def rates(
    flow: Dataflow,
    streams: Mapping[str, StreamRecord],
    queries: Mapping[str, QueryRecord],
    batch_ms: float,
    together: Mapping[str, float] | None = None,
    running: Mapping[str, RunningQueryRecord] = AS_WRITTEN,
) -> dict[str, Rate]:
    """Expected rate of every stream.

    Parameters
    ----------
    batch_ms
        Tuples that come within this interval are evaluated together.
    together
        Stream → tuples that have entered at once lately.
    """
    come = together or {}
    found = {name: _entering(each, batch_ms, come.get(name)) for name, each in streams.items()}
    for fragment in flow.fragments.values():
        taken, query = taken_by(fragment, found), queries[fragment.query]
        tried = _tried(running, fragment)
        given_bytes_s = taken.bytes_s * _selectivity(query, fragment.name, tried)
        tuples_s = given_bytes_s / emitted_row_bytes(query, fragment, tried)
        burst = taken.burst * tuples_s / taken.tuples_s if taken.tuples_s else 0.0
        found[fragment.name] = Rate(bytes_s=given_bytes_s, tuples_s=tuples_s, burst=burst)
    return found


def taken_by(fragment: Fragment, stream_rates: Mapping[str, Rate]) -> Rate:
    """The input of a fragment, of all its streams together."""
    inputs = [stream_rates[stream] for stream in fragment.inputs]
    return Rate(
        bytes_s=sum(rate.bytes_s for rate in inputs),
        tuples_s=sum(rate.tuples_s for rate in inputs),
        burst=sum(rate.burst for rate in inputs),
    )


def urgency_ms(flow: Dataflow, queries: Mapping[str, QueryRecord]) -> dict[str, float]:
    """Stream → the least end-to-end deadline of the outputs that it leads to, ms; infinite if it
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


def _together(view: ClusterView, streams: Mapping[str, EnteringStream]) -> dict[str, float]:
    """Stream → tuples that have entered at once lately, as the site says that feeds consumers."""
    found: dict[str, float] = {}
    for name, stream in streams.items():
        site = view.hosts.get(stream.feeding_site)
        status = None if site is None else site.sources.get(name)
        if status is not None and status.together is not None:
            found[name] = max(status.together, 1.0)
    return found


def _entering(stream: StreamRecord, batch_ms: float, together: float | None) -> Rate:
    tuples_s = stream.rate_bytes_s / row_bytes(stream.columns)
    together_ms = stream.source.together_ms if stream.source else 0.0
    burst = stream.burst
    if burst is None:
        burst = max(tuples_s * max(batch_ms, together_ms) / 1e3, 1.0)
    # Clients send many rows in one request, and tuples that wait for later ones enter at once.
    arrivals_s = 1e3 / together_ms if together_ms else tuples_s / (together or 1.0)
    if stream.source and stream.source.advances_ms:
        # The clock advances it, but perhaps only after a silence.
        silent = tuples_s * stream.source.advances_after_ms < 1e3
        arrivals_s = max(arrivals_s, 1e3 / stream.source.advances_ms if silent else 0.0)
    admitted = 1.0
    if stream.shed is not None and tuples_s:
        admitted = min(stream.shed.tuples * 1e3 / stream.shed.per_ms / tuples_s, 1.0)
    return Rate(
        bytes_s=stream.rate_bytes_s * admitted,
        tuples_s=tuples_s * admitted,
        burst=burst,
        arrivals_s=limited(arrivals_s, batch_ms),
    )


def _tried(running: Mapping[str, RunningQueryRecord], fragment: Fragment) -> Tried | None:
    """The findings of a trial of a fragment."""
    decided = running.get(fragment.query)
    return None if decided is None else decided.trials.get(fragment.name)


def _selectivity(query: QueryRecord, fragment: str, tried: Tried | None) -> float:
    stated = query.estimates.get(fragment, Estimate()).selectivity
    if stated is not None:
        return stated
    return 1.0 if tried is None else tried.selectivity


def played_speed(stream: StreamRecord) -> float:
    """Event time that passes on a stream in a unit of time: a recording may be played faster."""
    return float(stream.source.options.get("speed", 1.0)) if stream.source else 1.0


def _site(stream: EnteringStream, hosts: Collection[str]) -> str:
    """Where a stream enters: of two sites the one that feeds consumers, if it is there."""
    there = [site for site in stream.sites if site in hosts]
    return next(iter(there or stream.sites))


def _planned_cost(query: QueryRecord, fragment: str, tried: Tried | None) -> Cost:
    """Cost of a fragment that has not run. It must not change with the load of processors, because
    assignments and sub-deadlines depend on it."""
    stated_us = query.estimates.get(fragment, Estimate()).cost_us
    if stated_us is not None:
        return Cost(fixed_us=0.0, per_tuple_us=stated_us, basis=CostBasis.STATED)
    if tried is not None:
        return Cost(
            fixed_us=tried.fixed_us,
            per_tuple_us=tried.per_tuple_us,
            basis=CostBasis.TRIED,
            speed=tried.speed,
        )
    return Cost(fixed_us=0.0, per_tuple_us=COST_US, basis=CostBasis.ASSUMED, speed=1.0)


def _measured_cost(measured: CostStatus | None) -> Cost | None:
    if measured is None:
        return None
    return Cost(
        fixed_us=measured.fixed_us, per_tuple_us=measured.per_tuple_us, basis=CostBasis.MEASURED
    )


def _evaluating_us_s(
    cost: Cost, evaluations_s: float, tuples_s: float, measured: ReplicaLoad | None
) -> float:
    """Processor time that a replica's evaluations should take, µs a second.

    The measured time is scaled by the expected tuples. A CPU-starved host takes more timestamps in
    one evaluation, so that each evaluation costs more and there are fewer; the cost of a tuple, all
    in all, stays about the same. In a quiet stretch most of the measured time went to evaluations
    with few tuples or none, and more tuples would not add such evaluations. Then the missing
    evaluations and tuples are added by their costs.
    """
    if measured is None or measured.tuples_s < LEAST_TUPLES_S:
        return evaluations_s * cost.fixed_us + tuples_s * cost.per_tuple_us
    added_us_s = (
        max(evaluations_s - measured.evaluations_s, 0.0) * cost.fixed_us
        + max(tuples_s - measured.tuples_s, 0.0) * cost.per_tuple_us
    )
    measured_us_s = measured.cores * 1e6
    return min(measured_us_s * tuples_s / measured.tuples_s, measured_us_s + added_us_s)


def _instance_ms(taken: Rate, cost: Cost) -> float:
    return max((cost.fixed_us + cost.per_tuple_us * taken.burst) / 1e3, LEAST_COST_MS)

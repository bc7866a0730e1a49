"""Which streams drop overdue tuples where they enter, and after which time of waiting.

Replicas of a fragment evaluate the same tuples at different times. If each dropped what is overdue
by its own clock, they would differ. So nothing is dropped behind the entry: hosts take no more of a
stream than they can evaluate in time, the rest waits unnumbered at its site, and what has waited
for too long is dropped there (*overdue control*, adaptive batching, §3.3).

A stream drops while its manifest allows that, and the manifest of every query that reads it,
directly or through others. A tuple is overdue once no output can have it in time. With D of an
output, and on the way to it the one-way latencies and overheads of links and the sub-deadlines d of
fragments, a tuple may wait for

    D − Σ latencies − `QUEUED_SHARE` · Σ d

where hosts take as much as they evaluate within `QUEUED_SHARE` of a sub-deadline
(`orchestrator.host.core.dispatcher`). Of several ways to an output, the one that takes longest
counts; of several outputs, the one that can be waited for longest.

Credit travels with acknowledgements, and over each fragment anew. Waiting therefore says something
about overload only if it lasts longer than some of them take: deadlines shorter than `least_ms` are
refused. Links may become slower later, until no output can be in time, and tuples are late without
an overload. Where a tuple may wait for less than a round trip and an acknowledgement interval, only
what has waited for `ACKNOWLEDGEMENTS` of them is dropped: that is more than slow links explain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.control.observe.dataflow import Dataflow
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.task import network_view
from orchestrator.records import Overdue, QueryRecord, StreamRecord
from placement.network import NetworkView
from streams.scheduling.in_time import QUEUED_SHARE

ACKNOWLEDGEMENTS = 4
"""How many round trips and acknowledgement intervals a deadline has on each link, at least."""

STEADY_SHARE = 0.1
"""By how much a limit changes at least. Measured latencies always move a little, and each change
has a host adopt an assignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueControl:
    """Which streams drop overdue tuples.

    Attributes
    ----------
    dropping
        Streams that do.
    paced
        These, and streams of fragments that read no others.
    kept_by
        Stream that may drop and does not → queries that read it and do not allow it. None: nothing
        reads it.
    """

    dropping: frozenset[str]
    paced: frozenset[str]
    kept_by: Mapping[str, tuple[str, ...]]


def overdue_control(
    flow: Dataflow, streams: Mapping[str, StreamRecord], queries: Mapping[str, QueryRecord]
) -> OverdueControl:
    """Which streams drop, by their manifests and those of the queries that read them."""
    able = {name for name, each in streams.items() if each.overdue is Overdue.DROP}
    readers: dict[str, set[str]] = {name: set() for name in able}
    if not able:
        return OverdueControl(dropping=frozenset(), paced=frozenset(), kept_by={})
    made_from: dict[str, set[str]] = {name: {name} for name in streams}
    for name, fragment in flow.fragments.items():
        made_from[name] = set[str]().union(*(made_from.get(s, ()) for s in fragment.inputs))
        for stream in made_from[name] & able:
            readers[stream].add(fragment.query)
    kept_by = {
        stream: tuple(sorted(q for q in reading if queries[q].overdue is Overdue.KEEP))
        for stream, reading in readers.items()
    }
    dropping = {stream for stream in able if readers[stream] and not kept_by[stream]}
    paced = dropping | {
        name for name in flow.fragments if made_from[name] and made_from[name] <= dropping
    }
    return OverdueControl(
        dropping=frozenset(dropping),
        paced=frozenset(paced),
        kept_by={stream: by for stream, by in kept_by.items() if stream not in dropping},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """The ways from streams to outputs, and how long they take.

    Attributes
    ----------
    where
        Stream → node on which it enters or its primary runs.
    sub_deadlines_ms
        Of each fragment.
    link_overhead_ms
        What a link between two nodes costs besides its latency, ms.
    ack_interval_ms
        Time between two acknowledgements.
    """

    flow: Dataflow
    queries: Mapping[str, QueryRecord]
    network: NetworkView
    where: Mapping[str, str]
    sub_deadlines_ms: Mapping[str, float]
    link_overhead_ms: float
    ack_interval_ms: float

    def may_wait_ms(self, stream: str) -> float | None:
        """How long tuples of a stream may wait where they enter; None if nothing leaves of it."""
        found: list[float] = []
        takes_ms, credit_ms = {stream: 0.0}, 0.0
        for name, fragment in self.flow.fragments.items():
            reached = [each for each in fragment.inputs if each in takes_ms]
            if not reached:
                continue
            node = self.where.get(name)
            if stream in reached:
                credit_ms = max(credit_ms, self._credit_ms(stream, node))
            came_ms = max(takes_ms[one] + self._link_ms(one, node) for one in reached)
            takes_ms[name] = came_ms + QUEUED_SHARE * self.sub_deadlines_ms.get(name, 0.0)
            query = self.queries[fragment.query]
            if (site := query.outputs.get(name)) is not None:
                taken_ms = takes_ms[name] + self._link_ms(name, site)
                found.append(query.deadline_of(name) - taken_ms)
        if not found:
            return None
        return most_ms if (most_ms := max(found)) >= credit_ms else ACKNOWLEDGEMENTS * credit_ms

    def least_ms(self, stream: str, output: str) -> float | None:
        """The least deadline of an output with which its control of a stream makes sense; None: the
        output is not made from the stream."""
        takes_ms = {stream: 0.0}
        for name, fragment in self.flow.fragments.items():
            reached = [each for each in fragment.inputs if each in takes_ms]
            if reached:
                node = self.where.get(name)
                takes_ms[name] = max(
                    takes_ms[one] + ACKNOWLEDGEMENTS * self._credit_ms(one, node) for one in reached
                )
        return takes_ms.get(output)

    def _link_ms(self, stream: str, target: str | None) -> float:
        own = self.where.get(stream) == target
        return 0.0 if own else self._one_way_ms(stream, target) + self.link_overhead_ms

    def _credit_ms(self, stream: str, target: str | None) -> float:
        """How long it takes until a producer hears that a consumer has room again."""
        return 2 * self._one_way_ms(stream, target) + self.ack_interval_ms

    def _one_way_ms(self, stream: str, target: str | None) -> float:
        source, known = self.where.get(stream), self.network.index
        if source is None or target is None or source not in known or target not in known:
            return 0.0
        return self.network.one_way_ms(source, target)


def ways_of(planning: Planning) -> Ways:
    """The ways through what runs, or would."""
    running = planning.running
    return Ways(
        flow=planning.flow,
        queries=planning.queries,
        network=network_view(planning.view.trusted, Counter()),
        where={
            **{name: stream.feeding_site for name, stream in planning.streams.items()},
            **{name: each.primary for name, each in running.items()},
        },
        sub_deadlines_ms={name: each.timing.sub_deadline_ms for name, each in running.items()},
        link_overhead_ms=planning.settings.hop_overhead_ms,
        ack_interval_ms=planning.view.settings.ack_interval_ms,
    )


def steady_ms(found_ms: float, before_ms: float | None) -> float:
    """A limit as it was, unless it has changed by more than measured latencies move."""
    if before_ms is not None and abs(found_ms - before_ms) <= STEADY_SHARE * before_ms:
        return before_ms
    return round(found_ms, 1)

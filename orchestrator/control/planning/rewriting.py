"""In which way the statements of a new query run: as they were written, split, or shared.

Price decides. A query is placed in each way that its owner allows, around everything that runs, in
forks of one planning problem; the fork of the best way is gone on with. So each way is planned
once, and only the query itself is. All ways must keep deadlines and bounds and find room on the
nodes, so their plans count the processor time of more fragments and the latency of one more hop.

*Sharing* comes first (`planning.sharing`): all that can be shared is, or nothing. It may cost a
little more network usage; it takes less processor time anyway.

Then statements may be *split* into partial and final ones (`planning.split_ways`), one after the
other, each in the way that saves most network usage, if that is enough. A query that asks for it
has all statements split for which the result is the same. The number of groups in a pane is what
decides, and generated rows say nothing about that. So a statement stays whole if one of its streams
has no recording that a trial can read, or if its owner states estimates of it.

What was decided is kept with the query (`RunningQueryRecord`), which is never written in another
way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.sharing import way_to_share
from orchestrator.control.planning.split_ways import ways_to_split
from orchestrator.control.planning.trying import StatementTrials
from orchestrator.records import Partial, QueryRecord, Rewrite, RunningQueryRecord
from placement.errors import PlacementError
from placement.records import Plan, QueryFigures
from streams.language import parse
from streams.plan.sharing import Computation

SAVED_SHARE = 0.25
"""Share of a query's network usage that a split must save: trials and plans are not exact."""

SAVED_BYTES = 500.0
"""Network usage that a split must save, bytes: 25 KB/s over 20 ms. Less is not worth a fragment,
whose replicas take processor time on two nodes."""

MORE_BYTES = 500.0
"""Network usage that sharing may cost, bytes. The processor time that it saves is worth as much."""

NO_PLAN = "it cannot keep deadline and bound, or finds no room"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenWay:
    """A query written in one way, and what a plan says of that.

    Attributes
    ----------
    planning
        The problem with the query in its place.
    outcome
        The plan, or why there is none.
    """

    query: RunningQueryRecord
    planning: Planning
    outcome: Plan | PlacementError | InvalidQuery

    @property
    def plan(self) -> Plan:
        """The plan that there is.

        Raises
        ------
        InvalidQuery, PlacementError
            There is none.
        """
        if isinstance(self.outcome, Plan):
            return self.outcome
        raise self.outcome

    @property
    def figures(self) -> QueryFigures | None:
        """What the plan promises; None if there is none."""
        return self.outcome.queries[0] if isinstance(self.outcome, Plan) else None


class Rewriting:
    """The choice of ways for the queries of one request.

    Parameters
    ----------
    trials
        Tell what rewritten statements cost and give.
    computed
        What statements compute as they were written; None: nothing is shared.
    offered
        Queries that run and offer what they compute.
    """

    def __init__(
        self,
        trials: StatementTrials,
        computed: Mapping[str, Computation] | None,
        offered: list[str],
    ) -> None:
        self._trials = trials
        self._computed = computed
        self._offered = offered

    def place(self, planning: Planning, record: QueryRecord) -> WrittenWay:
        """Place a new query in the best way; without a plan if there is none in any."""
        query = planning.decided.get(record.name, RunningQueryRecord(name=record.name))
        chosen = _planned(planning.fork(), query)
        if record.share:
            if self._computed is not None and self._offered and not self._trials.are_over:
                chosen = self._shared(planning, record, chosen, self._computed)
            self._offered.append(record.name)
        if record.partial is not Partial.NEVER:
            chosen = self._split(planning, record, chosen)
        return chosen

    def _written(self, planning: Planning, query: RunningQueryRecord) -> WrittenWay:
        """The query written in another way, with trials of its statements."""
        written = planning.written(query)
        tried = self._trials.tried(query, written.flow, written.specs)
        return _planned(written if tried == query else planning.written(tried), tried)

    def _shared(
        self,
        planning: Planning,
        record: QueryRecord,
        apart: WrittenWay,
        computed: Mapping[str, Computation],
    ) -> WrittenWay:
        """The query as it takes from others what they compute, unless that is worse."""
        rewrites, owners = way_to_share(planning, record, computed, self._offered)
        if not rewrites:
            return apart
        shared = self._written(planning, _with(apart.query, rewrites))
        why = f"query {owners} computes it"
        if shared.figures is None:
            return _decided(apart, rewrites, f"{why}, but so {NO_PLAN}", made=False)
        if apart.figures is None:
            return _decided(shared, rewrites, f"{why}; apart {NO_PLAN}", made=True)
        before, after = apart.figures.network_usage, shared.figures.network_usage
        figures = f"network usage {before:,.0f} bytes apart, {after:,.0f} shared"
        if after > before + MORE_BYTES:
            return _decided(apart, rewrites, f"{why}, but {figures}", made=False)
        return _decided(shared, rewrites, f"{why}; {figures}", made=True)

    def _split(self, planning: Planning, record: QueryRecord, chosen: WrittenWay) -> WrittenWay:
        """The query with those of its statements split for which that is worth it."""
        candidates = ways_to_split(chosen.planning.flow, record)
        if record.partial is Partial.ALWAYS and candidates:
            asked = [
                msgspec.structs.replace(ways[0], why="the query asks for it")
                for ways in candidates.values()
            ]
            return self._written(planning, _with(chosen.query, asked))
        for fragment, ways in candidates.items():
            chosen = self._split_one(planning, record, fragment, ways, chosen)
        return chosen

    def _split_one(
        self,
        planning: Planning,
        record: QueryRecord,
        fragment: str,
        ways: tuple[Rewrite, ...],
        whole: WrittenWay,
    ) -> WrittenWay:
        why = self._unknown(record, fragment, whole)
        if why is not None or whole.figures is None:
            return _decided(whole, ways[:1], why or "the query cannot be placed", made=False)
        tried = [self._priced(planning, fragment, way, whole) for way in ways]
        best, usage, why = min(tried, key=lambda each: each[1])
        before = whole.figures.network_usage
        if before - usage >= max(SAVED_SHARE * before, SAVED_BYTES):
            return _decided(best, ways[:1], why, made=True)
        return _decided(whole, ways[:1], why, made=False)

    def _unknown(self, record: QueryRecord, fragment: str, whole: WrittenWay) -> str | None:
        """Why the number of groups is not known; None if a trial can tell."""
        if not self._trials.are_possible:
            return "costs are emulated, so nothing is tried"
        if self._trials.are_over:
            return "many queries are applied at once"
        if fragment in record.estimates:
            return "its estimates are stated for the whole statement"
        entering = whole.planning.flow.entering_streams(record.name)
        unread = sorted(entering - self._trials.recorded)
        if unread:
            return f"the number of groups is not known: no recording of {', '.join(unread)}"
        if fragment not in whole.query.trials:
            return "its trial said nothing"
        return None

    def _priced(
        self, planning: Planning, fragment: str, way: Rewrite, whole: WrittenWay
    ) -> tuple[WrittenWay, float, str]:
        """The query with a statement split in a way, its network usage, and why it is or is not.

        The usage is infinite if it cannot be had, bytes.
        """
        split = self._written(planning, _with(whole.query, [way]))
        trials = split.query.trials
        panes = [part.name for text in way.panes for part in parse(text)]
        shares = [trials[name].selectivity for name in panes if name in trials]
        if len(shares) < len(panes) or not all(shares):
            return split, float("inf"), "its trial gave no partial row"
        how = f"split below {way.without[0]}" if way.without else "in two"
        if split.figures is None or whole.figures is None:
            return split, float("inf"), f"{how} {NO_PLAN}"
        usage = split.figures.network_usage
        why = (
            f"network usage {whole.figures.network_usage:,.0f} bytes whole, {usage:,.0f} {how}; "
            f"its panes are {' and '.join(f'{100 * share:.3g} %' for share in shares)} of its "
            f"input, its whole result {100 * whole.query.trials[fragment].selectivity:.3g} %"
        )
        return split, usage, why


def _planned(planning: Planning, query: RunningQueryRecord) -> WrittenWay:
    """A query where it has no place yet."""
    try:
        outcome = planning.place(query.name)
    except (PlacementError, InvalidQuery) as error:
        outcome = error
    return WrittenWay(query=query, planning=planning, outcome=outcome)


def _with(
    query: RunningQueryRecord, rewrites: tuple[Rewrite, ...] | list[Rewrite]
) -> RunningQueryRecord:
    return msgspec.structs.replace(query, rewrites=(*query.rewrites, *rewrites))


def _decided(way: WrittenWay, about: tuple[Rewrite, ...], why: str, *, made: bool) -> WrittenWay:
    """A way with the reason why statements are rewritten in it, or are not."""
    subjects = {(each.kind, each.fragment) for each in about}
    if made:
        rewrites = tuple(
            msgspec.structs.replace(each, why=why)
            if (each.kind, each.fragment) in subjects
            else each
            for each in way.query.rewrites
        )
    else:
        left = (Rewrite(kind=e.kind, fragment=e.fragment, why=why) for e in about)
        rewrites = (*way.query.rewrites, *left)
    query = msgspec.structs.replace(way.query, rewrites=rewrites)
    way.planning.decided = {**way.planning.decided, query.name: query}
    return WrittenWay(query=query, planning=way.planning, outcome=way.outcome)

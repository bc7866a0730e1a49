"""What differs between a cluster as it is and as it would be, on paper."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.process import INTERVAL_S
from orchestrator.documents.units import figure
from orchestrator.records import (
    FragmentPlan,
    FragmentRecord,
    PlaceLoad,
    PlanDocument,
    QueryPlan,
    ReplicaId,
)
from orchestrator.results.whatif import (
    FragmentOutlook,
    LoadOutlook,
    LossOutlook,
    QueryOutlook,
)
from orchestrator.simulation.paper.cluster import PaperCluster, living
from orchestrator.simulation.paper.losses import AssumedLoss

START_S = 0.5
"""From the leader's decision until a secondary begins to get its state, and from its state until
its report: on an idle machine a tenth of that, on a busy one about as much."""

STATE_BYTES_S = 50e6
"""At which a state is sent if nothing bounds that: what two hosts of one machine reach."""

NOBODY = "nobody stands by"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperReading:
    """A cluster on paper once nothing is left to do."""

    view: ClusterView
    plan: PlanDocument
    problems: tuple[str, ...]

    @staticmethod
    def of(paper: PaperCluster) -> PaperReading:
        """What there is, and what the leader says of it."""
        plan = paper.plan()
        return PaperReading(view=paper.view(), plan=plan, problems=paper.problems)

    def planned(self, record: FragmentRecord) -> FragmentPlan | None:
        """What a fragment's place promises."""
        return next((p for p in self.plan.fragments if p.fragment == record.fragment), None)

    def node_of(self, replica: ReplicaId | None) -> str | None:
        """Where a replica lives."""
        return living(self.view, replica)


def fragments(
    before: PaperReading, after: PaperReading, lost: Collection[str]
) -> Iterator[FragmentOutlook]:
    """Every fragment, as it is and as it would be."""
    for name in sorted(before.view.fragments.keys() | after.view.fragments.keys()):
        old, new = before.view.fragments.get(name), after.view.fragments.get(name)
        known = new or old
        assert known is not None
        record = known.record
        was, now = (r and _place(reading, r.record) for reading, r in ((before, old), (after, new)))
        nowhere = None, None, None
        (p0, s0, r0), (p1, s1, r1) = was or nowhere, now or nowhere
        query = after.view.queries.get(record.query) or before.view.queries[record.query]
        unprotected_s, why, state_lost = 0.0, "", False
        if new is not None:
            unprotected_s, why, state_lost = _protection(before, after, name, lost)
        yield FragmentOutlook(
            query=record.query,
            fragment=record.fragment,
            primary=(p0, p1),
            secondary=(s0, s1),
            recovery_ms=(r0, r1),
            bound_ms=query.record.recovery_bound_ms,
            unprotected_s=unprotected_s,
            why=why,
            state_lost=state_lost,
        )


def _place(
    reading: PaperReading, record: FragmentRecord
) -> tuple[str | None, str | None, float | None]:
    planned = reading.planned(record)
    secondary = reading.node_of(record.secondary)
    recovery_ms = None if planned is None or secondary is None else planned.recovery_ms
    return reading.node_of(record.primary), secondary, recovery_ms


def _protection(
    before: PaperReading, after: PaperReading, name: str, lost: Collection[str]
) -> tuple[float | None, str, bool]:
    """How long a fragment would be without a warm secondary, why, and whether its state is lost."""
    record = after.view.fragments[name].record
    old = before.view.fragments.get(name)
    had = () if old is None else (old.record.primary, old.record.secondary)
    left = [each for each in had if each is not None and each.node not in lost]
    state_lost = bool(had) and not left
    if not after.view.protected(record):
        return None, _why_bare(after, record), state_lost
    if old is None or (len(left) == 2 and before.view.protected(old.record)):
        return 0.0, "", False
    return _healing_s(before, old.record, state_lost=state_lost), "", state_lost


def _why_bare(after: PaperReading, record: FragmentRecord) -> str:
    """Why a fragment stays without a secondary, in the leader's words if it has some."""
    if after.node_of(record.primary) is None:
        return "no node is left that can run it"
    said = [each for each in after.problems if record.fragment in each.replace(".", " ").split()]
    said += [each for each in after.problems if record.fragment in each]
    return next(iter(said), "no other node can stand by")


def _healing_s(before: PaperReading, record: FragmentRecord, *, state_lost: bool) -> float:
    """From the loss of a replica until another one is warm.

    Peers notice it, the leader decides, a host starts, and is sent the state.
    """
    settings = before.view.settings
    size = 0 if state_lost else before.view.state_bytes(record) or 0
    grace_s = DecisionSettings().takeover_grace_us / 1e6 if state_lost else 0.0
    state_s = size / (settings.state_rate_bytes_s or STATE_BYTES_S)
    return grace_s + settings.detection_ms / 1e3 + INTERVAL_S + START_S + state_s


def queries(before: PaperReading, after: PaperReading) -> Iterator[QueryOutlook]:
    """Every query, by what it is promised."""
    old, new = ({q.query: q for q in each.plan.queries} for each in (before, after))
    for name in sorted(old.keys() | new.keys()):
        yield QueryOutlook(query=name, before=old.get(name), after=new.get(name))


def loads(before: PaperReading, after: PaperReading) -> Iterator[LoadOutlook]:
    """Every place that has a load; nodes, then machines, as the leader has them."""
    old, new = ({(p.name, p.is_machine): p for p in each.plan.loads} for each in (before, after))
    for key in dict.fromkeys([*old, *new]):
        yield LoadOutlook(name=key[0], before=old.get(key), after=new.get(key))


def loss_outlook(
    loss: AssumedLoss, before: PaperReading, after: PaperReading, lost: Collection[str] = ()
) -> LossOutlook:
    """What the loss of something would do.

    Parameters
    ----------
    lost
        All hosts that are lost at the same time, if there are others.
    """
    found = [*fragments(before, after, lost or loss.hosts)]
    records = {name: each.record for name, each in before.view.fragments.items()}
    struck = [name for name, r in records.items() if r.primary.node in loss.hosts]
    own = {name for name, r in records.items() if any(map(r.runs_on, loss.hosts))}
    bare = {each.key for each in found if each.state_lost} & own
    restored = {key for key in bare if _goes_on(before, after, key)}
    takeovers = tuple(name for name in struck if name not in bare)
    worst = max(
        (
            (planned.recovery_ms, planned.bound_ms)
            for name in takeovers
            if (planned := before.planned(records[name])) is not None
            and planned.recovery_ms is not None
        ),
        key=lambda each: each[0] / each[1],
        default=(None, None),
    )
    touched = [e for e in found if e.unprotected_s != 0 and e.key in before.view.fragments]
    unhealed = {each.key: each.why for each in touched if each.unprotected_s is None}
    longest_s = max((each.unprotected_s or 0.0 for each in touched), default=0.0)
    streams = {
        name: each.feeding_site
        for name, each in before.view.entering.items()
        if each.feeding_site in loss.hosts
    }
    entering = after.view.entering
    silent = tuple(n for n in streams if entering[n].feeding_site not in after.view.hosts)
    return LossOutlook(
        kind=loss.kind,
        name=loss.name,
        hosts=loss.hosts,
        takeovers=takeovers,
        recovery_ms=worst[0],
        bound_ms=worst[1],
        unprotected_s=None if unhealed else longest_s,
        unhealed=unhealed,
        states_lost=tuple(sorted(bare - restored)),
        restored=tuple(sorted(restored)),
        streams=silent,
        outputs=tuple(
            output
            for query in before.view.query_records.values()
            for output, site in query.outputs.items()
            if site in loss.hosts
        ),
        breaks=tuple(broken_promises(before, after)),
        kept_by=_kept_by(
            takeovers,
            sorted(bare - restored),
            sorted(restored),
            [n for n in streams if n not in silent],
            worst,
        ),
    )


def _goes_on(before: PaperReading, after: PaperReading, key: str) -> bool:
    """Whether a fragment that has lost both replicas goes on from a checkpoint."""
    old, new = before.view.fragments.get(key), after.view.fragments.get(key)
    if old is None or new is None or new.record.restored is None:
        return False
    return new.record.restored != old.record.restored


def _kept_by(
    takeovers: Collection[str],
    states_lost: Collection[str],
    restored: Collection[str],
    moved: Collection[str],
    worst: tuple[float | None, float | None],
) -> str:
    """By what recovery bounds are kept."""
    told: list[str] = []
    if takeovers:
        within = "" if worst[0] is None else f", {figure(worst[0])} of {worst[1]:g} ms at most"
        told.append(f"{_count(len(takeovers), 'takeover')}{within}")
    if moved:
        told.append(f"another site for {', '.join(moved)}")
    if restored:
        told.append(f"nothing for {', '.join(restored)}, which would go on from checkpoints")
    if states_lost:
        told.append(f"nothing for {', '.join(states_lost)}, which would begin anew")
    return "; ".join(told) or "no primary runs there"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def broken_promises(before: PaperReading, after: PaperReading) -> Iterator[str]:
    """Promises that are kept now, and would not be."""
    old = {each.query: each for each in before.plan.queries}
    new = {each.query for each in after.plan.queries}
    for query in after.plan.queries:
        was = old.get(query.query)
        for what, now, then in zip(_kept(query), _broken(query), _broken(was), strict=True):
            if now and not then:
                yield f"query {query.query}: {what}"
    yield from (f"query {name}: it runs no more" for name in sorted(old.keys() - new))
    busy = {(p.name, p.is_machine) for p in before.plan.loads if _is_busy(p)}
    for place in after.plan.loads:
        if _is_busy(place) and (place.name, place.is_machine) not in busy:
            kind = "machine" if place.is_machine else "node"
            cores = place.predicted_cores + place.services_cores
            yield f"{kind} {place.name}: {cores:.2f} of {place.limit_cores:.2f} cores"


def _kept(query: QueryPlan) -> tuple[str, str]:
    return (
        f"latency {figure(query.latency_ms)} of {query.deadline_ms:g} ms",
        f"recovery {figure(query.recovery_ms or 0.0)} of {query.bound_ms:g} ms",
    )


def _broken(query: QueryPlan | None) -> tuple[bool, bool]:
    """Whether deadline and recovery bound are broken; a query that does not run breaks none."""
    if query is None:
        return False, False
    recovery_ms = query.recovery_ms
    return query.latency_ms > query.deadline_ms, (recovery_ms or 0.0) > query.bound_ms


def _is_busy(place: PlaceLoad) -> bool:
    return place.predicted_cores + place.services_cores > place.limit_cores

"""The blast radius of a drill: what it hits, and what it would lose, before it is run."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from orchestrator.control.decide.late_hosts import lateness_ms
from orchestrator.control.observe.published import PublishedFigures
from orchestrator.control.observe.view import ClusterView
from orchestrator.results.drill_report import Blast


def blast_radius(view: ClusterView, nodes: Collection[str]) -> Blast:
    """What the failure of the hosts of some nodes and sites hits; of ZooKeeper, if there is none.

    While ZooKeeper is away, a first failure of each fragment is survived and nothing is healed.
    """
    records = {name: found.record for name, found in sorted(view.fragments.items())}
    primaries = tuple(n for n, r in records.items() if r.primary.node in nodes)
    secondaries = tuple(
        n for n, r in records.items() if r.secondary is not None and r.secondary.node in nodes
    )
    streams = tuple(n for n, s in sorted(view.entering.items()) if s.feeding_site in nodes)
    flow = view.dataflow
    hit = {records[name].query for name in (*primaries, *secondaries)}
    for name, query in view.query_records.items():
        if set(query.outputs.values()) & set(nodes) or flow.entering_streams(name) & set(streams):
            hit.add(name)
    hit = hit or set(view.query_records)
    bare = view.unprotected
    falling = {*primaries} & {*bare, *secondaries}
    lost = [f"the state of {n}, which has no warm secondary" for n in primaries if n in falling]
    lost += [
        f"what would enter {name} meanwhile, because its source cannot resume"
        for name in streams
        # Of those that may go to another site, clients send it again.
        if not view.stream_records[name].resumes and view.stream_records[name].standby is None
    ]
    weak = {*primaries, *secondaries, *bare} if nodes else set(records)
    return Blast(
        nodes=tuple(sorted(nodes)),
        primaries=primaries,
        secondaries=secondaries,
        streams=streams,
        outputs=tuple(s for name in sorted(hit) for s in view.query_records[name].outputs),
        bound_ms=min((view.query_records[q].recovery_bound_ms for q in hit), default=float("inf")),
        unprotected=tuple(sorted(weak)),
        would_lose=tuple(lost),
    )


def primary_on(view: ClusterView, node: str) -> str | None:
    """The first fragment whose primary runs on a node; None if there is none."""
    here = [n for n, f in sorted(view.fragments.items()) if f.record.primary.node == node]
    return here[0] if here else None


def blast_of_switchover(view: ClusterView, node: str) -> Blast:
    """What changes if the first primary of a node changes roles with its secondary: no host fails,
    and the fragment is protected throughout."""
    fragment = primary_on(view, node)
    return msgspec.structs.replace(
        blast_radius(view, [node]),
        primaries=() if fragment is None else (fragment,),
        secondaries=(),
        unprotected=(),
        would_lose=(),
    )


def planned_recoveries_ms(view: ClusterView, figures: PublishedFigures) -> dict[str, float]:
    """Fragment → how long its recovery takes by the plan; without those that have no secondary,
    and those of whose present places the leader has published no figures.

    What makes it longer at present because hosts are late is part of it.
    """
    found: dict[str, float] = {}
    for name, fragment in view.fragments.items():
        plan = figures.plan_of(fragment.record)
        if plan is not None and plan.recovery_ms is not None:
            found[name] = plan.recovery_ms + (lateness_ms(view, fragment.record) or 0.0)
    return found

"""How busy nodes and machines are, and whether they can take a further query.

The predicted load of a host is the sum over its replicas, primaries and secondaries alike
(`workload`), plus the load of an idle host. The host reports the measured load (`measured_load`).
The greater of the two counts: a prediction may be wrong, and a measurement may be of a quiet hour.

A measurement is a moment old. Replicas that were placed since, or whose streams have yet to start,
are added as predicted. Replicas that have ended since are subtracted. So it makes no difference
whether queries are applied together, quickly one after the other, or slowly. Lost replicas count
where healing will place them, because they will run again in a moment. The load of the cluster's
other processes on a machine, its *services*, is measured too, and grows with the replicas.

Some of a place must stay free for a *takeover*. When a node fails, the secondaries of its primaries
have the rest of the recovery bound, after detection, to evaluate their lag and to take over. So the
place needs two things beside its load: the processor time of that work divided by that time, and
the difference between a primary and a secondary. The load of the failed node on the same machine is
free then. Of all failures, the one that needs most counts.

The demand test of sub-deadlines (`placement.deadline.demand`) asks whether a node can do the work
of one burst in time. It assumes that a burst is done before the next one comes, which holds only
where this module finds room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ha.roles import ReplicaRole
from orchestrator.control.observe.measured_load import (
    NODE_SHARE,
    MeasuredPlace,
    measured_places,
    speed_of,
)
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.overhead import idle_cores
from orchestrator.control.planning.site_load import coming_to_site, site_cores
from orchestrator.control.planning.task import RunningFragment
from orchestrator.control.planning.workload import (
    LAG_SHARE,
    FragmentWork,
    Workload,
    taken_by,
)
from orchestrator.records import NodeKind, NodeRecord, ReplicaStatus
from placement.errors import PlacementError

SERVICE_US = 450.0
"""Processor time a second, at speed 1, of coordinator and ZooKeeper for a replica that is placed
and not reported yet: what benchmark `density` shows (`<service>_cores`)."""

RESTING_CORES = 0.15
"""The most of the load of coordinator and ZooKeeper on a machine that counts, together, at speed 1.
Once nothing changes, the coordinator rests nine times as long as it works (`control.process`), and
ZooKeeper works for it and for hosts whose replicas change. A greater load is due to queries that
have just been applied, and must not count against the next one. With hundreds of replicas the
lasting load is less than this (benchmark `density`, `coordinator_cores`, `zookeeper_cores`)."""

RESTING = frozenset({"coordinator", "zookeeper"})
"""Services that rest once nothing changes."""

TAKEOVER_US = 1_000.0
"""Processor time, at speed 1, of taking over one fragment, beside catching up: telling consumers
and the store, sending again. With a hundred queries, hosts that took over took 2.4 ms a fragment
beyond their usual load in the half second after a kill, with catching up, and evaluating as often
as a primary does."""

MOST_NAMED = 3
"""Queries that are proposed for deletion."""

ROUNDING_CORES = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedPlace(MeasuredPlace):
    """A node, or a machine with several hosts, with what it is predicted to take.

    Attributes
    ----------
    predicted_cores
        Predicted load of its hosts.
    healing_cores
        The part of it that belongs to replicas that were lost and will be placed again.
    coming_cores
        Predicted load of replicas that came after the measurement, less that of ended ones.
    services_cores
        Load of the services, with the part that hosts have yet to cause.
    takeover_cores
        The reserve for a takeover.
    fragments
        Predicted load of the replicas of each fragment, and of each stream, cores.
    """

    predicted_cores: float
    healing_cores: float
    coming_cores: float
    services_cores: float
    takeover_cores: float
    fragments: Mapping[str, float]

    @property
    def hosts_cores(self) -> float:
        """The greater of prediction and measurement, the latter brought up to date."""
        return max(self.predicted_cores, (self.measured_cores or 0.0) + self.coming_cores)

    @property
    def used_cores(self) -> float:
        """All that cannot be given to a further query."""
        return self.hosts_cores + self.services_cores + self.takeover_cores


@dataclass(eq=False)
class Overload(PlacementError):
    """A query would take more of a node or machine than there is.

    Attributes
    ----------
    place
        Without the query.
    added_cores
        The load that the query would add there.
    fragments
        The part of each of its fragments.
    largest
        The queries with the greatest loads there, the greatest first, and these loads.
    """

    message = (
        "query {0.query}: {0.place.subject} is used to {0.place.used_cores:.2f} cores and has a "
        "limit of {0.place.limit_cores:.2f}; the query would add {0.added_cores:.2f}"
    )
    query: str
    place: PredictedPlace
    added_cores: float
    fragments: Mapping[str, float]
    largest: Mapping[str, float]


def host_cores(
    view: ClusterView, work: Workload, running: Mapping[str, RunningFragment]
) -> dict[str, dict[str, float]]:
    """Host → fragment or stream → processor time that it should take there, cores."""
    taken: dict[str, defaultdict[str, float]] = {name: defaultdict(float) for name in view.hosts}
    chunks_s: dict[str, defaultdict[str, float]] = {
        name: defaultdict(float) for name, node in view.hosts.items() if node.kind is NodeKind.SITE
    }
    readers: dict[str, set[str]] = {}
    replicas: dict[str, list[str]] = {name: [] for name in view.hosts}
    for name, found in running.items():
        each = work.fragments.get(name)
        if each is None:
            continue
        nodes: list[str] = []
        for node, cores in (found.primary, each.cores), (found.secondary, each.standby_cores):
            if node in taken:
                taken[node][name] += cores
                replicas[node].append(name)
                nodes.append(node)
        for stream in each.fragment.inputs:
            readers.setdefault(stream, set()).update(nodes)
        if each.sink in chunks_s:
            chunks_s[each.sink][name] += each.evaluations_s
    for node, names in replicas.items():
        primaries = {name for name in names if running[name].primary == node}
        for name, cores in work.receiving_cores(names, primaries).items():
            taken[node][name] += cores
    for stream, site in work.sites.items():
        if site in chunks_s and stream in readers:
            chunks_s[site][stream] += work.rates[stream].arrivals_s * (1 + len(readers[stream]))
    for site, counts_s in chunks_s.items():
        for name, cores in site_cores(view, work, site, counts_s).items():
            taken[site][name] += cores
    return {name: dict(cores) for name, cores in taken.items()}


def coming_cores(view: ClusterView, work: Workload, taken: Mapping[str, float], host: str) -> float:
    """Load of a host that came after its measurement, less the load that ended since, cores.

    Parameters
    ----------
    taken
        As of `host_cores`, of this host.
    """
    node = view.hosts[host]
    if node.load is None:
        return idle_cores(node) + sum(taken.values())
    if node.kind is NodeKind.SITE:
        coming = coming_to_site(view, work, taken, host)
    else:
        coming = sum(cores * (1 - _share(node, work, name)) for name, cores in taken.items())
    ended = [
        (status.load.cores + status.load.evaluations_s * work.overhead_us / 1e6)
        * status.load.window_share
        for name, status in node.replicas.items()
        if name not in taken and status.load is not None
    ]
    return coming - sum(ended)


def _share(node: NodeRecord, work: Workload, name: str) -> float:
    """The share of a fragment's predicted load that a node's measurement contains already.

    A busy host makes fewer evaluations of more tuples, and in a quiet hour there are fewer tuples.
    More load is to come only if there is less of both than expected. A measurement is a mean over
    some seconds, and a replica that has just been placed did not run in most of them.
    """
    status = node.replicas.get(name)
    if status is None or status.load is None:
        return 0.0
    each = work.fragments[name]
    expected_tuples_s = taken_by(each.fragment, work.rates).tuples_s
    shares = [
        made_s / expected_s
        for made_s, expected_s in (
            (status.load.evaluations_s, _evaluations_s(each, status)),
            (status.load.tuples_s, expected_tuples_s),
        )
        if expected_s > 0
    ]
    return min(max(shares, default=1.0), 1.0) * status.load.window_share


def _evaluations_s(work: FragmentWork, replica: ReplicaStatus) -> float:
    """How often a replica should evaluate."""
    if replica.role is ReplicaRole.PRIMARY:
        return work.evaluations_s
    return work.standby_evaluations_s


def places(
    view: ClusterView,
    work: Workload,
    running: Mapping[str, RunningFragment],
    healing: Mapping[str, RunningFragment],
) -> tuple[PredictedPlace, ...]:
    """All nodes and sites, then all machines with several hosts; see `measured_places`.

    Parameters
    ----------
    healing
        Fragments that lack a replica, as they will run.
    """
    healed = {**running, **healing}
    taken = host_cores(view, work, healed)
    without = host_cores(view, work, running) if healing else taken
    emulated = view.settings.emulate_costs
    needed = {} if emulated else takeover_cores(view, work, healed, taken)
    found: list[PredictedPlace] = []
    for measured in measured_places(view.hosts, view.service_records, emulated=emulated):
        fragments: defaultdict[str, float] = defaultdict(float)
        for name in measured.hosts:
            for fragment, cores in taken[name].items():
                fragments[fragment] += cores
        found.append(
            PredictedPlace(
                name=measured.name,
                hosts=measured.hosts,
                capacity_cores=measured.capacity_cores,
                limit_cores=measured.limit_cores,
                measured_cores=measured.measured_cores,
                services=measured.services,
                speed=measured.speed,
                # All other work of a host fits into the time that emulated costs take.
                predicted_cores=sum(fragments.values())
                + (0.0 if emulated else sum(idle_cores(view.hosts[n]) for n in measured.hosts)),
                healing_cores=sum(
                    sum(taken[name].values()) - sum(without[name].values())
                    for name in measured.hosts
                ),
                coming_cores=0.0
                if emulated
                else sum(coming_cores(view, work, taken[name], name) for name in measured.hosts),
                services_cores=_services_cores(view, measured, taken),
                takeover_cores=_most_needed_cores(needed, measured.hosts),
                fragments=dict(fragments),
            )
        )
    return tuple(found)


def takeover_cores(
    view: ClusterView,
    work: Workload,
    running: Mapping[str, RunningFragment],
    taken: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Node or what nodes fail with → host → the reserve for taking over from it there, cores.

    Negative for the hosts that fail: the load of their replicas is free then.

    Parameters
    ----------
    taken
        As of `host_cores`.
    """
    detected_ms = view.settings.detection_ms
    needed: dict[str, dict[str, float]] = {}
    for name, found in running.items():
        each = work.fragments.get(name)
        primary, secondary = view.hosts.get(found.primary), view.hosts.get(found.secondary or "")
        if each is None or primary is None or secondary is None:
            continue
        left_ms = each.bound_ms - detected_ms
        if left_ms <= 0:
            continue
        # What came while the secondary rested, and at least what its lag allows. The lag of one
        # that breaks the bound is a sub-deadline: nobody catches up with that within the bound.
        rested_ms = 1e3 / each.standby_evaluations_s if each.standby_evaluations_s else 0.0
        lag_ms = min(found.timing.standby_lag_ms, LAG_SHARE * left_ms)
        behind_ms = each.cores * max(lag_ms, rested_ms)
        cores = (behind_ms + TAKEOVER_US / speed_of(secondary) / 1e3) / left_ms
        # From then on it is evaluated as often as a primary.
        cores += max(each.cores - each.standby_cores, 0.0)
        failing = [("node", primary.node)]
        failing += [
            group for group in primary.labels.groups if group not in secondary.labels.groups
        ]
        for kind, name in failing:
            on = needed.get(f"{kind} {name}")
            if on is None:
                lost = [name] if kind == "node" else _labelled(view, kind, name)
                on = {node: -sum(taken[node].values()) for node in lost}
                needed[f"{kind} {name}"] = on
            on[secondary.node] = on.get(secondary.node, 0.0) + cores
    return needed


def _labelled(view: ClusterView, kind: str, label: str) -> list[str]:
    """The executors that die with an application, a machine, a zone or a domain."""
    return [n for n, node in view.executors.items() if (kind, label) in node.labels.groups]


def _most_needed_cores(needed: Mapping[str, Mapping[str, float]], hosts: Collection[str]) -> float:
    """The reserve of some hosts together for the failure that needs most there."""
    sums = (sum(on.get(host, 0.0) for host in hosts) for on in needed.values())
    return max(0.0, max(sums, default=0.0))


def _services_cores(
    view: ClusterView, measured: MeasuredPlace, taken: Mapping[str, Mapping[str, float]]
) -> float:
    """Load of the services of a place, with the part of replicas that are not reported yet."""
    if not measured.services:
        return 0.0
    coming = sum(len(taken[name]) - len(node.replicas) for name, node in view.executors.items())
    resting = sum(cores for kind, cores in measured.services.items() if kind in RESTING)
    others = sum(measured.services.values()) - resting
    coming_cores = coming * SERVICE_US / measured.speed / 1e6
    return max(others + min(resting, RESTING_CORES / measured.speed) + coming_cores, 0.0)


def room_cores(found: Collection[PredictedPlace]) -> dict[str, float]:
    """Host → the load that may be added, by its own limit and that of its machine."""
    room: dict[str, float] = {}
    for place in found:
        for host in place.hosts:
            left = place.limit_cores - place.used_cores
            room[host] = min(left, room.get(host, left))
    return room


def overload(
    before: tuple[PredictedPlace, ...],
    after: tuple[PredictedPlace, ...],
    query: str,
    work: Workload,
    *,
    tolerated_cores: float = ROUNDING_CORES,
) -> Overload | None:
    """The place that a query would overload the most; None if it fits everywhere.

    Parameters
    ----------
    before, after
        Without the query, and with it. Nothing more fits into a place that is overloaded already.
    tolerated_cores
        The load that may be added to any place all the same.
    """
    own = {each.name for each in work.of(query)}
    worst: tuple[float, Overload] | None = None
    for now, then in zip(before, after, strict=True):
        added = (
            then.predicted_cores
            - now.predicted_cores
            + max(then.services_cores - now.services_cores, 0.0)
            + max(then.takeover_cores - now.takeover_cores, 0.0)
        )
        excess = now.used_cores + added - now.limit_cores
        if (
            added > tolerated_cores
            and excess > ROUNDING_CORES
            and (worst is None or excess > worst[0])
        ):
            fragments = {n: cores for n, cores in then.fragments.items() if n in own}
            refused = Overload(query, now, added, fragments, largest(now, work))
            worst = (excess, refused)
    return None if worst is None else worst[1]


def largest(place: PredictedPlace, work: Workload) -> dict[str, float]:
    """The queries that take most of a place, the largest first."""
    queries: defaultdict[str, float] = defaultdict(float)
    for name, cores in place.fragments.items():
        if name in work.fragments:
            queries[work.fragments[name].fragment.query] += cores
    ordered = sorted(queries.items(), key=lambda each: (-each[1], each[0]))
    return dict(ordered[:MOST_NAMED])


def advice(
    view: ClusterView,
    place: PredictedPlace,
    queries: Mapping[str, float],
    found: Collection[PredictedPlace],
) -> str:
    """A sentence that says how to relieve a place.

    Parameters
    ----------
    queries
        As of `largest`.
    found
        All places.
    """
    running = _named({query: cores for query, cores in queries.items() if query in view.queries})
    others = _named({query: cores for query, cores in queries.items() if query not in view.queries})
    ways = [f"leave out {others}"] if others else []
    ways += [f"delete one of {running}"] if running else []
    if not ways:
        return "Nothing that runs there can be deleted: it takes more than it should."
    nodes = view.executors.keys() - view.closed - view.suspects - set(place.hosts)
    room = {node: cores for node, cores in room_cores(found).items() if node in nodes}
    free = max(room, key=lambda node: room[node], default=None)
    if free is not None and room[free] > NODE_SHARE / 2:
        moved = f"or move it: apply it again with `primaries` on {free}."
        return f"{_sentence(ways)}, {moved}"
    return f"{_sentence([*ways, 'bring in less'])}, or add a machine."


def _named(queries: Mapping[str, float]) -> str:
    return ", ".join(f"{query} ({cores:.1f} cores)" for query, cores in queries.items())


def _sentence(ways: Sequence[str]) -> str:
    text = ", ".join(ways)
    return text[0].upper() + text[1:]

"""Planning the queries of a cluster one after the other, around everything that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import cached_property, partial

import msgspec

from orchestrator.control.observe.dataflow import (
    AS_WRITTEN,
    Dataflow,
    InvalidQuery,
    sound_dataflow,
)
from orchestrator.control.observe.failure_domains import HostDomains
from orchestrator.control.observe.unreadable_fragments import reconstructed_fragments
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.feeding import fed_standbys, fed_timing, feedings, with_feeding
from orchestrator.control.planning.periods import PeriodsUnattainable, check_periods
from orchestrator.control.planning.replicas import (
    cheapest_places,
    choose_secondaries,
    choose_secondary,
    standby_lag_ms,
)
from orchestrator.control.planning.standby_reasons import standby_choices, with_choices
from orchestrator.control.planning.sub_deadlines import (
    best_effort,
    deadline_task,
    kept_by_cheapest,
    other_primaries,
    with_standbys,
)
from orchestrator.control.planning.task import (
    QueryTask,
    RunningFragment,
    flowing,
    lacking,
    network_view,
    wanted_functions,
    without_hosts,
)
from orchestrator.control.planning.utilisation import PredictedPlace, overload, places, room_cores
from orchestrator.control.planning.workload import Workload, played_speed, workload
from orchestrator.records import (
    FragmentRecord,
    NodeKind,
    QueryRecord,
    RunningQueryRecord,
    StreamRecord,
    Timing,
)
from placement.errors import PlacementError
from placement.evaluation.single import running_secondaries
from placement.planner import described
from placement.records import Plan, Secondary
from placement.settings import Settings


class Planning:
    """A planning problem, and the fragments that run in it or were placed so far.

    Parameters
    ----------
    view
        Hosts, settings, measured costs, and what runs.
    streams, queries, flow
        The dataflow to run: that of the store, or with the manifests to be applied.
    decided
        How queries run.

    Attributes
    ----------
    fragments
        Records as they will be, by `<query>.<fragment>`.
    work
        Of all fragments.
    running
        Fragments that run or were placed, by name.
    reconstructed
        Those of `fragments` whose own records cannot be read, and must not be written.
    """

    def __init__(
        self,
        view: ClusterView,
        streams: Mapping[str, StreamRecord],
        queries: Mapping[str, QueryRecord],
        flow: Dataflow,
        decided: Mapping[str, RunningQueryRecord] = AS_WRITTEN,
    ) -> None:
        self.view = view
        self.streams = view.entering_of(streams)
        self.queries = queries
        self.decided = decided
        self.flow = flow
        self.work = workload(view, flow, streams, queries, decided)
        self.fragments: dict[str, FragmentRecord] = {}
        self.running: dict[str, RunningFragment] = {}
        self._healed: dict[str, RunningFragment] = {}
        for found in view.fragments.values():
            self.note(found.record)
        self.reconstructed = reconstructed_fragments(view)
        for record in self.reconstructed.values():
            work = self.work.fragments.get(record.fragment)
            cost_ms = record.timing.cost_ms if work is None else work.instance_ms
            timing = msgspec.structs.replace(record.timing, cost_ms=cost_ms)
            self.note(msgspec.structs.replace(record, timing=timing))

    @staticmethod
    def of(view: ClusterView) -> Planning:
        """The problem of what is in the store."""
        return Planning(
            view, view.stream_records, view.query_records, view.dataflow, view.running_records
        )

    def fork(self) -> Planning:
        """The same problem with the same content, in which other decisions can be made."""
        other = copy(self)
        other.fragments, other.running = dict(self.fragments), dict(self.running)
        other._healed = dict(self._healed)
        return other

    def written(self, query: RunningQueryRecord) -> Planning:
        """A fork in which a query that has no place yet is written in another way."""
        other = self.fork()
        other.decided = {**self.decided, query.name: query}
        other.flow, _ = sound_dataflow(self.specs, self.queries, other.decided)
        other.work = workload(self.view, other.flow, self.specs, self.queries, other.decided)
        return other

    @property
    def specs(self) -> dict[str, StreamRecord]:
        """What people wrote of the streams that enter."""
        return {name: stream.spec for name, stream in self.streams.items()}

    @property
    def speeds(self) -> dict[str, float]:
        """Stream that enters → event time that passes on it in a unit of time."""
        return {name: played_speed(stream) for name, stream in self.specs.items()}

    @property
    def settings(self) -> Settings:
        """The planner's, with the cluster's CPU scaling, batches and method."""
        cluster = self.view.settings
        # A hop costs time for the work that it is, so it is avoided for as much.
        overhead_ms = cluster.hop_overhead_ms + cluster.batch_ms
        settings = Settings(cpu=cluster.cpu, hop_overhead_ms=overhead_ms, crossing_ms=overhead_ms)
        return settings.by(cluster.placement.method)

    def runs(self, query: str) -> bool:
        """Whether all fragments of a query have a place."""
        return all(work.name in self.running for work in self.work.of(query))

    def note(self, record: FragmentRecord) -> None:
        """A fragment runs by this record: on its live replicas, the secondary standing in for a
        primary that is gone, as it will."""
        self.fragments[record.key] = record
        self.running.pop(record.fragment, None)
        self._healed.pop(record.fragment, None)
        replicas = [r for r in (record.primary, record.secondary) if self.view.alive(r)]
        alive = [r.node for r in replicas if r is not None and r.node in self.view.nodes]
        if alive:
            secondary = alive[1] if len(alive) > 1 else None
            running = RunningFragment(primary=alive[0], secondary=secondary, timing=record.timing)
            self.running[record.fragment] = running

    def discard(self, key: str) -> None:
        """A fragment runs no longer."""
        self.running.pop(self.fragments.pop(key).fragment, None)

    def place(self, query: str, *, relaxed: bool = False, without_sites: bool = False) -> Plan:
        """Place the fragments of a query that do not run, keep those that do.

        There is one feedback step, `other_primaries`, with this rule:

        - It is taken if the primaries of step 1 leave less than `SPARE` of the time before some
          sub-deadline free.
        - It keeps the places of all fragments that run, and the sub-deadlines of queries that share
          no stream with this one. New fragments are placed anew among the candidates of step 1
          beside which a secondary can keep the recovery bound.
        - It is taken once: the deadline program returns primaries together with sub-deadlines that
          they keep, and step 3 moves no primary.

        Parameters
        ----------
        relaxed
            Disregard deadline and bound: for a query that runs, late is better than never.
        without_sites
            As in `task`.

        Raises
        ------
        InvalidQuery
            Its sites are not there, or it reads a query that has no place yet.
        PlacementError
            It cannot be placed, however loose failure domains are. `Overload`: it is new, and would
            overload a node or a machine. `PeriodsUnattainable`: it is new, and would make releases
            of periodic statements late.
        """
        how = {"relaxed": relaxed, "without_sites": without_sites}
        *stricter, loosest = self.domains.levels
        for looseness in stricter:
            with suppress(PlacementError):
                return self._place_apart(query, looseness=looseness, **how)
        return self._place_apart(query, looseness=loosest, **how)

    @cached_property
    def domains(self) -> HostDomains:
        """Which nodes may die together."""
        return HostDomains(self.view)

    def _place_apart(
        self, query: str, *, looseness: int, relaxed: bool, without_sites: bool
    ) -> Plan:
        """Place a query with failure domains of some looseness."""
        task = partial(self.task, query, looseness=looseness)
        is_new = all(work.fragment.key not in self.fragments for work in self.work.of(query))
        if relaxed or not is_new or not self.view.settings.admission:
            return self._place(task(relaxed=relaxed, without_sites=without_sites))
        running, before = dict(self.running), self.places()
        room = room_cores(before)
        # Fragments that follow each other belong together, unless no node has room for them.
        settings = [self.settings, replace(self.settings, crossing_ms=0.0)]
        while settings:
            try:
                plan = self._place(replace(task(room_cores=room), settings=settings[0]))
            except PlacementError:
                del settings[0]
                continue
            refused = self._refused(before, query)
            if refused is None:
                return plan
            self.running = dict(running)
            if isinstance(refused, PeriodsUnattainable) and room.get(refused.node, 1.0) > 0:
                # Another node may have time for its releases.
                room |= {refused.node: 0.0}
            else:
                del settings[0]
        # Either there is no plan anyway, or its figures tell what it lacks.
        plan = self._place(task())
        if (refused := self._refused(before, query)) is not None:
            self.running = running
            raise refused
        return plan

    def _refused(self, before: tuple[PredictedPlace, ...], query: str) -> PlacementError | None:
        """Why a new query cannot run as it was placed just now; None: it can.

        Parameters
        ----------
        before
            How busy all places were without it.
        """
        refused = overload(before, self.places(), query, self.work)
        return refused or self.late_releases(query)

    def late_releases(self, query: str) -> PeriodsUnattainable | None:
        """Which releases of periodic statements are late where a query runs; None: none is, or
        the cluster admits everything."""
        periodic = any(each.releases for each in self.flow.fragments.values())
        if not self.view.settings.admission or not periodic:
            return None
        return check_periods(query, self.work, self.running, self.speeds)

    def places(self) -> tuple[PredictedPlace, ...]:
        """How busy nodes and machines are with what runs or was placed so far, and with the
        replicas that were lost, where healing will place them."""
        return places(self.view, self.work, self.running, self._healing())

    def _healing(self) -> dict[str, RunningFragment]:
        """Fragments that lack a replica, as they will run once they are healed.

        Their nodes are chosen once: figures before and after a query differ by that alone.
        """
        before, lacking = self.running, self._lacking()
        self.running = dict(before)
        for name, query in lacking.items():
            if name in self._healed:
                continue
            # Where no node can take it now, none can take another query either.
            with suppress(PlacementError, InvalidQuery):
                if name in self.running:
                    self.replace_secondary(query, name, None, without_sites=True)
                else:
                    self._place(self.task(query, relaxed=True, without_sites=True))
                self._healed[name] = self.running[name]
        self.running = before
        return {name: self._healed[name] for name in lacking if name in self._healed}

    def _lacking(self) -> dict[str, str]:
        """Fragment with less than two live replicas → its query."""
        found: dict[str, str] = {}
        for name, work in self.work.fragments.items():
            running = self.running.get(name)
            if work.fragment.key in self.fragments and (not running or running.secondary is None):
                found[name] = work.fragment.query
        return found

    def _place(self, task: QueryTask) -> Plan:
        # 1. The cheapest primaries, with the price of their standbys.
        cheapest = cheapest_places(task)
        # 2. Sub-deadlines; other primaries if these leave too little time.
        deadlines = deadline_task(task, cheapest.candidates)
        if task.relaxed:
            due = best_effort(deadlines.problem, deadlines.places)
        else:
            due = kept_by_cheapest(deadlines.problem, deadlines.places)
            due = due or other_primaries(
                with_standbys(deadlines.problem, task), as_printed=task.settings.as_printed
            )
        found = deadlines.of_fragments(due)
        primaries = {name: found.places[name] for name in task.graph.to_place}
        # 3. Secondaries of these primaries, within the recovery bound.
        standbys = choose_secondaries(task, primaries, cheapest)
        due_ms = found.sub_deadlines_ms
        if task.work is not self.work:
            # The way to a site that is away takes time too. The deadline was divided with it once.
            due_ms = {name: self._due_ms(name, ms) for name, ms in due_ms.items()}
        self._adopt(task, primaries, standbys, due_ms)
        return self._figures(task, primaries, standbys)

    def _due_ms(self, fragment: str, planned_ms: float) -> float:
        """The sub-deadline that a fragment has by its record, if there is one."""
        record = self.fragments.get(self.work.fragments[fragment].fragment.key)
        return planned_ms if record is None else record.timing.sub_deadline_ms

    def evaluate(self, query: str) -> Plan:
        """The figures of a query that runs, where and as it runs; nothing is chosen.

        Raises
        ------
        InvalidQuery
            Its sites are not there.
        """
        task = self.task(query)
        primaries = {name: nodes[0] for name, nodes in task.kept.items()}
        return self._figures(task, primaries, self.standbys(task))

    def standbys(self, task: QueryTask) -> dict[str, Secondary]:
        """The secondaries of a query where they run, with their recovery under Active Standby."""
        primaries = {name: nodes[0] for name, nodes in task.kept.items()}
        secondaries = {name: node for name, (_, node) in task.kept.items() if node is not None}
        return running_secondaries(
            task.graph,
            task.pinned | primaries,
            secondaries,
            task.network,
            task.detection_ms,
            task.settings.batch_size,
        )

    def replace_secondary(
        self,
        query: str,
        fragment: str,
        prefer: str | None,
        avoid: Collection[str] = (),
        *,
        loosest: int | None = None,
        without_sites: bool = False,
    ) -> tuple[Secondary, str | None]:
        """Choose a node to stand by for one fragment; see `choose_secondary`.

        Parameters
        ----------
        avoid
            Nodes that must not be chosen.
        loosest
            How loose failure domains may become; None: as loose as they can.
        without_sites
            As in `task`.

        Raises
        ------
        InvalidQuery, PlacementError
            There is no node, or the query's ends are not there.
        """
        before = self.running[fragment]
        # A fragment of the query that runs nowhere at present will start over elsewhere. Meanwhile
        # it must not keep this one from being protected: any place will do for it.
        somewhere = replace(before, secondary=None)
        absent = [work.name for work in self.work.of(query) if work.name not in self.running]
        task = self.task(
            query, absent=dict.fromkeys(absent, somewhere), without_sites=without_sites
        )
        if avoid:
            network = without_hosts(task.network, avoid)
            if loosest is not None:
                # What those nodes alone are apart from is apart from nothing without them.
                network = network.with_domains(task.network.domains)
            task = replace(task, network=network)
        found, problem = choose_secondary(task, fragment, prefer, loosest)
        lag_ms = standby_lag_ms(task, found, before.timing.sub_deadline_ms)
        timing = msgspec.structs.replace(before.timing, standby_lag_ms=lag_ms)
        standbys = self.standbys(task) | {fragment: found}
        timing = fed_timing(task, fragment, standbys, timing)
        self.running[fragment] = replace(before, secondary=found.node, timing=timing)
        return found, problem

    def task(
        self,
        query: str,
        *,
        relaxed: bool = False,
        absent: Mapping[str, RunningFragment] | None = None,
        room_cores: Mapping[str, float] | None = None,
        without_sites: bool = False,
        looseness: int = 0,
    ) -> QueryTask:
        """The problem of one query.

        Parameters
        ----------
        absent
            Fragments of it that are taken to run.
        room_cores
            As in `network_view`.
        without_sites
            Whether it may do without its sites: for a query that runs. One that is not there is
            taken to be where the fragment runs that it feeds or follows.
        looseness
            Of failure domains.
        """
        record = self.queries[query]
        self._check_makers(record)
        without = self.lacking(query)
        self._check_functions(record, without)
        if not without_sites:
            self._check_sites(record)
        own = {work.name for work in self.work.of(query)}
        others = {name: each for name, each in self.running.items() if name not in own}
        replicas = Counter(
            node
            for running in others.values()
            for node in (running.primary, running.secondary)
            if node is not None
        )
        everywhere = self.running | dict(absent or {})
        primaries = {name: running.primary for name, running in everywhere.items()}
        work = self._with_stand_ins(query, primaries) if without_sites else self.work
        readers = [each.name for each in work.of(query)]
        return QueryTask(
            query=record,
            graph=work.graph(query, primaries, flowing(work, others, readers)),
            work=work,
            running=everywhere,
            network=without_hosts(
                network_view(self.view.trusted, replicas, room_cores),
                self.view.closed | without.keys(),
            ).loosened(looseness),
            settings=self.settings,
            detection_ms=self.view.settings.detection_ms,
            ack_interval_ms=self.view.settings.ack_interval_ms,
            relaxed=relaxed,
        )

    def _adopt(
        self,
        task: QueryTask,
        primaries: Mapping[str, str],
        standbys: Mapping[str, Secondary],
        sub_deadlines_ms: Mapping[str, float],
    ) -> None:
        """Note what was placed, and the sub-deadlines of the fragments of connected queries.

        Those of connected queries stay as they are under relaxed limits.
        """
        runs = {name: self.running[name].timing for name in standbys if name in self.running}
        fed = feedings(task, standbys, primaries, runs)
        for name, sub_deadline_ms in sub_deadlines_ms.items():
            if name in standbys:
                node, secondary = primaries[name], standbys[name].node
                lag_ms = standby_lag_ms(task, standbys[name], sub_deadline_ms)
            elif task.relaxed:
                continue
            else:
                before = self.running[name]
                node, secondary = before.primary, before.secondary
                lag_ms = before.timing.standby_lag_ms
            timing = Timing(
                cost_ms=self.work.fragments[name].instance_ms,
                sub_deadline_ms=sub_deadline_ms,
                standby_lag_ms=lag_ms,
            )
            if name in standbys:
                timing = with_feeding(timing, fed[name], standbys[name])
            else:
                before = self.running[name].timing
                timing = msgspec.structs.replace(
                    timing,
                    batch=before.batch,
                    checkpoint_ms=before.checkpoint_ms,
                    covered_ms=before.covered_ms,
                    promised=before.promised,
                )
            self.running[name] = RunningFragment(primary=node, secondary=secondary, timing=timing)

    def _figures(
        self, task: QueryTask, primaries: Mapping[str, str], standbys: Mapping[str, Secondary]
    ) -> Plan:
        asked, places = replace(task, relaxed=False).request, task.pinned | dict(primaries)
        hop_overhead_ms = task.settings.hop_overhead_ms
        told = fed_standbys(task, primaries, standbys, self.running)
        placed, figures = described(asked, places, told, task.network, hop_overhead_ms)
        choices = standby_choices(task, primaries, standbys, self.running)
        figures = with_choices(task, figures, primaries, choices.values(), self.running)
        return Plan(
            placements=tuple(replace(each, standby=choices.get(each.operator)) for each in placed),
            queries=(figures,),
        )

    def lacking(self, query: str) -> dict[str, str]:
        """Hosts on which a query cannot run because of the functions it calls → why."""
        wanted = wanted_functions(self.flow.of(query), self.fragments)
        return lacking(wanted, self.view.executors)

    def _check_functions(self, record: QueryRecord, without: Mapping[str, str]) -> None:
        if without and without.keys() >= self.view.executors.keys():
            raise InvalidQuery(
                record.name,
                "statements",
                "; ".join(f"{node} {why}" for node, why in sorted(without.items())[:3]),
                "can run nowhere",
                "Install the package that has the function on every host, in the version that the "
                "coordinators have, and restart the hosts.",
            )

    def _check_makers(self, record: QueryRecord) -> None:
        for fragment in self.flow.of(record.name):
            for stream in fragment.inputs:
                maker = self.flow.fragments.get(stream)
                if maker is None or stream in self.running or maker.query == record.name:
                    continue
                raise InvalidQuery(
                    record.name,
                    "statements",
                    stream,
                    "is made by a query that has no place yet",
                    f"It waits for query {maker.query}.",
                )

    def _check_sites(self, record: QueryRecord) -> None:
        sites = {n: node for n, node in self.view.hosts.items() if node.kind is NodeKind.SITE}
        wanted = [("outputs", site) for site in record.outputs.values()]
        wanted += [
            (f"statements (stream {stream} enters at)", self.work.sites[stream])
            for fragment in self.flow.of(record.name)
            for stream in fragment.inputs
            if stream in self.work.sites
        ]
        for field, site in wanted:
            if site not in sites or sites[site].coordinate is None:
                problem = "is not a live site" if site not in sites else "has no coordinate yet"
                known = f"Live sites: {', '.join(sorted(sites)) or 'none'}."
                raise InvalidQuery(record.name, field, site, problem, known)

    def _with_stand_ins(self, query: str, primaries: Mapping[str, str]) -> Workload:
        """The work, where nodes stand in for the sites of a query that are not there."""
        located = {n for n, node in self.view.hosts.items() if node.coordinate is not None}
        nodes = self.view.trusted.keys() & self.view.executors.keys() & located
        if not nodes:
            self._check_sites(self.queries[query])
        anywhere = min(nodes, default="")
        sites: dict[str, str] = {}
        sinks: dict[str, str] = {}
        for each in self.work.of(query):
            here = primaries.get(each.name, anywhere)
            if each.sink is not None and each.sink not in located:
                sinks[each.name] = here
            for stream in each.fragment.inputs:
                if stream in self.work.sites and self.work.sites[stream] not in located:
                    sites.setdefault(stream, here)
        return self.work.with_ends(sites, sinks) if sites or sinks else self.work


def order(flow: Dataflow, queries: Iterable[str]) -> list[str]:
    """Queries, those that others read first; ties by name.

    Queries that read each other keep their order by name; the planner will refuse them.
    """
    left = sorted(queries)
    ordered: list[str] = []
    while left:
        ready = [q for q in left if not (flow.upstream_queries(q) - {q}) & set(left)]
        ordered += ready or left
        left = [q for q in left if q not in ordered]
    return ordered

"""All that runs, in the terms in which rebalancing prices it (`placement.rebalancing`).

Each query is priced beside the others: its streams cost nothing on nodes to which they flow because
of other queries, readers in other queries are sent what its fragments make, and secondaries are
sent what their standby schemes keep.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.planning.feeding import fed, payload_share
from orchestrator.control.planning.measured_rates import MeasuredRates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.task import QueryTask, network_view, without_hosts
from orchestrator.control.planning.utilisation import room_cores
from orchestrator.records import DEFAULT_MEMORY_BYTES
from placement.evaluation.cost import Reader, StandbyRates
from placement.network import NetworkView
from placement.rebalancing.running import RunningQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningProblem:
    """What rebalancing works on.

    Attributes
    ----------
    queries
        Those that run with both replicas of every fragment, by name.
    unprotected
        Fragments, by key, that may not move at present.
    state_bytes
        Of fragments, by name.
    assumed_states
        Fragments of which nobody knows the size, by key.
    """

    queries: tuple[RunningQuery, ...]
    network: NetworkView
    unprotected: tuple[str, ...]
    state_bytes: Mapping[str, float]
    assumed_states: tuple[str, ...]


def running_problem(
    planning: Planning, rates: MeasuredRates, only: str | None, *, closed: bool = False
) -> RunningProblem:
    """The problem of everything that runs.

    Parameters
    ----------
    only
        The query whose fragments may move; None: all.
    closed
        Whether closed nodes count as candidates, too.
    """
    view = planning.view
    whole = [query for query in sorted(planning.queries) if _is_whole(planning, query)]
    names = {work.name for query in whole for work in planning.work.of(query)}
    foreign = Counter(
        node
        for name, running in planning.running.items()
        if name not in names
        for node in (running.primary, running.secondary)
        if node is not None
    )
    room: dict[str, float] = {}
    if view.settings.admission:
        room = dict(room_cores(planning.places()))
        for query in whole:
            graph = planning.task(query).graph
            for name in graph.to_place:
                for node in _pair(planning, name):
                    if node in room:
                        room[node] += graph.cores(name)
    nodes = view.hosts if closed else view.trusted
    network = network_view(nodes, foreign, room)
    if not closed:
        network = without_hosts(network, view.closed)
    whole = [query for query in whole if _is_within(planning, query, network)]
    fragments = [work.fragment for query in whole for work in planning.work.of(query)]
    unprotected = {each.name: each.key for each in fragments if not _may_move(planning, each.key)}
    records = {name: each.record for name, each in view.fragments.items()}
    state_bytes = {
        each.name: view.state_bytes(records[each.key]) if each.key in records else None
        for each in fragments
    }
    return RunningProblem(
        queries=running_queries(planning, rates, network, whole, fixed=unprotected, only=only),
        network=network,
        unprotected=tuple(sorted(unprotected.values())),
        state_bytes={
            name: _budget(planning, name) if size is None else float(size)
            for name, size in state_bytes.items()
        },
        assumed_states=tuple(sorted(f.key for f in fragments if state_bytes[f.name] is None)),
    )


def running_queries(
    planning: Planning,
    rates: MeasuredRates,
    network: NetworkView,
    queries: Iterable[str],
    fixed: Collection[str] = (),
    only: str | None = None,
) -> tuple[RunningQuery, ...]:
    """Some queries as they run.

    Parameters
    ----------
    fixed
        Fragments that may not move.
    """
    priced = planning.fork()
    priced.work = rates.of(planning.work)
    found: list[RunningQuery] = []
    for query in queries:
        task = priced.task(query)
        placed = task.graph.to_place
        found.append(
            RunningQuery(
                request=task.request,
                places={
                    name: (network.index[primary], network.index[secondary])
                    for name in placed
                    for primary, secondary in [_pair(priced, name)]
                },
                standbys=_standbys(priced, task),
                readers=_readers(priced, query),
                movable=[] if only not in (None, query) else [n for n in placed if n not in fixed],
            )
        )
    return tuple(found)


def sharing(planning: Planning, query: str) -> list[str]:
    """Queries that make or read a stream that this one makes or reads, itself among them."""
    flow = planning.flow
    streams = {s for each in flow.of(query) for s in (each.name, *each.inputs)}
    return sorted(
        {f.query for f in flow.fragments.values() if not streams.isdisjoint((f.name, *f.inputs))}
    )


def _is_whole(planning: Planning, query: str) -> bool:
    work = planning.work.of(query)
    if not work or not planning.runs(query):
        return False
    try:
        planning.task(query)
    except InvalidQuery:
        return False
    return all(planning.running[each.name].secondary is not None for each in work)


def _is_within(planning: Planning, query: str, network: NetworkView) -> bool:
    """Whether the network knows all nodes of a query, and its sites."""
    nodes = [node for work in planning.work.of(query) for node in _pair(planning, work.name)]
    return network.index.keys() >= {*nodes, *planning.task(query).pinned.values()}


def _pair(planning: Planning, name: str) -> tuple[str, str]:
    running = planning.running[name]
    assert running.secondary is not None, "queries that lack a secondary are left out"
    return running.primary, running.secondary


def _may_move(planning: Planning, key: str) -> bool:
    """Whether a fragment is protected, and nothing else is done about it."""
    found, record = planning.view.fragments.get(key), planning.fragments.get(key)
    if found is None or record is None:
        return False
    free = record.stopped is None and record.third is None and not planning.view.moved_by(key)
    return free and planning.view.protected(found.record)


def _budget(planning: Planning, name: str) -> float:
    """What the queues of a fragment's primary may take: its state is taken to be no larger."""
    node = planning.view.hosts.get(planning.running[name].primary)
    memory = None if node is None else node.memory
    return float(DEFAULT_MEMORY_BYTES if memory is None else memory.budget)


def _standbys(planning: Planning, task: QueryTask) -> dict[str, StandbyRates]:
    """What secondaries are sent wherever they are: all of it has to be paid."""
    found: dict[str, StandbyRates] = {}
    for name, standby in planning.standbys(task).items():
        model = fed(task, name, standby)
        model = replace(model, inputs=[replace(each, is_free=False) for each in model.inputs])
        timing, share = planning.running[name].timing, payload_share(task, name)
        feeding = model.with_batch(timing.batch, timing.checkpoint_ms)
        sent = model.sent_bytes_s(feeding)
        streams = task.work.fragments[name].fragment.inputs
        found[name] = StandbyRates(
            inputs={s: share * bytes_s for s, bytes_s in zip(streams, sent, strict=True)},
            own=share * max(feeding.bytes_s - sum(sent), 0.0),
        )
    return found


def _readers(planning: Planning, query: str) -> list[Reader]:
    """Where other queries need the streams of this one: each is sent once to a node."""
    most: defaultdict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    made = {each.name for each in planning.flow.of(query)}
    for name, running in planning.running.items():
        reader = planning.work.fragments.get(name)
        if reader is None or reader.fragment.query == query:
            continue
        for stream in made & reader.fragment.inputs.keys():
            bytes_s = planning.work.sent_bytes_s(stream, name)
            most[stream, running.primary].append((bytes_s, False))
            if running.secondary is not None and running.timing.batch == 1:
                most[stream, running.secondary].append((bytes_s, True))
    readers: list[Reader] = []
    for (stream, node), found in sorted(most.items()):
        bytes_s = max(each for each, _ in found)
        only_secondaries = all(is_secondary for _, is_secondary in found)
        readers.append(Reader(stream, node, bytes_s, only_secondaries))
    return readers

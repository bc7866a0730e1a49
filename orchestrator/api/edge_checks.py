"""Sources and sinks that manifests name, looked at by their sites before anything is applied.

A site may be another machine, and only it knows what files, ports and brokers there are. The client
asks the sites through the store (`orchestrator.edges.site_checks`), all at once, and waits.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from orchestrator.control.observe.dataflow import Dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.errors import InvalidInput, Unreachable
from orchestrator.manifest import Manifests, QueryManifest, StreamManifest
from orchestrator.manifest.kinds import place_of
from orchestrator.progress import Progress
from orchestrator.records import (
    EdgeCheck,
    EdgeFault,
    FragmentRecord,
    ProposalRecord,
    SinkAssignment,
    SourceAssignment,
)
from orchestrator.store.protocol import CHECKS, Store, StoreError

TIMEOUT_S = 60.0
"""How long a site may take: it may read a large recording, and wait for brokers."""

QUICK_S = 0.5
"""Most checks take less; of others people are told what they wait for."""

LOOK_EVERY_S = 0.1


def check_edges(
    store: Store,
    view: ClusterView,
    manifests: Manifests,
    flow: Dataflow,
    proposal: ProposalRecord,
    on_progress: Progress,
) -> None:
    """Have sites look at sources and sinks that are new, or other ones than before.

    Parameters
    ----------
    flow
        With the columns of their outputs.
    proposal
        Which queries go on from a savepoint: their sinks must not be ahead of it.

    Raises
    ------
    InvalidInput
        One could not be opened.
    Unreachable
        A site does not respond.
    """
    lives = {each.name: each.life for each in proposal.running if each.life is not None}
    begun = {each.name: each.savepoint for each in proposal.running}
    asked = _asked(view, manifests, flow, lives)
    changed = threading.Event()
    watch = store.watch(CHECKS, changed.set)
    names: dict[str, str] = {}
    try:
        for site, check in asked.items():
            names[site] = f"{site}-{uuid.uuid4().hex}"
            store.create(CHECKS.key(names[site]), check, ephemeral=True)
        found = _awaited(store, names, changed, on_progress)
    finally:
        watch.cancel()
        for name in names.values():
            _withdraw(store, name)
    for site in sorted(found):
        if (fault := found[site].fault) is not None:
            raise _located(fault, site, manifests)
        for placed in proposal.placements:
            for record in placed.created if placed.query in lives else ():
                kept = found[site].generations.get(record.fragment)
                if kept is None or record.restart is not None:
                    continue
                if kept > record.generation:
                    raise _located(_ahead(record, kept), site, manifests)
                if (fault := _departed(record, view, begun[placed.query])) is not None:
                    raise _located(fault, site, manifests)


def _ahead(record: FragmentRecord, generation: int) -> EdgeFault:
    return EdgeFault(
        stream=record.fragment,
        option=None,
        value=None,
        problem=f"has results of a later beginning (generation {generation}) than the savepoint "
        f"({record.generation}), and would take all that follows for repeated",
        remedy="Begin anew, with --from now, or have the output go elsewhere.",
    )


def _departed(record: FragmentRecord, view: ClusterView, savepoint: str) -> EdgeFault | None:
    found = view.savepoints.get(savepoint)
    if found is None or (how := found.record.departed.get(record.query)) is None:
        return None
    return EdgeFault(
        stream=record.fragment,
        option=None,
        value=None,
        problem=f"has results to which savepoint {savepoint} does not lead, since {how} after it: "
        "what follows would have their numbers, and be taken for repeated",
        remedy="Begin anew, with --from now, or have the output go elsewhere.",
    )


def _asked(
    view: ClusterView, manifests: Manifests, flow: Dataflow, lives: Mapping[str, int]
) -> dict[str, EdgeCheck]:
    """Site → what it is to look at."""
    entering: dict[str, list[SourceAssignment]] = defaultdict(list)
    leaving: dict[str, list[SinkAssignment]] = defaultdict(list)
    for stream in (manifest.record for manifest in manifests.streams):
        if stream.name in view.streams or stream.source is None:
            continue
        for site in stream.sites:
            peer = next((other for other in stream.sites if other != site), None)
            entering[site].append(
                SourceAssignment(
                    stream=stream.name,
                    columns=stream.columns,
                    fields=stream.fields,
                    source=stream.source,
                    start_at_us=None,
                    shed=stream.shed,
                    overdue=stream.overdue,
                    peer_site=peer,
                )
            )
    for query in (manifest.record for manifest in manifests.queries):
        running = view.queries.get(query.name)
        before = None if running is None else running.record
        for output, site in query.outputs.items():
            if before is not None and (site, query.sinks.get(output)) == (
                before.outputs.get(output),
                before.sinks.get(output),
            ):
                continue
            leaving[site].append(
                SinkAssignment(
                    stream=output,
                    columns=dict(flow.columns[output]),
                    deadline_ms=query.deadline_of(output),
                    sink=query.sinks.get(output),
                    life=lives.get(query.name, 0),
                )
            )
    return {
        site: EdgeCheck(site=site, sources=tuple(entering[site]), sinks=tuple(leaving[site]))
        for site in sorted({*entering, *leaving})
    }


def _awaited(
    store: Store, names: Mapping[str, str], changed: threading.Event, on_progress: Progress
) -> dict[str, EdgeCheck]:
    """Site → what it has found."""
    found: dict[str, EdgeCheck] = {}
    began_s, said = time.monotonic(), False
    while True:
        changed.clear()
        for site in names.keys() - found.keys():
            check = store.get(CHECKS.key(names[site]))
            if check is None:
                problem = "was lost with the session of this command"
                raise Unreachable("The check of sources and sinks", site, problem, "Try again.")
            if check.record.is_done:
                found[site] = check.record
        waiting = ", ".join(sorted(names.keys() - found.keys()))
        if not waiting or any(check.fault for check in found.values()):
            return found
        waited_s = time.monotonic() - began_s
        if waited_s > TIMEOUT_S:
            raise Unreachable(
                "The check of sources and sinks",
                waiting,
                f"did not end within {TIMEOUT_S:g} s",
                "Nothing was changed. `vivace status` shows whether the site lives.",
            )
        if waited_s > QUICK_S and not said:
            on_progress("checking", f"sources and sinks at {waiting}")
            said = True
        changed.wait(LOOK_EVERY_S)


def _withdraw(store: Store, name: str) -> None:
    # If the site has written meanwhile, it goes with the session.
    with suppress(StoreError):
        if (found := store.get(CHECKS.key(name))) is not None:
            store.delete(CHECKS.key(name), found.version)


def _located(fault: EdgeFault, site: str, manifests: Manifests) -> InvalidInput:
    """The error of a manifest that what a site has found amounts to."""
    manifest, subject, field = _field(fault, manifests)
    return InvalidInput(
        place_of(manifest, field),
        f"{subject}: {field}",
        fault.value,
        f"{fault.problem} (looked at by site {site})",
        fault.remedy,
    )


def _field(
    fault: EdgeFault, manifests: Manifests
) -> tuple[StreamManifest | QueryManifest, str, str]:
    """Manifest, subject and field that a fault is about."""
    option = "" if fault.option is None else f".{fault.option}"
    for stream in manifests.streams:
        if stream.record.name == fault.stream and stream.record.source is not None:
            driver = stream.record.source.driver
            return stream, f"Stream {fault.stream}", f"from.{driver}{option}"
    (query,) = (each for each in manifests.queries if fault.stream in each.record.outputs)
    field = f"outputs.{fault.stream}"
    if (sink := query.record.sinks.get(fault.stream)) is not None:
        field += f".to.{sink.driver}{option}"
    return query, f"Query {query.record.name}", field

"""A new cluster goes on from a savepoint.

The store of the new cluster gets the records of the savepoint, and its folder of checkpoints gets
the states. Then the cluster starts as one does of which every process has died
(`orchestrator.control.decide.resuming`): each fragment is placed anew, on whatever nodes there are,
and goes on from its checkpoint in the same generation. Streams and queries keep the numbers that
stood for their creation, on which generations and sinks rest (`IssuedRecord`).

All this happens before a process of the cluster is there. If it ends in the middle, the store says
so, and the cluster does not start without the rest.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from foundation.timestamps import timestamp_text
from orchestrator.checkpoints.checkpoint_file import CheckpointRefused, write
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.checkpoints.remote_folder import NO_KEYS, SecretInUri, check_uri
from orchestrator.checkpoints.savepoint import (
    ExportedFiles,
    KeptFiles,
    Savepoint,
    kept_at,
    savepoints_of,
)
from orchestrator.checkpoints.savepoint_index import SavedFragment, SavepointIndex
from orchestrator.control.observe.dataflow import Dataflow, sound_dataflow
from orchestrator.control.savepoint_work import Folders
from orchestrator.edges import sinks, sources
from orchestrator.edges.drivers import DriverError
from orchestrator.edges.events import Durable
from orchestrator.edges.sources.journal_saving import file_name
from orchestrator.errors import InvalidInput
from orchestrator.folders import path_part, private_folder, sync
from orchestrator.manifest import ClusterManifest
from orchestrator.progress import Progress, silent
from orchestrator.records import (
    CheckpointsRecord,
    ClusterRecord,
    Guarantee,
    HistoryEvent,
    IssuedRecord,
    Record,
    RunningStreamRecord,
    SinkAssignment,
    SourceAssignment,
    StateSpec,
    StreamRecord,
)
from orchestrator.records.versions import LEAST_WIRE, WIRE_VERSION
from orchestrator.store.protocol import (
    CHECKPOINTS,
    CLUSTER,
    FRAGMENTS,
    ISSUED,
    QUERIES,
    RUNNING_QUERIES,
    RUNNING_STREAMS,
    STREAMS,
    Key,
    Store,
)

R = TypeVar("R", bound=Record)

RESTORED = "restored from a savepoint"
"""Kind of the event."""

APART = 1 << 20
"""By how much numbers that the new store issues lie above all that the savepoint knows: the former
cluster may have gone on."""

STORE_FOLDER = "zookeeper"
"""Where a cluster's own ZooKeeper keeps its data, below the cluster's folder."""

OPTION = "--from"

WHERE = (
    "Name what `vivace savepoint export` has written, or the savepoint's own folder: "
    "FOLDER/state/savepoints/NAME of a cluster of `vivace up --data FOLDER`."
)
"""What to do if there is no savepoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreObstacle:
    """A state that cannot be gone on with.

    Attributes
    ----------
    stream
        The stream that begins anew because of it; None: only the fragment does.
    subject, problem, remedy
        What to say.
    """

    stream: str | None
    subject: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject} {self.problem}. {self.remedy}".rstrip()


def find_savepoint(named: str, state: StateSpec | None) -> Savepoint:
    """A savepoint by its path or URI, or by its name in a folder of checkpoints.

    Raises
    ------
    InvalidInput
        There is none, or its index is damaged.
    """
    path = Path(named)
    try:
        if "://" in named:
            check_uri(named)
            return Savepoint(kept_at(named))
        if path.exists():
            return Savepoint(ExportedFiles(path.absolute()))
        if "/" in named or state is None:
            problem = "is neither a folder nor a file"
            raise InvalidInput("command line", OPTION, named, problem, WHERE)
        return Savepoint(KeptFiles(savepoints_of(state.folder).folder, named))
    except SecretInUri as secret:
        raise InvalidInput("command line", OPTION, secret.shown, str(secret), NO_KEYS) from None
    except (CheckpointRefused, ValueError) as refused:
        problem = f"is no savepoint: {refused}"
        raise InvalidInput("command line", OPTION, named, problem, WHERE) from None


def check_savepoint(
    savepoint: Savepoint,
    named: str,
    manifest: ClusterManifest,
    archive: Path,
    on_progress: Progress = silent,
) -> list[RestoreObstacle]:
    """Make sure that a cluster can go on from a savepoint; what of it cannot be gone on with.

    Parameters
    ----------
    named
        As it was named.
    manifest
        Of the new cluster.
    archive
        Folder of its sites.

    Raises
    ------
    InvalidInput
        The savepoint is damaged, another version must read it, or the manifest lacks a site.
    """
    index = savepoint.index
    if not LEAST_WIRE <= index.wire <= WIRE_VERSION:
        problem = f"was taken by Vivace {index.vivace} (wire {index.wire}), which this version"
        problem += f" (wire {LEAST_WIRE} to {WIRE_VERSION}) does not read"
        raise InvalidInput("command line", OPTION, named, problem, "Start that version.")
    _check_sites(index, named, manifest)
    done = 0
    try:
        for saved in savepoint.check():
            done += saved.bytes
            on_progress("savepoint", f"{done:,} of {index.bytes:,} bytes are whole")
    except CheckpointRefused as refused:
        remedy = "Use another copy of it, or another savepoint."
        raise InvalidInput("command line", OPTION, named, str(refused), remedy) from None
    return [*_obstacles(index, archive)]


def _check_sites(index: SavepointIndex, named: str, manifest: ClusterManifest) -> None:
    sites = {place.name for place in manifest.sites}
    needed = [(site, f"stream {each.name}") for each in index.streams for site in each.sites]
    for query in index.queries:
        needed += [(site, f"output {name}") for name, site in query.outputs.items()]
    missing = {site: what for site, what in needed if site not in sites}
    for site, what in missing.items():
        problem = f"needs site {site} for {what}, and Cluster {manifest.name} has no such site"
        raise InvalidInput(
            "command line", OPTION, named, problem, f"Add it to `sites` of {manifest.file}."
        )


def _obstacles(index: SavepointIndex, archive: Path) -> Iterator[RestoreObstacle]:
    for fragment, why in index.left_out.items():
        yield RestoreObstacle(
            stream=None, subject=fragment, problem=f"has no state in it: {why}", remedy=""
        )
    flow, _ = sound_dataflow(
        {each.name: each for each in index.streams},
        {each.name: each for each in index.queries},
        {each.name: each for each in index.running_queries},
    )
    running = {each.name: each for each in index.running_streams}
    reached_ms: dict[str, int] = {}
    for spec in index.streams:
        if not spec.resumes or (entered := running.get(spec.name)) is None:
            continue
        found = _source_obstacle(index, spec, entered, archive, reached_ms)
        if found is not None:
            yield found
    yield from _sink_obstacles(index, flow, archive, reached_ms)


def _source_obstacle(
    index: SavepointIndex,
    spec: StreamRecord,
    running: RunningStreamRecord,
    archive: Path,
    reached_ms: dict[str, int],
) -> RestoreObstacle | None:
    """Why a stream cannot be read on; notes up to where the site has it in a journal."""
    needed = [
        each.stored.inputs[spec.name][1] for each in index.saved if spec.name in each.stored.inputs
    ]
    if spec.source is None or not needed:
        return None
    first = min(needed, key=lambda each: each.watermark_ms)
    last = max(needed, key=lambda each: each.watermark_ms)
    subject = f"stream {spec.name}"
    try:
        has = sources.restore(spec.source).kept(_assignment(spec, running), archive, spec.site)
    except DriverError as error:
        problem = f"cannot be read: {error}"
        return RestoreObstacle(stream=spec.name, subject=subject, problem=problem, remedy="")
    if has is None:
        return None
    begin, end, where = has
    copy = index.journals.get(spec.name)
    if end is None and copy is not None and copy.begin is not None and copy.end is not None:
        begin, end = copy.begin, copy.end
    if end is None or begin is None:
        return RestoreObstacle(
            stream=spec.name,
            subject=subject,
            problem=f"has its input in the journal of site {spec.site}, which is neither in the "
            f"savepoint nor in {where}",
            remedy="Copy that folder from the archive of the former site to there, into the folder "
            "that --data names.",
        )
    if begin.watermark_ms > first.watermark_ms or end.watermark_ms < last.watermark_ms:
        has, needs = (
            f"from {timestamp_text(one.watermark_ms)} to {timestamp_text(other.watermark_ms)}"
            for one, other in ((begin, end), (first, last))
        )
        return RestoreObstacle(
            stream=spec.name,
            subject=subject,
            problem=f"has a journal in {where} {has}, and the savepoint needs it {needs} on",
            remedy="Copy the journal that the former site has, as it is now.",
        )
    reached_ms[spec.name] = end.watermark_ms
    return None


def _assignment(spec: StreamRecord, running: RunningStreamRecord) -> SourceAssignment:
    return SourceAssignment(
        stream=spec.name,
        columns=spec.columns,
        fields=spec.fields,
        source=spec.source,
        start_at_us=running.start_at_us,
        shed=spec.shed,
        generation=running.generation,
        peer_site=spec.standby,
    )


def _sink_obstacles(
    index: SavepointIndex, flow: Dataflow, archive: Path, reached_ms: dict[str, int]
) -> Iterator[RestoreObstacle]:
    records = {each.key: each for each in index.fragments}
    for query in index.queries:
        life = index.numbers[QUERIES.key(query.name).path]
        for stream in query.outputs:
            record = records.get(f"{query.name}.{stream}")
            if record is None or stream not in flow.columns:
                continue
            assignment = SinkAssignment(
                stream=stream,
                columns=dict(flow.columns[stream]),
                deadline_ms=query.deadline_of(stream),
                sink=query.sinks.get(stream),
                life=life,
            )
            subject = f"the sink of {stream}"
            try:
                kept = sinks.restore(assignment.sink or sinks.DEFAULT).kept(assignment, archive)
            except DriverError as error:
                told = f"cannot be asked: {error}"
                yield RestoreObstacle(stream=None, subject=subject, problem=told, remedy="")
                continue
            if kept is not None:
                ahead = _ahead(kept, record.generation, stream, flow, reached_ms)
                if ahead is not None:
                    yield RestoreObstacle(
                        stream=None, subject=subject, problem=ahead, remedy=ELSEWHERE
                    )


ELSEWHERE = (
    "Name another folder with --data, or have the output go elsewhere: what the sink has then "
    "stays as it is"
)


def _ahead(
    kept: Durable, generation: int, stream: str, flow: Dataflow, reached_ms: dict[str, int]
) -> str | None:
    """Why what a sink has is not what the savepoint leads to; None: it is, or is before it."""
    if kept.generation > generation:
        return (
            f"has results of a later beginning (generation {kept.generation}) than the savepoint "
            f"({generation}): it would take all that follows for repeated"
        )
    for name in sorted(_entering(stream, flow)):
        if name in reached_ms and kept.position.watermark_ms > reached_ms[name]:
            has, reached = map(timestamp_text, (kept.position.watermark_ms, reached_ms[name]))
            return (
                f"has results up to {has}, and the journal of stream {name} goes only up to "
                f"{reached}: other tuples would get the same numbers"
            )
    return None


def _entering(stream: str, flow: Dataflow) -> set[str]:
    """The streams from outside that lead to a stream."""
    fragment = flow.fragments.get(stream)
    if fragment is None:
        return {stream}
    return {name for each in fragment.inputs for name in _entering(each, flow)}


def check_complete(store: Store, data: Path) -> None:
    """Refuse to start a cluster whose store has only part of a savepoint.

    Raises
    ------
    InvalidInput
        It has.
    """
    issued = store.get(ISSUED)
    if issued is not None and issued.record.restoring:
        named = issued.record.restoring
        problem = f"has only part of savepoint {named}: bringing it there was interrupted"
        remedy = f"Start it with {OPTION} {named} again, or remove the folder."
        raise InvalidInput("command line", "--data", str(data), problem, remedy)


def restore(
    store: Store,
    savepoint: Savepoint,
    named: str,
    data: Path,
    now_us: int,
    anew: Collection[str] = (),
    on_progress: Progress = silent,
    folder: Folders | None = None,
    archive: Path | None = None,
) -> None:
    """Bring a savepoint into the store and the folder of checkpoints of a new cluster.

    Parameters
    ----------
    store
        With the cluster's settings, and neither streams nor queries.
    named, data
        The savepoint and the new cluster's folder, as they were named.
    anew
        Streams that begin anew: their numbers are not those of the savepoint.
    folder
        Takes the states; None: the folder of checkpoints that the settings name.
    archive
        Folder of the sites, which gets the journals that are not there; None: none does.

    Raises
    ------
    InvalidInput
        The store holds a cluster already.
    CheckpointRefused
        The savepoint is damaged, or the folder of checkpoints takes nothing.
    """
    index, settings = savepoint.index, _settings(store)
    _claim(store, named, data)
    if folder is None:
        assert settings.state is not None, "a cluster that goes on from states has a folder"
        folder = CheckpointFolder(settings.state.folder)
    done = 0
    for saved in index.saved:
        stored = _bring(savepoint, saved, folder, settings)
        _put(store, CHECKPOINTS.key(saved.fragment), stored)
        done += saved.bytes
        on_progress("savepoint", f"{done:,} of {index.bytes:,} bytes are in {folder.folder}")
    if archive is not None:
        _bring_journals(savepoint, archive, anew)
    # The clock goes back behind nothing that happened there.
    now_us = max(now_us, index.at_us)
    slipped_ms = (now_us - index.at_us) / 1000
    specs = {each.name: each for each in index.streams}
    for each in index.running_streams:
        if each.name not in anew and each.name in specs:
            _put(
                store, RUNNING_STREAMS.key(each.name), _resumed(each, specs[each.name], slipped_ms)
            )
    for each in index.fragments:
        alone = msgspec.structs.replace(
            each, losses=(), third=None, took_over=None, restarts=None, lacked=()
        )
        _put(store, FRAGMENTS.key(each.key), alone)
    for each in index.running_queries:
        began = msgspec.structs.replace(each, began_us=now_us)
        _put(store, RUNNING_QUERIES.key(each.name), began)
    for each in index.streams:
        _put(store, STREAMS.key(each.name), each)
    for each in index.queries:
        _put(store, QUERIES.key(each.name), each)
    _note_numbers(store, index, anew)
    detail = f"{len(index.saved)} states, {index.bytes} bytes, of cluster {index.cluster}"
    store.append_history(
        HistoryEvent(at_us=now_us, kind=RESTORED, subject=index.name, detail=detail)
    )


def _settings(store: Store) -> ClusterRecord:
    found = store.get(CLUSTER)
    assert found is not None, "the settings are published first"
    return found.record


def _claim(store: Store, named: str, data: Path) -> None:
    """Note that the store is being filled, unless it has something else."""
    issued = store.get(ISSUED)
    if issued is not None and issued.record.restoring == named:
        return
    if issued is not None or store.list(QUERIES).records or store.list(STREAMS).records:
        problem = "holds a cluster already"
        remedy = f"Leave {OPTION} out to go on with it, or name a folder that is empty."
        raise InvalidInput("command line", "--data", str(data), problem, remedy)
    store.create(ISSUED, IssuedRecord(restoring=named))


def _bring(
    savepoint: Savepoint, saved: SavedFragment, folder: Folders, settings: ClusterRecord
) -> CheckpointsRecord:
    """Bring the state of a fragment into the folder of checkpoints, as one of this cluster's."""
    found = savepoint.state_of(saved.fragment)
    assert found is not None, "the index names it"
    head, frames = found
    own = msgspec.structs.replace(head, cluster=settings.name, cluster_id=settings.id)
    content = b"".join(write(own, frames))
    folder.put(saved.fragment, saved.stored.name, content)
    stored = msgspec.structs.replace(saved.stored, bytes=len(content))
    return CheckpointsRecord(query=head.query, fragment=head.fragment, stored=(stored,))


def _bring_journals(savepoint: Savepoint, archive: Path, anew: Collection[str]) -> None:
    """Bring journals to where sites look for them, unless newer ones are there.

    A journal has its own name once all of its files are there.
    """
    index = savepoint.index
    for stream, copy in index.journals.items():
        spec = next(each for each in index.streams if each.name == stream)
        running = next(each for each in index.running_streams if each.name == stream)
        if stream in anew or spec.source is None:
            continue
        has = sources.restore(spec.source).kept(
            _assignment(spec, running), archive, running.primary
        )
        if has is None or has[1] is not None:
            continue
        own = has[2]
        private_folder(own.parent)
        partial = own.with_name(f".{own.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        private_folder(partial)
        for file in copy.files:
            saved = msgspec.structs.replace(file, name=file_name(stream, file.name))
            path = partial / path_part(file.name)
            path.write_bytes(savepoint.journal_file(saved))
            sync(path)
        shutil.rmtree(own, ignore_errors=True)
        partial.rename(own)
        sync(own.parent)


def _resumed(
    running: RunningStreamRecord, spec: StreamRecord, slipped_ms: float
) -> RunningStreamRecord:
    """A stream that goes on where it was: a replay waits for as long as the cluster was away."""
    paced = spec.source is not None and spec.source.guarantee is Guarantee.REPLAYABLE
    primary = running.primary if running.primary in spec.sites else spec.site
    if not (paced and spec.resumes) or running.start_at_us is None:
        return msgspec.structs.replace(running, primary=primary)
    later_ms = running.slipped_ms + slipped_ms
    return msgspec.structs.replace(running, primary=primary, slipped_ms=later_ms)


def _note_numbers(store: Store, index: SavepointIndex, anew: Collection[str]) -> None:
    """Have streams and queries keep the numbers of their creation; the last step."""
    numbers: dict[int, int] = {}
    found: Any
    for folder in (STREAMS, QUERIES):
        for name, found in store.list(folder).records.items():
            number = index.numbers.get(folder.key(name).path)
            if number is not None and not (folder is STREAMS and name in anew):
                numbers[found.created] = number
    issued = store.get(ISSUED)
    assert issued is not None, "it was created first"
    complete = IssuedRecord(floor=index.greatest + APART, stands_for=numbers)
    store.update(ISSUED, complete, issued.version)


def _put(store: Store, key: Key[R], record: R) -> None:
    """Create a record, or replace what an interrupted attempt has left."""
    found = store.get(key)
    if found is None:
        store.create(key, record)
    elif found.record != record:
        store.update(key, record, found.version)

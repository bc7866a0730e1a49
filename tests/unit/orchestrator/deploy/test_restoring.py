"""A new cluster goes on from a savepoint, or says before anything starts why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused, read
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.checkpoints.savepoint import Savepoint
from orchestrator.control.observe.view import read_view
from orchestrator.deploy.restoring import (
    APART,
    check_complete,
    check_savepoint,
    find_savepoint,
    restore,
)
from orchestrator.edges.events import Deliver
from orchestrator.edges.sinks.archive import Archive
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, load
from orchestrator.records import (
    ClusterRecord,
    Guarantee,
    SinkAssignment,
    SourceSpec,
    StateSpec,
    StreamRecord,
)
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore, OutOfWrites
from orchestrator.store.protocol import CLUSTER, FRAGMENTS, QUERIES, STREAMS
from tests.saved_cluster import AT_US, SavedCluster
from tests.streams_of_numbers import chunk


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Savepoint:
    return SavedCluster(tmp_path_factory.mktemp("cluster") / "state").save()


@pytest.fixture
def manifest(tmp_path: Path) -> ClusterManifest:
    file = tmp_path / "other.yaml"
    file.write_text(
        "kind: Cluster\nname: other\nnodes: [a, b]\n"
        "sites: [north-receiver, south-receiver, control-centre]\n"
    )
    found = load([file]).cluster
    assert found is not None
    return found


def empty(folder: Path) -> MemoryStore:
    store = MemoryServer().connect()
    state = StateSpec(folder=str(folder))
    settings = ClusterRecord(name="other", id="second", delays_ms={}, state=state)
    store.create(CLUSTER, settings)
    return store


def test_records_and_states_are_there_under_the_new_cluster(
    savepoint: Savepoint, tmp_path: Path
) -> None:
    store = empty(tmp_path)
    restore(store, savepoint, "before", tmp_path, AT_US + 7_000_000)
    view, index = read_view(store), savepoint.index
    assert {each.key: each.generation for each in index.fragments} == {
        key: found.record.generation for key, found in view.fragments.items()
    }
    assert view.query_records == {each.name: each for each in index.queries}
    # Numbers that stand for creations are the same, and new ones are greater than all before.
    for name, found in view.queries.items():
        assert view.number_of(found) == index.numbers[QUERIES.key(name).path]
    for name, found in view.streams.items():
        assert view.number_of(found) == index.numbers[STREAMS.key(name).path]
    store.create(STREAMS.key("new"), structs.replace(index.streams[0], name="new"))
    assert read_view(store).number_of(read_view(store).streams["new"]) > index.greatest + APART
    folder = CheckpointFolder(str(tmp_path))
    for key, found in view.checkpoints.items():
        (stored,) = found.record.stored
        head, frames = read(folder.read(key, stored.name))
        assert (head.cluster, head.cluster_id) == ("other", "second")
        assert frames == [key.encode(), b"state"]
    running = {name: found.record for name, found in view.running_streams.items()}
    assert running == {each.name: each for each in index.running_streams}
    check_complete(store, tmp_path)


def test_a_replay_goes_on_where_it_was(savepoint: Savepoint, tmp_path: Path) -> None:
    replay = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)
    later, store = with_sources(savepoint, replay), empty(tmp_path)
    restore(store, later, "before", tmp_path, AT_US + 7_000_000)
    for each in savepoint.index.running_streams:
        assert each.start_at_us is not None
        resumed = structs.replace(each, slipped_ms=each.slipped_ms + 7000)
        assert read_view(store).running_streams[each.name].record == resumed


def with_sources(savepoint: Savepoint, source: SourceSpec) -> Savepoint:
    """The same with other sources."""
    streams: tuple[StreamRecord, ...] = tuple(
        structs.replace(each, source=source) for each in savepoint.index.streams
    )
    other = Savepoint(savepoint.files)
    other.index = structs.replace(savepoint.index, streams=streams)
    return other


def test_an_interrupted_one_is_gone_on_with_and_nothing_else_starts_there(
    savepoint: Savepoint, tmp_path: Path
) -> None:
    whole = empty(tmp_path / "whole")
    restore(whole, savepoint, "before", tmp_path, AT_US)
    for writes in range(0, 40, 3):
        folder = tmp_path / str(writes)
        store = empty(folder)
        store.writes_left = writes
        try:
            restore(store, savepoint, "before", folder, AT_US)
        except OutOfWrites:
            store.writes_left = None
            if writes:
                with pytest.raises(InvalidInput, match="has only part of savepoint before"):
                    check_complete(store, folder)
                with pytest.raises(InvalidInput, match="holds a cluster already"):
                    restore(store, savepoint, "another", folder, AT_US)
            restore(store, savepoint, "before", folder, AT_US)
        check_complete(store, folder)
        one, other = read_view(store), read_view(whole)
        assert one.query_records == other.query_records
        assert one.fragments.keys() == other.fragments.keys()
        assert one.checkpoints.keys() == other.checkpoints.keys()


def test_a_store_with_a_cluster_is_left_alone(savepoint: Savepoint, tmp_path: Path) -> None:
    store = empty(tmp_path)
    store.create(STREAMS.key("mine"), structs.replace(savepoint.index.streams[0], name="mine"))
    with pytest.raises(InvalidInput, match="holds a cluster already"):
        restore(store, savepoint, "before", tmp_path, AT_US)
    assert not store.list(FRAGMENTS).records


def test_a_stream_that_begins_anew_gets_a_new_number(savepoint: Savepoint, tmp_path: Path) -> None:
    store = empty(tmp_path)
    restore(store, savepoint, "before", tmp_path, AT_US, anew=("north",))
    view = read_view(store)
    assert view.entering["north"].running.generation > savepoint.index.greatest
    assert view.entering["south"].running.generation <= savepoint.index.greatest


def test_what_was_named_is_found_or_the_message_says_where_it_was_looked_for(
    savepoint: Savepoint, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.tar"
    savepoint.export(copy, lambda _: None)
    assert find_savepoint(str(copy), None).index == savepoint.index
    with pytest.raises(InvalidInput, match="'s3://…@bucket/name' holds credentials"):
        find_savepoint("s3://id:hidden@bucket/name", None)
    with pytest.raises(InvalidInput, match="'nothing' is neither a folder nor a file"):
        find_savepoint("nothing", None)
    with pytest.raises(InvalidInput, match="savepoints/nothing: index"):
        find_savepoint("nothing", StateSpec(folder=str(tmp_path)))
    with pytest.raises(InvalidInput, match="cannot be a part of a path"):
        find_savepoint(".hidden", StateSpec(folder=str(tmp_path)))


def test_a_site_that_lacks_is_named(
    savepoint: Savepoint, manifest: ClusterManifest, tmp_path: Path
) -> None:
    sites = tuple(each for each in manifest.sites if each.name != "north-receiver")
    lacking = structs.replace(manifest, sites=sites)
    with pytest.raises(InvalidInput, match="needs site north-receiver for stream north"):
        check_savepoint(savepoint, "before", lacking, tmp_path)


class Archived:
    """An archive of the savepoint's output `alerts`."""

    def __init__(self, savepoint: Savepoint, folder: Path) -> None:
        self.folder = folder
        self.generation = savepoint.index.fragments[0].generation
        self.life = savepoint.index.numbers["queries/proximity"]
        folder.mkdir()

    def keep(self, generation: int, watermark_ms: int) -> None:
        kept = chunk(0, [(watermark_ms, 1)])
        columns = {field.name: "int" for field in list(kept.rows.schema)[1:]}
        assignment = SinkAssignment(stream="alerts", columns=columns, deadline_ms=1, life=self.life)
        opened = Archive().open(assignment, self.folder)
        opened.keep(
            Deliver(
                stream="alerts",
                epoch=generation,
                generation=generation,
                chunk=kept,
                lost=0,
                arrived_us=1,
            )
        )
        opened.flush()
        opened.close()


def test_a_sink_with_later_results_of_the_same_life_is_no_obstacle(
    savepoint: Savepoint, manifest: ClusterManifest, tmp_path: Path
) -> None:
    archived = Archived(savepoint, tmp_path / "archive")
    archived.keep(archived.generation, 9000)
    assert _told(savepoint, manifest, archived.folder) == []


def test_a_sink_that_began_anew_since_is_an_obstacle(
    savepoint: Savepoint, manifest: ClusterManifest, tmp_path: Path
) -> None:
    archived = Archived(savepoint, tmp_path / "archive")
    archived.keep(archived.generation + 1, 9000)
    (told,) = _told(savepoint, manifest, archived.folder)
    assert "the sink of alerts has results of a later beginning" in told


def _told(savepoint: Savepoint, manifest: ClusterManifest, archive: Path) -> list[str]:
    """The obstacles, but for recordings that this machine does not have."""
    found = check_savepoint(savepoint, "before", manifest, archive)
    return [str(each) for each in found if each.stream is None]


def test_a_stream_whose_journal_is_elsewhere_is_an_obstacle(
    savepoint: Savepoint, manifest: ClusterManifest, tmp_path: Path
) -> None:
    options = {"listen": {"host": "127.0.0.1", "port": 0}}
    http = SourceSpec(driver="http", options=options, guarantee=Guarantee.JOURNALED)
    live = with_sources(savepoint, http)
    found = check_savepoint(live, "before", manifest, tmp_path)
    assert {each.stream for each in found} >= {"north", "south"}
    told = next(str(each) for each in found if each.stream == "north")
    assert "has its input in the journal of site north-receiver" in told
    assert str(tmp_path / "journal" / "north") in told
    assert "Copy that folder" in told


def test_a_damaged_state_is_refused_before_anything_is_written(
    savepoint: Savepoint, manifest: ClusterManifest, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    savepoint.export(copy, lambda _: None)
    saved = savepoint.index.saved[1]
    (copy / saved.file).write_bytes(b"nothing")
    found = find_savepoint(str(copy), None)
    with pytest.raises(InvalidInput, match=f"{saved.file} is damaged"):
        check_savepoint(found, str(copy), manifest, tmp_path)
    with pytest.raises(CheckpointRefused):
        restore(empty(tmp_path / "state"), found, "copy", tmp_path, AT_US)

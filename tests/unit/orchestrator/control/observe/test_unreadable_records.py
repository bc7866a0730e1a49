"""Records that a newer version wrote, or that are broken: what runs stays exactly as it is."""

from __future__ import annotations

from importlib.metadata import version

import msgspec
import pytest

from orchestrator.records.versions import RECORDS
from orchestrator.store.protocol import CLUSTER, NODES, QUERIES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, query_manifest

ALERTS = "proximity.alerts"
GRACE_US = 100_000_000
DECIDED = ("fragments", "queries", "streams", "running-streams")
FOLDERS = (*DECIDED, "nodes")


@pytest.fixture
def cluster() -> ObedientCluster:
    made = ObedientCluster()
    made.apply(aircraft())
    made.settle()
    return made


def paths(cluster: ObedientCluster, folder: str) -> list[str]:
    return [path for path in cluster.server.entries if path.startswith(f"{folder}/")]


def plant_newer(cluster: ObedientCluster, path: str, *, needs: int | None = RECORDS + 1) -> bytes:
    """Make a record one of a newer version; returns the record as it was.

    Parameters
    ----------
    needs
        What it says a reader must know to act on it; None: nothing.
    """
    entry = cluster.server.entries[path]
    says = {"added_later": 1} | ({} if needs is None else {"needs": needs})
    newer = msgspec.json.encode(msgspec.json.decode(entry.data) | says)
    before, owner = entry.data, entry.owner
    cluster.server.plant(path, newer)
    cluster.server.entries[path].owner = owner
    return before


def data(cluster: ObedientCluster, *folders: str) -> dict[str, bytes]:
    return {
        path: entry.data
        for path, entry in cluster.server.entries.items()
        if path.split("/")[0] in folders
    }


def let_time_pass(cluster: ObedientCluster) -> None:
    """Long enough for every patience to end, with the coordinator looking now and then."""
    for _ in range(4):
        cluster.settle_coordinator()
        cluster.now_us += GRACE_US
    cluster.settle_coordinator()


@pytest.mark.parametrize("folder", ["cluster", "clocks", *FOLDERS, "everything"])
def test_what_runs_stays_as_it_is_while_records_cannot_be_read(
    cluster: ObedientCluster, folder: str
) -> None:
    chosen = [folder] if folder in ("cluster", "clocks") else []
    for each in FOLDERS if folder == "everything" else (folder,):
        chosen = chosen or []
        chosen = [*chosen, *paths(cluster, each)]
    before = data(cluster, "assignments", *DECIDED)
    history = cluster.history()
    originals = {path: plant_newer(cluster, path) for path in chosen}
    planted = data(cluster, *DECIDED)
    let_time_pass(cluster)
    after = data(cluster, "assignments")
    assert after == {path: record for path, record in before.items() if path in after}
    assert len(after) == len(paths(cluster, "assignments"))
    assert data(cluster, *DECIDED) == planted
    problems = "\n".join(cluster.coordination.problems)
    assert all(path in problems for path in chosen)
    for path, original in originals.items():
        owner = cluster.server.entries[path].owner
        cluster.server.plant(path, original)
        cluster.server.entries[path].owner = owner
    cluster.settle_coordinator()
    assert data(cluster, "assignments", *DECIDED) == before
    told = set(cluster.history()[len(history) :])
    assert not {each for each in told if not each.startswith("redundancy")}
    assert cluster.coordination.problems == ()


@pytest.mark.parametrize(
    "path", ["queries/proximity", "streams/north", "running-streams/north", f"fragments/{ALERTS}"]
)
def test_one_unreadable_record_changes_no_assignment(cluster: ObedientCluster, path: str) -> None:
    before = data(cluster, "assignments")
    plant_newer(cluster, path)
    let_time_pass(cluster)
    assert data(cluster, "assignments") == before


def test_fragment_that_cannot_be_read_after_a_takeover_keeps_its_generation(
    cluster: ObedientCluster,
) -> None:
    found = cluster.view().fragments[ALERTS]
    cluster.take_over(found.record, found.version)
    cluster.settle()
    after = cluster.view().fragments[ALERTS].record
    assert after.epoch > after.generation
    before = data(cluster, "assignments")
    plant_newer(cluster, f"fragments/{ALERTS}")
    let_time_pass(cluster)
    assert data(cluster, "assignments") == before


@pytest.mark.parametrize("role", ["primary", "secondary"])
def test_replica_whose_node_cannot_be_read_is_neither_replaced_nor_promoted(
    cluster: ObedientCluster, role: str
) -> None:
    record = cluster.view().fragments[ALERTS].record
    assert record.secondary is not None
    node = (record.primary if role == "primary" else record.secondary).node
    before = data(cluster, "fragments", "assignments")
    plant_newer(cluster, NODES.key(node).path)
    let_time_pass(cluster)
    assert data(cluster, "fragments", "assignments") == before


def test_unreadable_settings_change_no_delay(cluster: ObedientCluster) -> None:
    found = cluster.store.get(CLUSTER)
    assert found is not None
    regions = [host.record.region for host in cluster.hosts.values()]
    delays_ms = {one: dict.fromkeys(regions, 7.0) for one in regions}
    delayed = msgspec.structs.replace(found.record, delays_ms=delays_ms)
    cluster.store.update(CLUSTER, delayed, found.version)
    cluster.settle()
    before = data(cluster, "assignments")
    assert any(b"7.0" in record for record in before.values())
    plant_newer(cluster, CLUSTER.path)
    let_time_pass(cluster)
    assert data(cluster, "assignments") == before


def test_unreadable_assignment_is_kept_as_long_as_it_may_hold_what_nothing_else_tells(
    cluster: ObedientCluster,
) -> None:
    primary = cluster.view().fragments[ALERTS].record.primary.node
    plant_newer(cluster, f"fragments/{ALERTS}")
    plant_newer(cluster, f"assignments/{primary}")
    before = data(cluster, "assignments")
    let_time_pass(cluster)
    assert data(cluster, "assignments") == before
    assert f"assignments/{primary}" in "\n".join(cluster.coordination.problems)


def test_unreadable_assignment_is_replaced_in_one_write_by_what_it_follows_from(
    cluster: ObedientCluster,
) -> None:
    before = data(cluster, "assignments")
    plant_newer(cluster, "assignments/lyon")
    seen: list[bool] = []
    cluster.server.on_change = lambda _: seen.append("assignments/lyon" in cluster.server.entries)
    cluster.settle_coordinator()
    assert data(cluster, "assignments") == before
    assert all(seen)


def test_others_are_healed_while_a_fragment_cannot_be_read(cluster: ObedientCluster) -> None:
    plant_newer(cluster, f"fragments/{ALERTS}")
    cluster.settle_coordinator()
    found = cluster.view().fragments["proximity.north_tracks"]
    assert found.record.secondary is not None
    cluster.now_us += 1
    cluster.lose_secondary(found.record, found.version)
    cluster.settle_coordinator()
    after = cluster.view().fragments["proximity.north_tracks"].record
    assert after.secondary is not None
    assert after.secondary != found.record.secondary


def test_takeover_in_a_query_that_cannot_be_read_reaches_its_assignment(
    cluster: ObedientCluster,
) -> None:
    plant_newer(cluster, "queries/proximity")
    cluster.settle_coordinator()
    found = cluster.view().fragments[ALERTS]
    cluster.take_over(found.record, found.version)
    cluster.settle_coordinator()
    assert found.record.secondary is not None
    successor = cluster.view().assignments[found.record.secondary.node].record
    (alerts,) = [each for each in successor.fragments if each.fragment == "alerts"]
    assert (alerts.role, alerts.peer_replica) == ("primary", None)
    assert alerts.epoch == found.record.epoch + 1


def test_new_query_is_placed_beside_a_fragment_that_cannot_be_read(
    cluster: ObedientCluster,
) -> None:
    planted = plant_newer(cluster, f"fragments/{ALERTS}")
    counting = query_manifest(
        "counting",
        "REGISTER QUERY counts RSTREAM(SELECT id FROM north_tracks [NOW]);",
        outputs={"counts": "control-centre"},
    )
    cluster.store.create(QUERIES.key("counting"), counting.record)
    cluster.settle_coordinator()
    assert "counting.counts" in cluster.view().fragments
    assert cluster.server.entries[f"fragments/{ALERTS}"].data != planted
    assert b"added_later" in cluster.server.entries[f"fragments/{ALERTS}"].data


def test_deleted_query_is_retired_though_a_fragment_of_it_cannot_be_read(
    cluster: ObedientCluster,
) -> None:
    plant_newer(cluster, f"fragments/{ALERTS}")
    found = cluster.view().queries["proximity"]
    cluster.store.delete(QUERIES.key("proximity"), found.version)
    cluster.settle()
    assert paths(cluster, "fragments") == []
    assert all(not each.record.fragments for each in cluster.view().assignments.values())


def test_node_that_cannot_be_read_gets_nothing_new(cluster: ObedientCluster) -> None:
    secondary = cluster.view().fragments[ALERTS].record.secondary
    assert secondary is not None
    idle = [n for n in EXECUTORS if not cluster.view().assignments[n].record.fragments]
    for name in idle[:1]:
        plant_newer(cluster, NODES.key(name).path)
    found = cluster.view().fragments[ALERTS]
    cluster.now_us += 1
    cluster.lose_secondary(found.record, found.version)
    cluster.settle_coordinator()
    after = cluster.view().fragments[ALERTS].record.secondary
    assert after is not None
    assert after.node not in idle[:1]


def test_a_record_that_needs_a_newer_version_says_what_to_do(cluster: ObedientCluster) -> None:
    plant_newer(cluster, "streams/north")
    let_time_pass(cluster)
    problem = next(each for each in cluster.coordination.problems if "streams/north" in each)
    assert f"needs a version that reads records {RECORDS + 1}" in problem
    assert f"Another version of Vivace than this one ({version('vivace')}) wrote it" in problem
    assert "`vivace down`" in problem
    assert "`vivace up` in another --data folder" in problem


@pytest.mark.parametrize("needs", [None, RECORDS])
def test_fields_of_a_newer_version_are_no_obstacle(
    cluster: ObedientCluster, needs: int | None
) -> None:
    for folder in FOLDERS:
        for path in paths(cluster, folder):
            plant_newer(cluster, path, needs=needs)
    found = cluster.view().fragments[ALERTS]
    cluster.lose_secondary(found.record, found.version)
    cluster.settle_coordinator()
    assert not cluster.coordination.problems
    after = cluster.view().fragments[ALERTS].record.secondary
    assert after is not None
    assert after != found.record.secondary

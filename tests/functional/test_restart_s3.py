"""A cluster whose checkpoints and savepoints lie on an S3-compatible server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.embedded.ports import free_port
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace
from tests.functional.test_restart import (
    MANIFEST,
    Pusher,
    data,
    delivered,
    kill_everything,
    newest,
    ok,
)
from tests.s3_server import CREDENTIALS, SECRET, S3Server

__all__ = ["data"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

FRAGMENTS = {"restarts.each", "restarts.counts"}
AWAY = 400
"""So many numbers go on through the cluster while the server is away."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    made = S3Server()
    yield made
    made.go_away()


def written(folder: Path, name: str, state: str, port: int) -> tuple[Path, Path]:
    """The manifests of a cluster, and of its stream and query."""
    files = folder / f"{name}.yaml", folder / "rest.yaml"
    text = MANIFEST.replace("PORT", str(port)).replace("folder: state", f'folder: "{state}"')
    for file, part in zip(files, text.split("---\n", 1), strict=True):
        file.write_text(part.replace("name: restarted", f"name: {name}"))
    return files


def events(vivace: Vivace, kind: str) -> list[dict[str, str]]:
    told = json.loads(ok(vivace, "history", "--json", "--limit", "1000"))["history"]
    return [each for each in told if each["kind"] == kind]


def fragments(names: dict[str, bytes]) -> set[str]:
    return {each.partition("/")[0] for each in names if each.endswith(".checkpoint")}


def has(data: Path, count: int) -> bool:
    try:
        return delivered(data, "each").rows.num_rows >= count
    except FileNotFoundError:
        return False


def test_a_server_that_is_away_costs_nothing_and_everything_killed_goes_on_from_it(
    server: S3Server, vivace: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    port = free_port()
    cluster, rest = written(tmp_path, "restarted", server.folder("state"), port)
    ok(vivace, "up", "--file", cluster, "--data", data)
    ok(vivace, "apply", "--file", rest)
    pusher = Pusher(port)
    wait_until(lambda: fragments(server.objects("state")) == FRAGMENTS)
    assert not (data / "state").exists()

    server.go_away()
    wait_until(lambda: "cannot be reached now" in vivace("status").stdout)
    away = pusher.acknowledged
    wait_until(lambda: has(data, away + AWAY))
    pusher.check()
    server.come_back()
    wait_until(lambda: "cannot be reached now" not in vivace("status").stdout)
    back = pusher.acknowledged
    wait_until(lambda: has(data, back + AWAY))

    kill_everything(tmp_path / "home", data, wait_until)
    # The newest one of a fragment is cut off.
    counts = {
        each: content for each, content in server.objects("state").items() if ".counts" in each
    }
    damaged = max(counts, key=lambda each: [int(part) for part in each.split("-")[1:3]])
    server.put("state", damaged, counts[damaged][:-9])
    killed = pusher.acknowledged
    ok(vivace, "up", "--file", cluster, "--data", data)
    wait_until(lambda: has(data, killed + AWAY))
    acknowledged = pusher.end()
    wait_until(lambda: has(data, acknowledged) and newest(data) == acknowledged - 1)
    assert {each["subject"] for each in events(vivace, "restored")} == FRAGMENTS
    for kind in ("state lost", "input lost"):
        assert events(vivace, kind) == []
    ok(vivace, "down")
    assert delivered(data, "each").rows["number"].to_pylist() == list(range(acknowledged))
    assert sum(delivered(data, "counts").rows["tuples"].to_pylist()) == acknowledged
    for stream in ("each", "counts"):
        assert sequence_faults(delivered(data, stream)) == SequenceFaults(lost=0, repeated=0)
    logs = [each.read_bytes() for each in data.rglob("*") if each.is_file()]
    assert not any(SECRET.encode() in each for each in logs)


def test_savepoints_there_are_listed_exported_deleted_and_begun_with(
    server: S3Server, vivace: Vivace, data: Path, tmp_path: Path, wait_until: WaitUntil
) -> None:
    port = free_port()
    cluster, rest = written(tmp_path, "restarted", server.folder("state"), port)
    ok(vivace, "up", "--file", cluster, "--data", data / "first")
    ok(vivace, "apply", "--file", rest)
    pusher = Pusher(port)
    wait_until(lambda: has(data / "first", AWAY))
    for name in ("kept", "gone"):
        ok(vivace, "savepoint", "create", name)
    ok(vivace, "savepoint", "delete", "gone")
    listed = json.loads(ok(vivace, "savepoint", "list", "--json"))["savepoints"]
    assert [each["name"] for each in listed] == ["kept"]
    shown = json.loads(ok(vivace, "savepoint", "show", "kept", "--json"))
    assert shown["folder"] == server.folder("state/savepoints")
    ok(vivace, "savepoint", "export", "kept", tmp_path / "kept.tar")
    assert {each.split("/")[0] for each in server.objects("state/savepoints")} == {"kept"}
    pusher.end()
    ok(vivace, "down")

    other, _ = written(tmp_path, "other", server.folder("another"), port)
    uri = server.folder("state/savepoints/kept")
    ok(vivace, "up", "--file", other, "--data", data / "second", "--from", uri)
    # What was pushed after the savepoint is in the former site's journal; others have its numbers.
    later = Pusher(port)
    wait_until(lambda: has(data / "second", AWAY))
    later.end()
    assert len(events(vivace, "restored from a savepoint")) == 1
    assert events(vivace, "state lost") == []
    ok(vivace, "down")

"""Checkpoints and savepoints on an S3-compatible server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder, FolderUnreachable
from orchestrator.checkpoints.savepoint import Savepoint, savepoints_of
from orchestrator.checkpoints.savepoint_index import INDEX
from orchestrator.control.checkpoint_sweep import UNLISTED_S, CheckpointSweep
from orchestrator.deploy.restoring import find_savepoint
from orchestrator.host.core.events import CheckpointUnreadable, CheckpointWritten
from orchestrator.host.shell.checkpoint_driver import FramesRead
from orchestrator.records import SavepointState
from orchestrator.store.protocol import SAVEPOINTS
from tests.conftest import WaitUntil
from tests.s3_server import CREDENTIALS, KEY, SECRET, S3Server
from tests.saved_cluster import SavedCluster
from tests.unit.orchestrator.host.shell.test_checkpoint_driver import READS, Driver, writes

pytestmark = pytest.mark.slow

NAME = "7-1000-n1.checkpoint"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        made = S3Server()
        yield made
        made.go_away()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A folder of its own for each test."""
    return f"state/{request.node.name}"


def test_what_was_written_is_read_listed_and_deleted(server: S3Server, prefix: str) -> None:
    # An object of several parts, as S3 has them.
    folder, content = CheckpointFolder(server.folder(prefix)), b"state" * 2_500_000
    assert folder.names() == {}
    assert folder.write("q.f", NAME, [content[:7], content[7:]]) == len(content)
    assert folder.read("q.f", NAME) == content
    assert folder.names() == {"q.f": [NAME]}
    folder.put("q.f", NAME, b"another")
    assert server.objects(prefix) == {f"q.f/{NAME}": b"another"}
    folder.delete("q.f", NAME)
    folder.delete("q.f", NAME)
    assert folder.names() == {}
    with pytest.raises(CheckpointRefused, match="is not in s3://kept/state"):
        folder.read("q.f", NAME)


def test_an_older_checkpoint_is_read_where_the_newest_one_is_cut_off(
    server: S3Server, prefix: str
) -> None:
    driver = Driver(server.folder(prefix))
    newest = msgspec.structs.replace(writes().stored, name="7-2000-n1.checkpoint")
    for stored in (writes().stored, newest):
        driver.threads.write(msgspec.structs.replace(writes(), stored=stored))
        assert isinstance(driver.told(), CheckpointWritten)
    whole = server.objects(prefix)[f"q.f/{newest.name}"]
    for broken in (whole[:-9], b"", whole[:-9] + b"x" * 9):
        server.put(prefix, f"q.f/{newest.name}", broken)
        driver.threads.read(msgspec.structs.replace(READS, name=newest.name))
        told = driver.told()
        assert isinstance(told, CheckpointUnreadable)
        assert told.why.startswith("is damaged")
    driver.threads.read(READS)
    assert isinstance(driver.told(), FramesRead)


def test_checkpoints_that_no_list_names_are_removed(server: S3Server, prefix: str) -> None:
    saved = SavedCluster(server.folder(prefix))
    listed = saved.checkpoints.names()
    key, (name,) = next(iter(listed.items()))
    generation = name.partition("-")[0]
    saved.checkpoints.write(key, f"{generation}-1999-n1.checkpoint", [b"older"])
    saved.checkpoints.write(key, f"{generation}-3000-n1.checkpoint", [b"newer"])
    now_s = 0.0
    sweep = CheckpointSweep(saved.store, lambda: True, lambda: now_s)
    sweep.sweep()
    assert saved.checkpoints.names()[key] == [name, f"{generation}-3000-n1.checkpoint"]
    now_s = UNLISTED_S + 1
    sweep.sweep()
    assert saved.checkpoints.names() == listed


def test_nothing_can_be_written_while_the_server_is_away_and_reading_waits_for_it(
    server: S3Server, prefix: str, caplog: pytest.LogCaptureFixture, wait_until: WaitUntil
) -> None:
    driver, folder = Driver(server.folder(prefix)), CheckpointFolder(server.folder(prefix))
    driver.threads.write(writes())
    assert isinstance(driver.told(), CheckpointWritten)
    folder.write("q.f", "other", [b"x"])
    server.go_away()
    try:
        other = Driver(server.folder(prefix))
        other.threads.read(READS)
        with pytest.raises(CheckpointRefused, match="cannot be reached now") as refused:
            folder.write("q.f", "other", [b"y"])
        with pytest.raises(OSError, match="NETWORK_CONNECTION"):
            folder.names()
        wait_until(lambda: "cannot be reached now" in caplog.text, timeout_s=60.0)
    finally:
        server.come_back()
    assert isinstance(other.told(), FramesRead)
    assert SECRET not in f"{refused.value}{caplog.text}"
    assert KEY not in f"{refused.value}{caplog.text}"
    folder.write("q.f", "other", [b"z"])
    assert folder.read("q.f", "other") == b"z"


def test_a_bucket_that_is_not_there_is_named_with_its_remedy(server: S3Server) -> None:
    folder = CheckpointFolder(f"s3://nobodys/state{server.options}")
    with pytest.raises(CheckpointRefused, match=r"s3://nobodys/state\S+, lies in a bucket that"):
        folder.write("q.f", NAME, [b"one"])


def test_credentials_that_are_refused_are_named_by_their_variables(prefix: str) -> None:
    # A server of its own: it refuses everybody from here on.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server = S3Server()
        folder = CheckpointFolder(server.folder(prefix))
        folder.write("q.f", NAME, [b"one"])
        server.demand_known_keys()
        try:
            with pytest.raises(CheckpointRefused, match="AWS_SECRET_ACCESS_KEY") as refused:
                folder.write("q.f", NAME, [b"two"])
            with pytest.raises(FolderUnreachable, match="AWS_SECRET_ACCESS_KEY"):
                folder.read("q.f", NAME)
        finally:
            server.demand_known_keys(after=1_000_000_000)
            server.go_away()
    assert SECRET not in str(refused.value)


def test_a_savepoint_there_is_kept_exported_found_by_its_uri_and_deleted(
    server: S3Server, prefix: str, tmp_path: Path
) -> None:
    saved = SavedCluster(server.folder(prefix))
    kept = saved.save()
    assert kept.files.where == server.folder(f"{prefix}/savepoints/before")
    assert f"savepoints/before/{INDEX}" in server.objects(prefix)
    assert [*kept.check()] == [*kept.index.saved]
    found = find_savepoint(kept.files.where, None)
    assert found.index == kept.index
    found.export(tmp_path / "copy.tar", lambda _: None)
    assert find_savepoint(str(tmp_path / "copy.tar"), None).index == kept.index
    # Its files are not taken for checkpoints.
    assert saved.checkpoints.names().keys() == saved.view.fragments.keys()
    record = saved.store.get(SAVEPOINTS.key("before"))
    assert record is not None
    deleted = msgspec.structs.replace(record.record, state=SavepointState.DELETED)
    saved.store.update(SAVEPOINTS.key("before"), deleted, record.version)
    while saved.work.step():
        pass
    assert not any(each.startswith("savepoints/") for each in server.objects(prefix))
    with pytest.raises(CheckpointRefused, match=r"index\.json is not in"):
        Savepoint(kept.files)
    assert savepoints_of(saved.folder).names() == {}

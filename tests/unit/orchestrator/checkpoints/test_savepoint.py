"""Exported savepoints, and what is refused of damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.checkpoints import savepoint_index
from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import ExportedFiles, Savepoint, below
from orchestrator.checkpoints.savepoint_index import INDEX
from tests.saved_cluster import SavedCluster


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> Savepoint:
    return SavedCluster(tmp_path_factory.mktemp("cluster") / "state").save()


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_a_copy_is_the_same_and_closed_to_others(
    savepoint: Savepoint, tmp_path: Path, name: str
) -> None:
    told: list[int] = []
    size = savepoint.export(tmp_path / name, told.append)
    copy = Savepoint(ExportedFiles(tmp_path / name))
    assert copy.index == savepoint.index
    assert told[-1] == copy.index.bytes < size
    assert [*copy.check()] == [*savepoint.check()]
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_what_is_there_is_not_replaced(savepoint: Savepoint, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileExistsError):
        savepoint.export(tmp_path / name, lambda _: None)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["copy", "copy.tar"])
def test_nothing_is_left_of_a_copy_that_fails(
    savepoint: Savepoint, tmp_path: Path, name: str
) -> None:
    def fail(_: int) -> None:
        raise CheckpointRefused("enough")

    with pytest.raises(CheckpointRefused):
        savepoint.export(tmp_path / name, fail)
    assert not [*tmp_path.iterdir()]


def test_a_damaged_file_is_named(savepoint: Savepoint, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    savepoint.export(folder, lambda _: None)
    saved = savepoint.index.saved[0]
    file = folder / saved.file
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:30] + b"??" + whole[32:]):
        file.write_bytes(damaged)
        with pytest.raises(CheckpointRefused, match=f"{saved.file} is damaged"):
            list(Savepoint(ExportedFiles(folder)).check())
    file.unlink()
    with pytest.raises(CheckpointRefused, match=f"{saved.file} is not in"):
        list(Savepoint(ExportedFiles(folder)).check())


def test_an_index_that_is_damaged_or_newer_is_refused(savepoint: Savepoint, tmp_path: Path) -> None:
    whole = savepoint.files.read(INDEX)
    assert savepoint_index.read(whole) == savepoint.index
    cases = {
        "is damaged": [b"", b"{}\n{}", whole[:300], whole.replace(b"alerts", b"alarms")],
        "Start that version": [whole.replace(b'"savepoint_format":1', b'"savepoint_format":2')],
    }
    for told, contents in cases.items():
        for content in contents:
            with pytest.raises(CheckpointRefused, match=told):
                savepoint_index.read(content)


def test_a_file_that_is_no_savepoint_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "some.tar"
    file.write_text("no tar")
    with pytest.raises(CheckpointRefused, match="cannot be read"):
        Savepoint(ExportedFiles(file))
    with pytest.raises(CheckpointRefused, match="is not in"):
        Savepoint(ExportedFiles(tmp_path / "nothing"))


def test_options_of_a_uri_stay_at_its_end() -> None:
    assert below("s3://bucket/path?region=here", "a", "b") == "s3://bucket/path/a/b?region=here"
    assert below("/folder/", "a") == "/folder/a"

"""The folder of a job is written whole or not at all, and replaces only one of its own kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.out_folder import RESULT, check_out, replacing


def test_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--out: .* exists\. .*--overwrite"):
        check_out(tmp_path, overwrite=False)


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InvalidInput, match="was not written by `vivace bulk`"):
        check_out(tmp_path, overwrite=True)


def test_a_folder_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is in no existing folder"):
        check_out(tmp_path / "absent" / "out", overwrite=False)


def test_a_former_result_is_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for name in ("former", "latter"):
        check_out(out, overwrite=name == "latter")
        with replacing(out) as folder:
            (folder / name).touch()
            (folder / RESULT).touch()
    assert sorted(file.name for file in out.iterdir()) == [RESULT, "latter"]
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_job_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / RESULT).write_text("former")

    def fail() -> None:
        with replacing(out) as folder:
            (folder / RESULT).write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (out / RESULT).read_text() == "former"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]

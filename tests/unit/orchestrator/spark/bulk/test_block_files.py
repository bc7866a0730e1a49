"""Files that blocks of nodes exchange between iterations."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from orchestrator.errors import InvalidInput
from orchestrator.spark.bulk.block_files import (
    SUCCESS,
    Layout,
    complete,
    completed,
    read_block,
    read_from,
    remove,
    write_block,
)


class Report(msgspec.Struct, frozen=True):
    nodes: int


def test_layout_covers_all_nodes_once() -> None:
    layout = Layout(nodes=10, block_nodes=4)
    assert layout.blocks == 3
    assert [layout.start(block) for block in range(3)] == [0, 4, 8]
    assert [layout.size(block) for block in range(3)] == [4, 4, 2]


def test_reading_from_a_block_goes_round(tmp_path: Path) -> None:
    layout = Layout(nodes=10, block_nodes=4)
    for block in range(3):
        start = layout.start(block)
        write_block(tmp_path, block, {"node": np.arange(start, start + layout.size(block))})
    (nodes,) = read_from(tmp_path, layout, 1, ["node"])
    assert nodes.tolist() == [4, 5, 6, 7, 8, 9, 0, 1, 2, 3]


def test_block_written_again_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        write_block(tmp_path / "x", 7, {"a": np.array([value])})
    (column,) = read_block(tmp_path / "x", 7, ["a"])
    assert column.tolist() == [2.0]
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["block-00007.parquet"]


def test_folder_is_complete_when_it_is_marked(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    assert completed(folder, Report) is None
    complete(folder, Report(nodes=3))
    assert completed(folder, Report) == Report(nodes=3)
    remove(folder)
    assert completed(folder, Report) is None
    assert not folder.exists()


def test_record_of_another_job_is_refused(tmp_path: Path) -> None:
    (tmp_path / SUCCESS).write_text("")
    with pytest.raises(InvalidInput, match="is no record of this job"):
        completed(tmp_path, Report)

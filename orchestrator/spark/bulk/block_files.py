"""Arrays that blocks of nodes exchange between iterations: a Parquet file per block.

Spark's own writer names files by task. Here each block has one file under a name known to all. It
is written under another name and then renamed, so a repeated task leaves the same file, and nobody
reads half a file. A folder is complete when it holds `_SUCCESS`, as Spark's folders do; here it is
a JSON record of the blocks' reports.

Driver and executors must see the folder under the same path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.errors import InvalidInput

SUCCESS = "_SUCCESS"
"""Name of the file that says a folder is complete. Readers of Parquet skip names with `_`."""

Array = npt.NDArray[Any]
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Nodes 0 … `nodes` − 1 cut into consecutive blocks.

    Attributes
    ----------
    nodes
        ≥ 1.
    block_nodes
        Nodes per block, ≥ 1; the last may have fewer.
    """

    nodes: int
    block_nodes: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.nodes // self.block_nodes)

    def start(self, block: int) -> int:
        """First node of a block."""
        return block * self.block_nodes

    def size(self, block: int) -> int:
        """Number of nodes in a block."""
        return min(self.block_nodes, self.nodes - self.start(block))


def write_block(folder: Path, block: int, columns: Mapping[str, Array]) -> None:
    """Write a block's arrays, all of one length."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, block)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    # Every block reads the file: compression and dictionaries would cost more than they save.
    pq.write_table(
        pa.Table.from_pydict(columns),
        aside,
        compression="none",
        use_dictionary=False,
    )
    aside.replace(path)


def read_block(folder: Path, block: int, columns: Sequence[str]) -> list[Array]:
    """The named arrays of a block."""
    table = pq.read_table(_path(folder, block), columns=list(columns))
    return [table.column(name).to_numpy() for name in columns]


def read_from(folder: Path, layout: Layout, first: int, columns: Sequence[str]) -> list[Array]:
    """The named arrays of all nodes: block `first` and those after it, then those before it."""
    blocks = [*range(first, layout.blocks), *range(first)]
    parts = [read_block(folder, block, columns) for block in blocks]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def complete(folder: Path, record: object) -> None:
    """Record that a folder is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"_{SUCCESS}"
    aside.write_bytes(msgspec.json.encode(record))
    aside.replace(folder / SUCCESS)


def completed(folder: Path, kind: type[Record]) -> Record | None:
    """The record in a complete folder; None if the folder is not complete.

    Raises
    ------
    InvalidInput
        The record is not of this version.
    """
    path = folder / SUCCESS
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise InvalidInput(
            str(path), "", None, f"is no record of this job ({error})", "Use another folder."
        ) from None


def remove(folder: Path) -> None:
    """Remove a folder, `_SUCCESS` first: half a folder must not pass for a complete one."""
    (folder / SUCCESS).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _path(folder: Path, block: int) -> Path:
    return folder / f"block-{block:05}.parquet"

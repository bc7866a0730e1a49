"""The folder that a bulk job writes: whole, or not at all.

The job writes into a folder beside it, which takes its name at the end. A folder that was there is
replaced only if a bulk job wrote it: that is what its `_result.json` says. Readers of Parquet skip
names with `_`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import InvalidInput

RESULT = "_result.json"
"""File with what the command has printed with `--json`."""

_option = "--out"


def check_out(out: Path, *, overwrite: bool) -> None:
    """See that a folder may be written.

    Raises
    ------
    InvalidInput
        It is there and must not be replaced, or there is no folder that it could be in.
    """
    if out.exists() or out.is_symlink():
        if not overwrite:
            remedy = "Name another folder, or say --overwrite."
            raise InvalidInput("command line", _option, str(out), "exists", remedy)
        if not (out / RESULT).is_file():
            problem = "was not written by `vivace bulk`, so it is not replaced"
            raise InvalidInput(
                "command line", _option, str(out), problem, "Name another folder, or remove it."
            )
    elif not out.absolute().parent.is_dir():
        remedy = "Make the folder, or name another one."
        raise InvalidInput("command line", _option, str(out), "is in no existing folder", remedy)


@contextmanager
def replacing(out: Path) -> Generator[Path]:
    """A folder to write into for the time of a block, which takes the place of `out` at its end."""
    out = out.absolute()
    new = out.with_name(f".{out.name}.{os.getpid()}")
    former = new.with_name(f"{new.name}.former")
    new.mkdir()
    try:
        yield new
        if out.exists():
            out.replace(former)
        new.replace(out)
    finally:
        for folder in (new, former):
            shutil.rmtree(folder, ignore_errors=True)

"""Folders that only their owner can enter, names that become parts of paths, and texts in files.

Archives, logs and the store's data hold the content of streams, and some files hold secrets. Names
come from manifests, which check them, but also from configuration files, command lines and the
store. Whatever turns a name into a path therefore asks `path_part`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from foundation.bounds import MAX_NAME
from orchestrator.errors import InvalidInput

PRIVATE = 0o700

PRIVATE_UMASK = 0o077
"""With it, what a process makes in a folder of somebody else's is closed, too."""

_part = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")

_scratch = set[str]()


def private_folder(folder: Path) -> Path:
    """Make a folder if it is missing, and close it and its files to everybody else.

    A folder that is somebody else's, such as the top of a volume, stays as its owner has it: only
    what is made below is closed.
    """
    folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_mode & 0o777 != PRIVATE and found.st_uid == os.geteuid():
        folder.chmod(PRIVATE)
    return folder


def path_part(name: str) -> str:
    """The name, if it can be a part of a path and leads nowhere else.

    Raises
    ------
    ValueError
        It is empty, too long, begins with a dot, or has other characters than letters, digits,
        underscores, hyphens and dots.
    """
    if len(name) > MAX_NAME or not _part.fullmatch(name):
        raise ValueError(f"{name[: MAX_NAME + 1]!r} cannot be a part of a path")
    return name


def read_text(file: Path) -> str:
    """The content of a file that somebody has named.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidInput(
            str(file), "", None, f"cannot be read ({problem})", "Check the path and the file."
        ) from None


def read_secret(subject: str, field: str, file: Path) -> str:
    """The secret in a file.

    Raises
    ------
    InvalidInput
        The file that this field of a subject names cannot be read, or is empty.
    """
    problem = "is empty"
    try:
        if secret := file.read_text(encoding="utf-8").strip():
            return secret
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot be read ({error})"
    raise InvalidInput(subject, field, str(file), problem, "Write the cluster's secret into it.")


@contextmanager
def scratch_folder(prefix: str = "vivace-") -> Generator[Path]:
    """A folder for the time of a block, or until the process ends in order in the middle of it."""
    with TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as made:
        _scratch.add(made)
        try:
            yield Path(made)
        finally:
            _scratch.discard(made)


def remove_scratch() -> None:
    """Remove the folders of all blocks that threads are in, which the process will not wait for."""
    for made in [*_scratch]:
        shutil.rmtree(made, ignore_errors=True)


def sync(path: Path) -> None:
    """Have the disk keep a file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

"""Folders that a site writes to, while others can reach them too.

A file that a site appends to may be removed under it, or another one put in its place. Whoever goes
on writing then writes for nobody. `check_open` notices that.

A site that was stopped and replaced shares its folder with its successor for the moment until it
learns of that. `FolderClaim` keeps it from opening files there.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from orchestrator.edges.drivers import DriverError
from orchestrator.folders import PRIVATE, path_part

OWNER = "owner"
"""Begins the name of the file that tells which process of a site may open files in the folder. A
hyphen and the site follow, so it is no file of a stream, whose names have no hyphens."""


class FilesGone(DriverError):
    """Files were removed, emptied or replaced while they were being written."""


def check_open(path: Path, opened: int, size_bytes: int = 0) -> None:
    """Make sure that a path leads to an open file.

    Parameters
    ----------
    opened
        Descriptor of the file, or of a folder.
    size_bytes
        What has been written to it.

    Raises
    ------
    FilesGone
        It does not, or the file has less.
    """
    try:
        is_there = os.path.samestat(path.stat(), os.fstat(opened))
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    if not is_there:
        raise FilesGone(f"{path} was removed or replaced while it was being written")
    if os.fstat(opened).st_size < size_bytes:
        raise FilesGone(f"{path} was cut off while it was being written")


class FolderClaim:
    """The right of one process to open files of its site in a folder.

    Sites on one machine may share the folder; each has a claim of its own. A process takes its
    site's claim over when it starts. From then on only one that was started later may have it
    instead. Incarnations are compared, because two may start at the same moment. They are
    ordered within one life of the cluster, so a process that starts compares nothing.

    Parameters
    ----------
    folder
        The folder, which may not exist yet.
    site
        Name of the site.
    incarnation
        The process's own.
    """

    def __init__(self, folder: Path, site: str, incarnation: str) -> None:
        self._file = folder / f"{OWNER}-{path_part(site)}"
        self._site = site
        self._incarnation = incarnation
        self._has_claimed = False
        self._lock = threading.Lock()
        with contextlib.suppress(OSError):
            # If there is no space, whatever is opened here fails, and is tried again.
            self._claim()

    def check(self) -> None:
        """Make sure that files may be opened.

        Raises
        ------
        DriverError
            A process of the site that was started later has the folder.
        OSError
            The folder cannot be read or written.
        """
        # Sources and sinks are opened on threads of their own.
        with self._lock:
            owner = ""
            # Without the file, or its folder, nobody has it.
            with contextlib.suppress(FileNotFoundError):
                owner = self._file.read_text(encoding="utf-8") if self._has_claimed else ""
            if owner > self._incarnation:
                folder = self._file.parent
                raise DriverError(
                    f"{folder} belongs to a process of {self._site} that was started later"
                )
            if owner < self._incarnation:
                self._claim()

    def _claim(self) -> None:
        self._file.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        written = self._file.with_name(f"{self._file.name}.{self._incarnation}")
        written.write_text(self._incarnation, encoding="utf-8")
        os.replace(written, self._file)
        self._has_claimed = True

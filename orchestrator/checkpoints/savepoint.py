"""Where savepoints lie, and reading them.

A savepoint that is kept lies in the cluster's folder of checkpoints, below `savepoints`. One that
was exported is a folder with the same files, or a tar file of them. Every reading checks sizes and
checksums. `Savepoint.state_of` gives the state of one fragment.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from orchestrator.checkpoints.checkpoint_file import CheckpointHead, CheckpointRefused
from orchestrator.checkpoints.checkpoint_file import read as read_checkpoint
from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.checkpoints.savepoint_index import (
    INDEX,
    SavedFragment,
    SavepointIndex,
    piece_of,
    read,
)
from orchestrator.folders import path_part, private_folder, sync
from orchestrator.records import SavedFile

SAVEPOINTS = "savepoints"
"""The folder, below that of the checkpoints. No fragment's folder has this name: theirs have a
dot."""

TAR = ".tar"
"""An exported savepoint whose name ends so is a file."""


class SavepointFiles(Protocol):
    """The files of one savepoint."""

    where: str
    """For people."""

    def read(self, file: str) -> bytes:
        """The content of a file.

        Raises
        ------
        CheckpointRefused
            It is not there, or cannot be read.
        """
        ...


def below(folder: str, *parts: str) -> str:
    """A path below a folder, which may be a URI with options."""
    path, question, options = folder.partition("?")
    return "/".join([path.rstrip("/"), *parts]) + question + options


def savepoints_of(folder: str) -> CheckpointFolder:
    """The savepoints of a cluster with this folder of checkpoints; the key of each is its name."""
    return CheckpointFolder(below(folder, SAVEPOINTS))


def stored_in(savepoint: str) -> str:
    """The name of a checkpoint that lies in a savepoint of the same cluster. Its own name is left
    out, since names have their bounds; a savepoint has one of each fragment."""
    return f"{savepoint}/state"


def savepoint_of(checkpoint: str) -> str:
    """The savepoint in which a checkpoint lies, by its name; empty: in none."""
    return checkpoint.rpartition("/")[0]


class ReadableFolder(Protocol):
    """A folder of files under keys, as `CheckpointFolder` is one."""

    def read(self, key: str, name: str) -> bytes:
        """The content of a file. Raises `CheckpointRefused`."""
        ...


def read_stored(
    checkpoints: ReadableFolder, savepoints: ReadableFolder, fragment: str, checkpoint: str
) -> bytes:
    """The content of a checkpoint of `<query>.<fragment>`, wherever its name says that it lies.

    Raises
    ------
    CheckpointRefused
        It is not there, or cannot be read.
    """
    if savepoint := savepoint_of(checkpoint):
        return savepoints.read(savepoint, piece_of(fragment))
    return checkpoints.read(fragment, checkpoint)


class KeptFiles:
    """Those of a savepoint in the cluster's folder of checkpoints.

    Parameters
    ----------
    savepoints
        The folder of savepoints, or its URI.
    """

    def __init__(self, savepoints: str, name: str) -> None:
        self._folder, self._name = CheckpointFolder(savepoints), path_part(name)
        self.where = below(savepoints, name)

    def read(self, file: str) -> bytes:
        """As `SavepointFiles.read`."""
        return self._folder.read(self._name, file)


def kept_at(uri: str) -> KeptFiles:
    """Those of a savepoint by its URI, which `KeptFiles.where` is."""
    path, question, options = uri.partition("?")
    folder, _, name = path.rstrip("/").rpartition("/")
    return KeptFiles(folder + question + options, name)


class ExportedFiles:
    """Those of a savepoint that was exported as a folder or as a tar file."""

    def __init__(self, path: Path) -> None:
        self._path, self.where = path, str(path)

    def read(self, file: str) -> bytes:
        """As `SavepointFiles.read`."""
        try:
            if self._path.is_dir():
                return (self._path / path_part(file)).read_bytes()
            with tarfile.open(self._path, "r:") as tar:
                member = tar.extractfile(path_part(file))
                if member is None:
                    raise CheckpointRefused(f"is no file in {self.where}")
                return member.read()
        except (FileNotFoundError, KeyError):
            raise CheckpointRefused(f"is not in {self.where}") from None
        except (OSError, tarfile.TarError) as error:
            raise CheckpointRefused(f"cannot be read from {self.where}: {error}") from error


class Savepoint:
    """A savepoint that can be read.

    Attributes
    ----------
    files, index
        Where it lies, and what it is of.

    Raises
    ------
    CheckpointRefused
        There is none, or its index is damaged.
    """

    def __init__(self, files: SavepointFiles) -> None:
        self.files = files
        try:
            self.index: SavepointIndex = read(files.read(INDEX))
        except CheckpointRefused as refused:
            raise CheckpointRefused(f"{files.where}: {INDEX} {refused}") from refused

    def content(self, saved: SavedFragment) -> bytes:
        """The file of a checkpoint as it was written.

        Raises
        ------
        CheckpointRefused
            It is not there, or damaged.
        """
        return self._checked(saved.file, saved.bytes, saved.crc32)

    def journal_file(self, file: SavedFile) -> bytes:
        """A file of a journal, out of `SavepointIndex.journal_files`.

        Raises
        ------
        CheckpointRefused
            It is not there, or damaged.
        """
        return self._checked(file.name, file.bytes, file.crc32)

    def _checked(self, name: str, size: int, crc32: int) -> bytes:
        try:
            content = self.files.read(name)
        except CheckpointRefused as refused:
            raise CheckpointRefused(f"{self.files.where}: {name} {refused}") from refused
        if len(content) != size or zlib.crc32(content) != crc32:
            raise CheckpointRefused(
                f"{self.files.where}: {name} is damaged: its checksum does not match"
            )
        return content

    def state_of(self, fragment: str) -> tuple[CheckpointHead, list[bytes]] | None:
        """What the checkpoint of a fragment is of, and its frames.

        `orchestrator.host.shell.wire` decodes the frames.

        Parameters
        ----------
        fragment
            `<query>.<fragment>`.

        Returns
        -------
        None if the savepoint has no state of the fragment.

        Raises
        ------
        CheckpointRefused
            It is damaged.
        """
        if (saved := self.index.of(fragment)) is None:
            return None
        return read_checkpoint(self.content(saved))

    def check(self) -> Iterator[SavedFragment]:
        """Each checkpoint once it has been read and is whole; journals are read first.

        Raises
        ------
        CheckpointRefused
            One is not.
        """
        for file in self.index.journal_files:
            self.journal_file(file)
        for saved in self.index.saved:
            try:
                read_checkpoint(self.content(saved))
            except CheckpointRefused as refused:
                told = str(refused)
                if not told.startswith(self.files.where):
                    told = f"{self.files.where}: {saved.file} {told}"
                raise CheckpointRefused(told) from refused
            yield saved

    def export(self, target: Path, told: Callable[[int], None]) -> int:
        """Write a copy as a folder, or as a tar file if its name ends in `.tar`; its size.

        Nothing is left of a copy that fails, and nothing that is there is replaced.

        Parameters
        ----------
        told
            Called with the bytes of states so far.

        Raises
        ------
        CheckpointRefused
            A file is damaged.
        OSError
            The copy cannot be written, or something is there.
        """
        if os.path.lexists(target):
            raise FileExistsError(f"{target} is there already")
        partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        copy = _copy_tar if target.suffix == TAR else _copy_folder
        try:
            size = copy(partial, self._all(told))
            partial.rename(target)
        except BaseException:
            _remove(partial)
            raise
        sync(target.absolute().parent)
        return size

    def _all(self, told: Callable[[int], None]) -> Iterator[tuple[str, bytes]]:
        done = 0
        for saved in self.index.saved:
            content = self.content(saved)
            yield saved.file, content
            done += len(content)
            told(done)
        for file in self.index.journal_files:
            content = self.journal_file(file)
            yield file.name, content
            done += len(content)
            told(done)
        yield INDEX, self.files.read(INDEX)


OpenSavepoint = Callable[[str, str], Savepoint]
"""Opens the savepoint of a name in a cluster's folder of checkpoints; raises `CheckpointRefused`.
"""


def kept_savepoint(folder: str, name: str) -> Savepoint:
    """As `OpenSavepoint`."""
    return Savepoint(KeptFiles(savepoints_of(folder).folder, name))


def _copy_folder(folder: Path, files: Iterator[tuple[str, bytes]]) -> int:
    private_folder(folder)
    size = 0
    for name, content in files:
        with (folder / name).open("xb") as file:
            size += file.write(content)
            file.flush()
            os.fsync(file.fileno())
    sync(folder)
    return size


def _copy_tar(path: Path, files: Iterator[tuple[str, bytes]]) -> int:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    size = 0
    with os.fdopen(handle, "wb") as raw:
        with tarfile.open(fileobj=raw, mode="w:") as tar:
            for name, content in files:
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(content), 0o600
                tar.addfile(member, io.BytesIO(content))
                size += len(content)
        raw.flush()
        os.fsync(raw.fileno())
    return size


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            for each in path.iterdir():
                each.unlink()
            path.rmdir()
        else:
            path.unlink()

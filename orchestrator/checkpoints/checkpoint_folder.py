"""The folder that keeps checkpoints: on a disk, a mounted volume, or whatever `pyarrow.fs` reaches.

A file is written under a name of its own that begins with a dot, made safe on the disk (`fsync`),
and then gets its final name. So a file under its final name is whole, whenever a process is killed
or the power fails. An object store shows an object only once all of it is there; it is written
under its final name at once.

Layout: `<folder>/<query>.<fragment>/<name>`. The folder belongs to one cluster.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyarrow import fs

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.remote_folder import check_uri, fault_of, steady
from orchestrator.folders import path_part, private_folder, sync

SUFFIX = ".checkpoint"

LOCAL = "file://"
"""What the URI of a folder on a disk begins with."""


class FolderUnreachable(CheckpointRefused):
    """A server does not give a checkpoint now, and may do so later."""


def checked_folder(folder: str) -> str:
    """The folder or URI, if checkpoints could be kept there. Asks no server.

    Raises
    ------
    SecretInUri
        The URI holds credentials.
    ValueError
        No file system is known for the URI; says why.
    """
    if "://" in folder:
        check_uri(folder)
    return folder


class CheckpointFolder:
    """The checkpoints of one cluster. Its methods may wait for a disk or a network.

    Parameters
    ----------
    folder
        A path, or a URI that `pyarrow.fs` understands.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = folder
        self._is_made = False
        self._opened: fs.FileSystem | None = None
        self._made: set[str] = set()
        """Folders below it that were made in a remote file system."""
        if folder.startswith(LOCAL):
            _, self._path = fs.FileSystem.from_uri(folder)

    def write(self, key: str, name: str, parts: Iterable[bytes]) -> int:
        """Keep a checkpoint under a name; returns its size.

        Raises
        ------
        CheckpointRefused
            The folder does not take it. Nothing is left of it.
        """
        try:
            if (remote := self._remote()) is not None:
                return self._write_object(remote, key, name, parts)
            return self._write_file(key, name, parts)
        except OSError as error:
            raise CheckpointRefused(self._unwritable(error)) from error

    def read(self, key: str, name: str) -> bytes:
        """The content of a checkpoint.

        Raises
        ------
        FolderUnreachable
            The server of the folder does not give it now.
        CheckpointRefused
            It is not there, or cannot be read.
        """
        try:
            if (remote := self._remote()) is not None:
                with remote.open_input_stream(self._object(key, name)) as stream:
                    return stream.read()
            return self._file(key, name).read_bytes()
        except FileNotFoundError:
            raise CheckpointRefused(f"is not in {self.folder}") from None
        except OSError as error:
            why = "cannot be read: "
            if not self._is_remote:
                raise CheckpointRefused(f"{why}{error}") from error
            fault = fault_of(error)
            why += steady(error) if fault is None else f"the folder {self.folder} {fault}"
            raise FolderUnreachable(why) from error

    def put(self, key: str, name: str, content: bytes) -> None:
        """As `write`, of a content that is there as a whole."""
        self.write(key, name, [content])

    def remove(self, key: str, first: str) -> None:
        """Remove a file, then all others under its key. Raises `OSError`."""
        self.delete(key, first)
        for at, name in [*self._all()]:
            if at == key:
                self.discard(key, name)
        if not self._is_remote:
            with contextlib.suppress(FileNotFoundError):
                (Path(self._path) / path_part(key)).rmdir()

    def names(self) -> dict[str, list[str]]:
        """Fragment → names of its checkpoints, and of what was or is being written.

        Raises `OSError`.
        """
        found: dict[str, list[str]] = {}
        for key, name in self._all():
            if name.endswith(SUFFIX) or (name.startswith(".") and f"{SUFFIX}." in name):
                found.setdefault(key, []).append(name)
        return {key: sorted(names) for key, names in found.items()}

    def _all(self) -> Iterator[tuple[str, str]]:
        if (remote := self._remote()) is not None:
            selector = fs.FileSelector(self._path, recursive=True, allow_not_found=True)
            for each in remote.get_file_info(selector):
                if each.is_file:
                    yield each.path.split("/")[-2], each.base_name
            return
        root = Path(self._path)
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            for file in sorted(folder.iterdir()) if folder.is_dir() else ():
                yield folder.name, file.name

    def delete(self, key: str, name: str) -> None:
        """Keep a checkpoint no longer; one that is not there is no error. Raises `OSError`."""
        with contextlib.suppress(FileNotFoundError):
            if (remote := self._remote()) is not None:
                remote.delete_file(self._object(key, name))
            else:
                self._file(key, name).unlink()

    def discard(self, key: str, name: str) -> None:
        """Remove a file of any name, such as one that was never written as a whole.

        Raises `OSError`.
        """
        with contextlib.suppress(FileNotFoundError):
            if (remote := self._remote()) is not None:
                remote.delete_file(f"{self._path}/{path_part(key)}/{name}")
            else:
                (Path(self._path) / path_part(key) / name).unlink()

    @property
    def _is_remote(self) -> bool:
        return "://" in self.folder and not self.folder.startswith(LOCAL)

    def _remote(self) -> fs.FileSystem | None:
        """The file system of a URI, which may have to ask a server before it is known."""
        if self._is_remote and self._opened is None:
            self._opened, self._path = fs.FileSystem.from_uri(self.folder)
        return self._opened

    def _file(self, key: str, name: str) -> Path:
        return Path(self._path) / path_part(key) / path_part(name)

    def _object(self, key: str, name: str) -> str:
        return f"{self._path}/{path_part(key)}/{path_part(name)}"

    def _write_file(self, key: str, name: str, parts: Iterable[bytes]) -> int:
        final = self._file(key, name)
        root = Path(self._path)
        if self._is_made and not root.is_dir():
            # What is made in its place, such as where a volume was mounted, would be another one.
            raise FileNotFoundError(errno.ENOENT, "the folder is gone", str(root))
        private_folder(root)
        self._is_made = True
        private_folder(final.parent)
        partial = final.with_name(f".{final.name}.{secrets.token_hex(4)}")
        size = 0
        try:
            with partial.open("xb") as file:
                for part in parts:
                    size += file.write(part)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(final)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        sync(final.parent)
        return size

    def _write_object(
        self, remote: fs.FileSystem, key: str, name: str, parts: Iterable[bytes]
    ) -> int:
        path = self._object(key, name)
        folder = path.rpartition("/")[0]
        if folder not in self._made:
            remote.create_dir(folder, recursive=True)
            self._made.add(folder)
        # A stream that is closed early would leave part of the object: it is collected first.
        content = b"".join(parts)
        with remote.open_output_stream(path) as stream:
            stream.write(content)
        return len(content)

    def _unwritable(self, error: OSError) -> str:
        why = {
            errno.ENOSPC: "is full. Make room, or name a larger one in `state` of the cluster",
            errno.EDQUOT: "is full: its quota is used up",
            errno.EROFS: "is read-only. Mount it so that hosts can write",
            errno.EACCES: "may not be written by this process. Change its owner or its mode",
            errno.EPERM: "may not be written by this process. Change its owner or its mode",
            errno.ENOENT: "is gone. Bring it back, or mount it again",
            errno.ENOTDIR: "is no folder",
            errno.ESTALE: "is gone: its file system was unmounted. Mount it again",
        }.get(error.errno or 0)
        if why is None:
            why = fault_of(error) or f"takes no checkpoint: {steady(error)}"
        return f"the folder of checkpoints, {self.folder}, {why}"

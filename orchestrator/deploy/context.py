"""The clusters that run on this machine, and their processes.

A running cluster keeps a file `$VIVACE_HOME/<cluster>.json`. Only its owner can read the file,
because it holds the cluster's secret. The file names the process that runs the cluster. If that
process is gone, the next reader removes the file. Clients read the cluster's context instead
(`vivace.contexts`), which is written and removed with it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec
import psutil

from orchestrator.errors import VivaceError
from orchestrator.folders import path_part, private_folder
from vivace import contexts
from vivace.contexts import START, NoCluster, SeveralClusters


class ClusterExists(VivaceError):
    """A cluster of that name runs here already."""


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a cluster that runs on this machine.

    Attributes
    ----------
    pid, started_s
        The cluster's process, and when it was started (the system may reuse a pid).
    folder
        Folder of its logs and archive.
    zookeeper
        Address of its ZooKeeper; empty while the cluster starts.
    secret
        Digest credential for its store.
    api, token
        URL of its HTTP API, and a token that may do everything there.
    """

    cluster: str
    pid: int
    started_s: float
    folder: str
    zookeeper: str = ""
    secret: str = ""
    api: str = ""
    token: str = ""

    @property
    def alive(self) -> bool:
        """Whether the cluster's process runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(started_s(process) - self.started_s) < 1.0
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    @property
    def logs(self) -> Path:
        """Folder of its logs."""
        return Path(self.folder) / "logs"

    @property
    def archive(self) -> Path:
        """Folder in which its sites keep their outputs."""
        return Path(self.folder) / "archive"


def started_s(process: psutil.Process) -> float:
    """When a process was started, in seconds since the machine's boot.

    psutil's time of day would change whenever the machine's clock is set, because it derives from
    the time of the boot.
    """
    return process.create_time() - psutil.boot_time()


def claim(context: ClusterContext, folder: Path) -> None:
    """Announce a cluster that is about to start.

    Raises
    ------
    ClusterExists
        One of that name runs already.
    """
    _read(_path(folder, context.cluster))  # Removes the file of a dead cluster.
    private_folder(folder)
    fresh = _write_aside(context, folder)
    try:
        # A link rather than a new file: nobody reads half a context.
        os.link(fresh, _path(folder, context.cluster))
    except FileExistsError:
        raise ClusterExists(
            f"cluster {context.cluster} runs here already; "
            f"`vivace down --cluster {context.cluster}` ends it"
        ) from None
    finally:
        fresh.unlink()
    _tell_clients(context, folder)


def publish(context: ClusterContext, folder: Path) -> None:
    """Replace what `claim` wrote, once the cluster can be reached, and tell clients where it is."""
    _write_aside(context, folder).replace(_path(folder, context.cluster))
    _tell_clients(context, folder)


def _tell_clients(context: ClusterContext, folder: Path) -> None:
    contexts.add_local(
        context.cluster,
        contexts.Context(api=context.api, pid=context.pid, logs=str(context.logs)),
        context.token,
        folder,
    )


def withdraw(cluster: str, folder: Path) -> None:
    """Remove what is known of a cluster that has ended."""
    _path(folder, cluster).unlink(missing_ok=True)
    contexts.remove(cluster, folder)


def running(folder: Path) -> dict[str, ClusterContext]:
    """The clusters that run here, by name; the files of dead clusters are removed."""
    found = (_read(path) for path in sorted(folder.glob("*.json")))
    return {context.cluster: context for context in found if context is not None}


def find(name: str | None, folder: Path) -> ClusterContext:
    """The cluster of that name; without a name, the only cluster.

    Raises
    ------
    NoCluster
        There is no such cluster; or no name was given, and there is none.
    SeveralClusters
        No name was given, and there are several.
    """
    clusters = running(folder)
    if name is not None and name in clusters:
        return clusters[name]
    if name is None and len(clusters) == 1:
        return next(iter(clusters.values()))
    if not clusters:
        wanted = "no cluster" if name is None else f"no cluster named {name!r}"
        raise NoCluster(f"{wanted} is running here; {START}")
    names = ", ".join(clusters)
    if name is None:
        raise SeveralClusters(f"several clusters run here ({names}); name one with --cluster")
    raise NoCluster(f"no cluster named {name!r} is running here; there is {names}")


def _path(folder: Path, cluster: str) -> Path:
    return folder / f"{path_part(cluster)}.json"


def _read(path: Path) -> ClusterContext | None:
    """The context in a file; None, and the file is removed, if its cluster does not run."""
    try:
        context = msgspec.json.decode(path.read_bytes(), type=ClusterContext)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise VivaceError(f"{path}: is no context file of a cluster ({error}); remove it") from None
    except OSError as error:
        raise VivaceError(f"{path}: cannot be read ({error.strerror})") from None
    if context.alive:
        return context
    withdraw(context.cluster, path.parent)
    return None


def _write_aside(context: ClusterContext, folder: Path) -> Path:
    """Write the context to a hidden file that only its owner can read."""
    handle, fresh = tempfile.mkstemp(prefix=f".{context.cluster}-", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(context))
    return Path(fresh)

"""Starting and ending a cluster on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from orchestrator.deploy.context import (
    ClusterContext,
    ClusterExists,
    find,
    running,
)
from orchestrator.deploy.local import background
from orchestrator.deploy.local.service import Order, with_state
from orchestrator.deploy.local.service import serve as run
from orchestrator.deploy.restoring import OPTION, STORE_FOLDER, check_savepoint, find_savepoint
from orchestrator.embedded.ports import PortTaken, is_free
from orchestrator.errors import InvalidInput
from orchestrator.manifest import ClusterManifest, Manifests, cluster_record
from orchestrator.manifest.cluster import remarks
from orchestrator.progress import Progress, silent
from orchestrator.records import StateSpec
from vivace.contexts import NoCluster, home


class UpDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster that was started. Its secret stays in the context file.

    Attributes
    ----------
    goes_on
        Whether its folder has held a cluster before, or it has begun from a savepoint: all that
        ran there goes on.
    remarks
        What its owner may not have meant, though it is no mistake.
    """

    cluster: str
    zookeeper: str
    pid: int
    folder: str
    logs: str
    archive: str
    nodes: tuple[str, ...]
    sites: tuple[str, ...]
    example: str
    goes_on: bool = False
    remarks: tuple[str, ...] = ()


class DownDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes ended; `killed` are the pids of those that had to be forced."""

    cluster: str
    ended: int
    killed: tuple[int, ...]
    logs: str


def up(
    manifests: Manifests,
    *,
    data: Path | None = None,
    zookeeper_port: int | None = None,
    savepoint: str | None = None,
    allow_state_loss: bool = False,
    on_progress: Progress = silent,
) -> UpDocument:
    """Start a cluster in the background: ZooKeeper, Spark, sites and coordinators.

    Parameters
    ----------
    manifests
        The manifests that were loaded; exactly one manifest of kind Cluster must be among it.
    data
        Folder for data and logs, kept; None: a temporary one.
    zookeeper_port
        None: a free one.
    savepoint
        Name or path of a savepoint that the cluster goes on from; None: none.
    allow_state_loss
        Whether it goes on although some of the savepoint's state cannot be gone on with.

    Raises
    ------
    InvalidInput, ClusterExists, PortTaken
        Before anything was started.
    VivaceError
        The cluster did not start; what had been started has ended again.
    """
    order = _order(manifests, data, zookeeper_port)
    lost: tuple[str, ...] = ()
    if savepoint is not None:
        order, lost = _from(order, savepoint, allow_state_loss, on_progress)
    goes_on = _goes_on(order)
    return _document(background.start(order, on_progress), order.manifest, goes_on, lost)


def serve(
    manifests: Manifests,
    on_ready: Callable[[UpDocument], None],
    *,
    data: Path | None = None,
    zookeeper_port: int | None = None,
    savepoint: str | None = None,
    allow_state_loss: bool = False,
    on_progress: Progress = silent,
) -> None:
    """As `up`, but in this process and its main thread, until a signal ends the cluster.

    `on_ready` is called when the cluster can be used.
    """
    order = _order(manifests, data, zookeeper_port)
    lost: tuple[str, ...] = ()
    if savepoint is not None:
        order, lost = _from(order, savepoint, allow_state_loss, on_progress)
    manifest, goes_on = order.manifest, _goes_on(order)
    run(order, on_progress, lambda context: on_ready(_document(context, manifest, goes_on, lost)))


def down(name: str | None = None, on_progress: Progress = silent) -> DownDocument:
    """End a cluster; on return all of its processes are gone.

    Raises
    ------
    NoCluster
        There is no such cluster, or none at all.
    SeveralClusters
        Several run here, and none is named.
    """
    if not running(home()):
        wanted = "no cluster" if name is None else f"no cluster named {name!r}"
        raise NoCluster(f"{wanted} is running here: there is nothing to end")
    context = find(name, home())
    on_progress("waiting", f"for Spark and ZooKeeper of {context.cluster} to end")
    ending = background.end(context, home())
    return DownDocument(
        cluster=context.cluster,
        ended=ending.processes,
        killed=tuple(ending.killed),
        logs=str(context.logs),
    )


def _order(manifests: Manifests, data: Path | None, zookeeper_port: int | None) -> Order:
    """The order to start a cluster; refuses here what its process would refuse after starting."""
    if manifests.cluster is None:
        raise InvalidInput(
            ", ".join(sorted({each.file for each in (*manifests.streams, *manifests.queries)}))
            or "the files",
            "kind",
            None,
            "holds no manifest of kind Cluster",
            "Name a file with one, such as examples/aircraft/cluster.yaml.",
        )
    manifest = manifests.cluster
    if data is not None:
        _check_folder(data.absolute())
    order = Order(
        manifest=manifest,
        home=home().absolute(),
        data=data.absolute() if data else None,
        zookeeper_port=zookeeper_port,
    )
    cluster_record(order.manifest)
    if order.manifest.name in running(order.home):
        raise ClusterExists(
            f"{order.manifest.file}: name: cluster {order.manifest.name} runs here already; "
            f"`vivace down --cluster {order.manifest.name}` ends it"
        )
    if order.zookeeper_port is not None and manifest.zookeeper.address:
        raise InvalidInput(
            manifest.file,
            "zookeeper",
            manifest.zookeeper.address,
            f"runs already, so that none is started at port {order.zookeeper_port}",
            "Leave --zookeeper-port out, or the address.",
        )
    if order.zookeeper_port is not None and not is_free(order.zookeeper_port):
        raise PortTaken("ZooKeeper", order.zookeeper_port)
    return order


def _check_folder(data: Path) -> None:
    """Refuse what neither is a folder nor can be made one."""
    problem = None
    try:
        there = next(each for each in (data, *data.parents) if each.exists() or each.is_symlink())
    except OSError as error:
        problem = f"cannot be made: {error.strerror}"
    else:
        if not there.is_dir():
            problem = "is no folder" if there == data else f"cannot be made: {there} is no folder"
        elif not os.access(there, os.W_OK | os.X_OK):
            problem = f"cannot be written: {there} may not be"
    if problem is not None:
        remedy = "Name a folder that is there, or one that can be made."
        raise InvalidInput("command line", "--data", str(data), problem, remedy)


def _from(
    order: Order, savepoint: str, allow_state_loss: bool, on_progress: Progress
) -> tuple[Order, tuple[str, ...]]:
    """The order to go on from a savepoint, and the state that is lost by that."""
    state = _state(order)
    found = find_savepoint(savepoint, state)
    on_progress("savepoint", f"checking {found.files.where}")
    archive = (order.data or Path("FOLDER")) / "archive"
    obstacles = check_savepoint(found, savepoint, order.manifest, archive, on_progress)
    if obstacles and not allow_state_loss:
        told = "; ".join(str(each).rstrip(".") for each in obstacles)
        raise InvalidInput(
            "command line",
            OPTION,
            savepoint,
            f"cannot be gone on with as a whole: {told}",
            "Mend that, or have what is concerned begin from nothing: --allow-state-loss.",
        )
    path = Path(savepoint)
    named = str(path.absolute()) if path.exists() else savepoint
    anew = tuple(sorted({each.stream for each in obstacles if each.stream is not None}))
    lost = tuple(f"{each.subject} {each.problem}" for each in obstacles)
    return msgspec.structs.replace(order, savepoint=named, anew=anew), lost


def _state(order: Order) -> StateSpec | None:
    """The folder of checkpoints in which a savepoint may be; None: there is none yet."""
    if order.data is not None:
        return with_state(order.manifest, order.data, keeps=True).record.state
    state = order.manifest.record.state
    is_somewhere = state is not None and ("://" in state.folder or state.folder.startswith("/"))
    return state if is_somewhere else None


def _goes_on(order: Order) -> bool:
    kept = order.data is not None and (order.data / STORE_FOLDER).exists()
    return kept or order.savepoint is not None


def _document(
    context: ClusterContext, manifest: ClusterManifest, goes_on: bool, lost: tuple[str, ...]
) -> UpDocument:
    return UpDocument(
        cluster=context.cluster,
        zookeeper=context.zookeeper,
        pid=context.pid,
        folder=context.folder,
        logs=str(context.logs),
        archive=str(context.archive),
        nodes=tuple(node.name for node in manifest.nodes),
        sites=tuple(site.name for site in manifest.sites),
        example=str(Path(manifest.file.rpartition(":")[0]).parent),
        goes_on=goes_on,
        remarks=(*remarks(manifest), *lost),
    )

"""The process of a local cluster: starts the cluster, publishes its address, and ends it.

`vivace up --foreground` calls `serve`. `vivace up` starts `python -m
orchestrator.deploy.local.service` in the background. That process reads its `Order` from standard
input and reports progress on standard output, one line of JSON each, until the cluster is ready or
has failed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from orchestrator.deploy.context import ClusterContext, claim, publish, started_s, withdraw
from orchestrator.errors import VivaceError
from orchestrator.folders import PRIVATE, path_part, private_folder
from orchestrator.manifest import ClusterManifest
from orchestrator.progress import Progress
from orchestrator.records import StateSpec

EXIT_BUG = 1

_endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster to serve.

    Attributes
    ----------
    home
        Folder of the context files.
    data
        Folder for all data of the cluster. By default a temporary one, which is removed at an
        orderly end.
    zookeeper_port
        Where ZooKeeper listens; a free port if not given.
    savepoint
        The savepoint that the cluster goes on from; None: it begins with nothing, or goes on with
        what is in the folder.
    anew
        Streams that begin anew although the savepoint has them.
    """

    manifest: ClusterManifest
    home: Path
    data: Path | None = None
    zookeeper_port: int | None = None
    savepoint: str | None = None
    anew: tuple[str, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A step of starting."""

    step: str
    detail: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The cluster can be used."""

    context: ClusterContext


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The cluster did not start; all its processes have been ended."""

    message: str
    exit_status: int


News = Step | Ready | Failed

read_news: msgspec.json.Decoder[News] = msgspec.json.Decoder(News)
"""Decodes a line that the process wrote."""


def encode_order(order: Order) -> bytes:
    """An order as a line for the process's standard input."""
    return msgspec.json.encode(order, enc_hook=str) + b"\n"


def _decode_order(line: bytes) -> Order:
    # Paths are the only type in an order that JSON does not have.
    return msgspec.json.decode(line, type=Order, dec_hook=lambda _type, text: Path(text))


class EndRequested(BaseException):
    """A signal asked the process to end. No handler of errors catches this."""


def serve(order: Order, on_progress: Progress, on_ready: Callable[[ClusterContext], None]) -> None:
    """Run a cluster until SIGINT, SIGTERM or SIGHUP, from the main thread.

    Raises
    ------
    VivaceError
        The cluster did not start, or broke. It has been ended.
    """
    # Whoever only gives the order need not load Spark's and the coordinator's modules.
    from orchestrator.deploy.local.cluster import LocalCluster

    folder = _folder(order)
    context = ClusterContext(
        cluster=order.manifest.name,
        pid=os.getpid(),
        started_s=started_s(psutil.Process()),
        folder=str(folder),
    )
    before = {number: signal.signal(number, _request_end) for number in _endings}
    claimed = orderly = False
    cluster = None
    try:
        claim(context, order.home)
        claimed = True
        _log_to(folder / "logs" / "cluster.log")
        cluster = LocalCluster(
            with_state(
                order.manifest, folder, keeps=order.data is not None or order.savepoint is not None
            ),
            folder,
            zookeeper_port=order.zookeeper_port,
            savepoint=order.savepoint,
            anew=order.anew,
            on_progress=on_progress,
        )
        cluster.start()
        context = msgspec.structs.replace(
            context,
            zookeeper=cluster.config.zookeeper,
            secret=cluster.config.secret,
            api=cluster.api,
            token=cluster.token,
        )
        publish(context, order.home)
        on_ready(context)
        cluster.wait()
    except EndRequested:
        orderly = True
    finally:
        # Ending takes a few seconds: a second Ctrl-C must not leave processes behind.
        for number in _endings:
            signal.signal(number, signal.SIG_IGN)
        if cluster is not None:
            cluster.stop()
        if claimed:
            withdraw(context.cluster, order.home)
        if order.data is None and (orderly or not (folder / "logs").exists()):
            shutil.rmtree(folder, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def with_state(manifest: ClusterManifest, folder: Path, *, keeps: bool) -> ClusterManifest:
    """The manifest with a folder of checkpoints: its own, or one among data that is kept."""
    state = manifest.record.state
    if state is None and not keeps:
        return manifest
    if state is None:
        state = StateSpec(folder="state")
    if "://" not in state.folder:
        state = msgspec.structs.replace(state, folder=str(folder / state.folder))
    return msgspec.structs.replace(
        manifest, record=msgspec.structs.replace(manifest.record, state=state)
    )


def _folder(order: Order) -> Path:
    if order.data is not None:
        # One that exists may hold other things too; all that is put into it is closed.
        order.data.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        return order.data.absolute()
    return Path(tempfile.mkdtemp(prefix=f"vivace-{path_part(order.manifest.name)}-"))


def _log_to(file: Path) -> None:
    """Send the log of this process to a file of the cluster."""
    private_folder(file.parent)
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)


def _request_end(_number: int, _frame: object) -> None:
    for number in _endings:
        signal.signal(number, signal.SIG_IGN)
    raise EndRequested


def _tell(news: News) -> None:
    """Write news for the process that gave the order, if it still reads."""
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), msgspec.json.encode(news) + b"\n")


def main() -> int:
    """Serve in the background; the process's exit status."""
    order = _decode_order(sys.stdin.buffer.readline())
    log = logging.getLogger("vivace.cluster")

    def progress(step: str, detail: str) -> None:
        log.info("%s: %s", step, detail)
        _tell(Step(step=step, detail=detail))

    try:
        serve(order, progress, lambda context: _tell(Ready(context=context)))
    except VivaceError as error:
        log.error("%s", error)
        _tell(Failed(message=str(error), exit_status=error.exit_status))
        return error.exit_status
    except Exception as error:
        log.exception("this is a bug")
        _tell(Failed(message=f"{type(error).__name__}: {error}", exit_status=EXIT_BUG))
        return EXIT_BUG
    return 0


if __name__ == "__main__":
    sys.exit(main())

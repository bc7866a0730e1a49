"""A cluster's process: starts it, makes it known, and ends it when told to.

`serve` is that process's whole life. `python -m orchestrator.deploy.local.service` is the
same for a process in the background: it reads its `Order` from standard input and tells of its
progress on standard output, a line of JSON each, until the cluster is ready or has failed.
"""

from __future__ import annotations

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
from orchestrator.deploy.local.cluster import LocalCluster
from orchestrator.errors import VivaceError
from orchestrator.manifest import ClusterManifest
from orchestrator.progress import Progress

EXIT_BUG = 1

_endings = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to serve.

    Attributes
    ----------
    home
        Folder of the context files.
    data
        Where the cluster keeps everything; a temporary folder, removed at an orderly end, if not
        given.
    """

    manifest: ClusterManifest
    home: Path
    data: Path | None = None
    zookeeper_port: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A step of starting."""

    step: str
    detail: str


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The cluster can be used."""

    context: ClusterContext


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The cluster did not start; everything has been ended again."""

    message: str
    exit_status: int


News = Step | Ready | Failed

read_news: msgspec.json.Decoder[News] = msgspec.json.Decoder(News)
"""Reads a line that the process wrote."""


def encode_order(order: Order) -> bytes:
    """An order as a line for the process's standard input."""
    return msgspec.json.encode(order, enc_hook=str) + b"\n"


def _decode_order(line: bytes) -> Order:
    # Paths are the only type in an order that JSON has no words for.
    return msgspec.json.decode(line, type=Order, dec_hook=lambda _type, text: Path(text))


class EndRequested(BaseException):
    """Somebody asked the process to end; goes past everything that handles errors."""


def serve(order: Order, on_progress: Progress, on_ready: Callable[[ClusterContext], None]) -> None:
    """Run a cluster until SIGINT, SIGTERM or SIGHUP, from the main thread.

    Raises
    ------
    VivaceError
        The cluster did not start, or broke; it has been ended.
    """
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
            order.manifest,
            folder,
            zookeeper_port=order.zookeeper_port,
            on_progress=on_progress,
        )
        cluster.start()
        context = msgspec.structs.replace(
            context, zookeeper=cluster.config.zookeeper, secret=cluster.config.secret
        )
        publish(context, order.home)
        on_ready(context)
        cluster.wait()
    except EndRequested:
        orderly = True
    finally:
        # Ending takes a few seconds; a second Ctrl-C must not leave half of it undone.
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


def _folder(order: Order) -> Path:
    if order.data is not None:
        order.data.mkdir(parents=True, exist_ok=True)
        return order.data.absolute()
    return Path(tempfile.mkdtemp(prefix=f"vivace-{order.manifest.name}-"))


def _log_to(file: Path) -> None:
    """Have everything that this process logs in a file of the cluster's."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    # py4j logs every command that it could not send while Spark ends.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def _request_end(_number: int, _frame: object) -> None:
    for number in _endings:
        signal.signal(number, signal.SIG_IGN)
    raise EndRequested


class _Teller:
    """Writes news until the cluster is ready or the reader is gone."""

    def __init__(self) -> None:
        self._open = True

    def tell(self, news: News) -> None:
        if not self._open:
            return
        try:
            sys.stdout.buffer.write(msgspec.json.encode(news) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._close()
        if not isinstance(news, Step):
            self._close()

    def _close(self) -> None:
        # The reader waits for the end of the file; what is printed later goes nowhere.
        self._open = False
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def main() -> int:
    """Serve in the background; the process's exit status."""
    order = _decode_order(sys.stdin.buffer.readline())
    teller = _Teller()
    log = logging.getLogger("vivace.cluster")

    def progress(step: str, detail: str) -> None:
        log.info("%s: %s", step, detail)
        teller.tell(Step(step=step, detail=detail))

    try:
        serve(order, progress, lambda context: teller.tell(Ready(context=context)))
    except VivaceError as error:
        log.error("%s", error)
        teller.tell(Failed(message=str(error), exit_status=error.exit_status))
        return error.exit_status
    except Exception as error:
        log.exception("this is a bug")
        teller.tell(Failed(message=f"{type(error).__name__}: {error}", exit_status=EXIT_BUG))
        return EXIT_BUG
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Logs of processes, where this process can read them: in the folder that its settings name.

Every process of a cluster writes its log to standard error. `vivace up` leads that into a file a
process, and tells the HTTP API the folder. Elsewhere whoever supervises the processes keeps it.
"""

from __future__ import annotations

import socket
from collections import deque
from pathlib import Path

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.control.observe.view import read_view
from orchestrator.errors import InvalidInput
from orchestrator.operations.parameters import LogsParameters
from orchestrator.records import NodeKind
from orchestrator.results.inspection import LogDocument
from orchestrator.store.protocol import CANDIDATES, WEBS

MOST_BYTES = 1_000_000
"""Of a file: the end of it is read."""


def log_of(cluster: Cluster, asked: LogsParameters, folder: Path | None) -> LogDocument:
    """The last lines of a process's log.

    Parameters
    ----------
    folder
        With the files; None: there is none.

    Raises
    ------
    InvalidInput
        There is no such process, or its log is not here.
    """
    named = _files(cluster)
    names = sorted(each.stem for each in folder.glob("*.log")) if folder is not None else []
    stem = named.get(asked.process, (asked.process, ""))[0]
    if folder is not None and stem in names:
        file = folder / f"{stem}.log"
        return LogDocument(
            process=asked.process,
            machine=socket.gethostname(),
            file=str(file),
            lines=_last_lines(file, asked.lines),
        )
    if asked.process not in named:
        known = sorted({*named, *names})
        problem = "is no process here"
        raise InvalidInput("", "process", asked.process, problem, nearest(asked.process, known))
    raise InvalidInput(
        "",
        "process",
        asked.process,
        f"writes its log to standard error of {named[asked.process][1]}, and not into a folder of "
        "this API",
        "Look there, in what supervises it (journalctl, kubectl logs); or set VIVACE_LOGS of the "
        "API on that machine to the folder of its logs.",
    )


def _files(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Process → the name of its file without suffix, and where it runs."""
    view, store = read_view(cluster.store), cluster.store
    found: dict[str, tuple[str, str]] = {}
    for name, host in view.hosts.items():
        where = f"process {host.pid} on machine {host.machine}"
        is_site = host.kind is NodeKind.SITE
        found[name] = (f"site-{name}" if is_site else host.labels.application, where)
    for name in store.list(CANDIDATES).records:
        found[name] = (name, "its process")
    for name, each in store.list(WEBS).records.items():
        where = f"process {each.record.pid}, which serves {each.record.address}"
        found |= dict.fromkeys((name, "web"), ("web", where))
    return found


def _last_lines(file: Path, count: int) -> tuple[str, ...]:
    with file.open("rb") as opened:
        size = opened.seek(0, 2)
        opened.seek(max(size - MOST_BYTES, 0))
        text = opened.read(MOST_BYTES).decode("utf-8", "replace")
    return tuple(deque(text.splitlines(), maxlen=count))

"""`vivace support-bundle`: all that somebody else needs to judge a cluster, in one file."""

from __future__ import annotations

import io
import platform
import tarfile
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from rich.text import Text

from orchestrator import api
from orchestrator.cli.arguments import Option
from orchestrator.cli.invocation import (
    ClusterOption,
    FormOption,
    OutputForm,
    connected,
    progress,
    show,
)
from orchestrator.operations import table
from orchestrator.operations.parameters import HistoryParameters

if TYPE_CHECKING:
    from vivace.cluster import ClusterClient

PACKAGES = ("vivace", "pyspark", "kazoo", "numpy", "numba", "pyarrow", "pyzmq", "msgspec")

MOST_EVENTS, MOST_LINES = 10_000, 10_000


class SupportBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle that was written.

    Attributes
    ----------
    files
        In it.
    missing
        What could not be had → why.
    """

    file: str
    files: tuple[str, ...]
    missing: dict[str, str]


def command(
    out: Annotated[
        Path | None,
        Option("--out", help="The new file. Default: vivace-CLUSTER-TIME.tar.gz in this folder."),
    ] = None,
    cluster: ClusterOption = None,
    form: FormOption = OutputForm.TABLE,
) -> None:
    """Write status, records, plan, history, metrics, logs and versions into one file for others.

    Secrets, tokens and the content of streams are left out. Look into it before you pass it on.

    [bold]Example:[/] vivace support-bundle --out cluster.tar.gz
    """
    if out is not None and out.exists():
        remedy = "Name a new file."
        raise api.InvalidInput("command line", "--out", str(out), "is there already", remedy)
    with connected(cluster) as client, progress("Support bundle") as line:
        files, missing = collected(client, line.tell)
        name = client.status().cluster
    file = out or Path(f"vivace-{name}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz")
    written = _written(file, files)
    bundle = SupportBundle(file=str(written), files=tuple(files), missing=missing)
    show(bundle, form, lambda: _view(bundle))


def collected(client: ClusterClient, tell: api.Progress) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files by name, and what could not be had, with the reason."""
    files: dict[str, bytes] = {"versions.json": _json(_versions())}
    missing: dict[str, str] = {}
    newest = HistoryParameters(limit=MOST_EVENTS)
    asked: Mapping[str, Callable[[], object]] = {
        "status.json": client.status,
        "records.json": client.records,
        "plan.json": client.plan,
        "topology.json": client.topology,
        "history.json": lambda: client.call(table.HISTORY, newest),
        "drills.json": client.drill_audit,
        "metrics.txt": lambda: client.text("/metrics"),
    }
    logs = {f"logs/{name}.log": _log_of(client, name) for name in _processes(client.status())}
    for name, ask in (*asked.items(), *logs.items()):
        tell("collecting", name)
        try:
            files[name] = _content(ask())
        except api.VivaceError as error:
            missing[name] = str(error)
    if missing:
        files["missing.json"] = _json(missing)
    return files, missing


def _processes(status: api.StatusDocument) -> list[str]:
    """Whose logs are asked for: of nodes, one of each Spark application, which has the log."""
    applications = {
        node.labels.application: node.node for node in status.nodes if node.kind == "executor"
    }
    sites = [node.node for node in status.nodes if node.kind == "site"]
    return ["cluster", "web", "coordinator-1", "coordinator-2", *applications.values(), *sites]


def _log_of(client: ClusterClient, name: str) -> Callable[[], str]:
    return lambda: "".join(f"{line}\n" for line in client.logs(name, MOST_LINES).lines)


def _content(found: object) -> bytes:
    """A text line by line, or a document, without secrets and the content of streams."""
    if isinstance(found, str):
        lines = found.splitlines()
        return "".join(f"{api.redacted_text(line)}\n" for line in lines).encode()
    return _json(found)


def _json(found: object) -> bytes:
    plain: Any = msgspec.to_builtins(found)
    return msgspec.json.format(msgspec.json.encode(api.redacted(plain)), indent=1) + b"\n"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _written(file: Path, files: Mapping[str, bytes]) -> Path:
    """The archive; nobody but its owner reads it until the owner passes it on."""
    try:
        file.touch(mode=0o600, exist_ok=False)
        with tarfile.open(file, "w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"{file.name.partition('.')[0]}/{name}")
                entry.size, entry.mtime = len(content), int(time.time())
                archive.addfile(entry, io.BytesIO(content))
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise api.InvalidInput(
            "command line", "--out", str(file), problem, "Name another file."
        ) from None
    return file


def _view(bundle: SupportBundle) -> Text:
    text = Text.assemble(("✓ ", "green"), f"{bundle.file}: {len(bundle.files)} files.")
    for why in dict.fromkeys(bundle.missing.values()):
        without = [name for name, each in bundle.missing.items() if each == why]
        text.append(f"\n· without {', '.join(without)}: {why}", "dim")
    return text

"""What verbs print on a cluster in memory, behind its HTTP API: each once, in order.

Verbs that need Spark or processes of their own are only refused here.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import uvicorn

from orchestrator.cli.main import run
from orchestrator.cli.verbs import GROUPS
from orchestrator.clock import now_us
from orchestrator.embedded.ports import free_port
from orchestrator.operations.table import OPERATIONS
from orchestrator.records import SavepointPiece, SavepointRecord, SavepointState
from orchestrator.store.protocol import SAVEPOINTS
from tests.json_schema import SCHEMAS
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import TOKEN, served
from vivace import contexts

EXAMPLE = "examples/aircraft"

TIGHT = "tests/integration/vivace/tight.yaml"
"""A query that is refused. Where lines wrap depends on the path, so it is the same everywhere."""

CASES = (
    "status", "status -o wide", "status -o name", "get nodes", "get nodes -o wide", "get queries",
    "get streams", "get fragments", "get fragments -o name", "get fragments -o wide",
    "get outputs", "get planets", "describe fragment alerts", "describe node paris",
    "describe query proximity", "describe stream north", "describe output alerts",
    "describe node nowhere", "top --once", "top nodes --once --sort load",
    "top --once --sort colour", "topology", "topology -o wide", "topology --plot map.txt",
    "logs nowhere", "logs paris", "history -n 3", "metrics", "plan", "plan --explain",
    "plan -f EXAMPLE", "validate -f EXAMPLE", "size -f EXAMPLE", "size -f EXAMPLE/query.yaml",
    "config list", "config use nowhere",
    "token list", "maintenance show", "maintenance break --dry-run", "operations cancel nothing",
    "savepoint list", "savepoint show before-upgrade", "savepoint show nothing",
    "savepoint create", "savepoint create Not-a-name", "savepoint delete nothing",
    "savepoint export before-upgrade WORK/copy.tar",
    "up -f EXAMPLE/cluster.yaml --from nothing",
    "explain alerts", "explain nothing",
    "whatif --without nowhere", "whatif --without lyon", "explain -f TIGHT",
    "rebalance --query nothing", "rebalance",
    "rebalance --goal evacuate:paris --out WORK/plan.json",
    "apply WORK/plan.json --dry-run", "apply nowhere.json", "moves", "undo nothing --dry-run",
    "get moves", "get proposals", "describe move nothing", "describe proposal nothing",
    "rebalance --proposed", "apply --proposed", "apply", "automation",
    "try examples/http/hot.yaml -i examples/http/readings.csv",
    "try examples/http/hot.yaml -i examples/http/readings.csv --expect examples/http/readings.csv",
    "try examples/http/hot.yaml -i nowhere.csv", "try nothing",
    "bulk coordinates nowhere.parquet --out WORK/nodes",
    "bulk place --nodes a --queries b --out WORK/plan --sample 5",
    "drill list", "drill report", "drill run nothing", "verify nothing",
    "send north EXAMPLE/cluster.yaml", "tail nothing", "support-bundle --out WORK/cluster.tar.gz",
    "support-bundle --out EXAMPLE/cluster.yaml", "completion fish", "preflight",
    "render standalone -f EXAMPLE/cluster.yaml --machine a=10.0.0.1 --out WORK/r",
    "render standalone -f EXAMPLE/cluster.yaml --machine a --out WORK/r",
    "render compose -f EXAMPLE/cluster.yaml --out WORK/c",
    "render compose -f EXAMPLE/cluster.yaml --out WORK/c",
    "up -f EXAMPLE/query.yaml", "down --cluster nowhere", "demo WORK/nowhere",
    "simulate --kind nothing", "apply -f EXAMPLE --dry-run", "switchover alerts --dry-run",
    "switchover nothing", "move alerts primary zurich --dry-run", "move alerts --abort",
    "drain paris --dry-run", "apply WORK/plan.json --at-a-time 2", "apply WORK/plan.json", "moves",
    "undo --dry-run", "undo --yes", "get moves", "get moves -o wide", "moves -o name",
    "cordon paris", "get nodes", "uncordon paris",
    "token create --role operate --days 2 --note golden", "token revoke nothing",
    "automation off --moves-an-hour 5 --bytes-an-hour 2GB --quiet 22:00-06:00",
    "automation --quiet 25:00-06:00", "automation --bytes-an-hour any --no-quiet",
    "automation --pause", "automation --pause --for 2h", "automation --for 2h",
    "automation --resume", "pause nothing", "pause proximity", "resume nothing",
    "resume proximity", "delete nothing", "delete proximity", "get fragments",
)  # fmt: skip
"""In this order: those at the end change something."""

SAVED = SavepointRecord(
    name="before-upgrade",
    asked_us=1_700_000_000_000_000,
    by="t-0123abcd@10.0.0.9",
    state=SavepointState.KEPT,
    pieces=(
        SavepointPiece(
            fragment="proximity.alerts",
            checkpoint="7-1000-paris.checkpoint",
            at_us=1_700_000_001_000_000,
            bytes=123_456,
            crc32=1,
        ),
    ),
    left_out={"proximity.tracks": "stream north is read once"},
    ended_us=1_700_000_002_000_000,
)
"""A savepoint that is there."""

VARIABLE = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "DATE TIME"),
    (r"\d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"\bt-[0-9a-f]{8}\b", "t-ID"),
    (r"savepoint-\d{8}-\d{6}", "savepoint-DATE-TIME"),
    (r"\b(rebalance|undo)-\d+", r"\1-N"),
    (r"about \d+ ms", "about N ms"),
    (r"^[\w-]{43}$", "TOKEN"),
    (r"\bprocess \d+", "process PID"),
    (r", web, web-[0-9a-f]{12}\b", ""),
    (r"^web-[0-9a-f]{12} .*\n", ""),
    (r"127\.0\.0\.1:\d+", "HOST:PORT"),
    (r"loads are \d+ s old", "loads are N s old"),
    (r"(_seconds\S* )[\d.e+]+$", r"\1N"),
    (r"[ \t]+$", ""),
)
"""What differs from run to run, and what golden files have for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What a verb has printed."""

    words: str
    status: int
    out: str
    err: str


@contextmanager
def listening(client: Any) -> Generator[str]:
    """The application of a client of tests at an address."""
    port = free_port()
    config = uvicorn.Config(client.app, host="127.0.0.1", port=port, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def printed(words: str, work: Path, *more: str) -> Printed:
    """Run a verb in this process."""
    paths = {"EXAMPLE": EXAMPLE, "TIGHT": TIGHT, "WORK": str(work)}
    given = words.split()
    for name, path in paths.items():
        given = [word.replace(name, path) for word in given]
    # Rows are written as bytes.
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*given, *more])
    out.seek(0)
    return Printed(words=words, status=status, out=out.read(), err=err.getvalue())


@contextmanager
def known_cluster(home: Path) -> Generator[None]:
    """A cluster in memory that the command line knows, with a query that runs."""
    cluster = ObedientCluster()
    cluster.now_us = now_us()
    cluster.apply(aircraft())
    cluster.settle()
    cluster.publish_figures()
    cluster.store.create(SAVEPOINTS.key(SAVED.name), SAVED)
    variables = {"VIVACE_HOME": str(home), "COLUMNS": "150", "TZ": "UTC"}
    with (
        patch.dict(os.environ, variables),
        served(cluster) as opened,
        listening(opened.client) as address,
    ):
        contexts.add_local("air", contexts.Context(api=address), TOKEN, home)
        yield


def golden(cases: list[Printed], work: Path) -> str:
    """What several commands of a verb have printed, as its golden file has it."""
    parts: list[str] = []
    for each in cases:
        # How many lines tell of progress depends on how fast it goes.
        error = each.err[each.err.find("error:") :] if "error:" in each.err else ""
        told = f"$ vivace {each.words}\n{each.out}{error}[{each.status}]\n"
        told = told.replace(str(work), "WORK")
        for pattern, instead in VARIABLE:
            told = re.sub(pattern, instead, told, flags=re.MULTILINE)
        parts.append(told)
    return "\n".join(parts)


def verb_of(words: str) -> str:
    """The verb, with its group."""
    first, *rest = words.split()
    return f"{first}-{rest[0]}" if first in GROUPS else first


def schema_of(words: str) -> str:
    """The schema that says what a command prints as a document; empty: nothing does."""
    first, *rest = words.split()
    if words.startswith("apply WORK/"):
        return "apply-plan"
    if first in ("top", "get"):
        return next((each for each in rest if not each.startswith("-")), "fragments")
    # Of operations of one verb, the first is what it does without files.
    verbs = {each.verb: each.name for each in reversed(OPERATIONS) if each.verb}
    fitting = [verb for verb in verbs if f"{words} ".startswith(f"{verb} ")]
    if fitting:
        return verbs[max(fitting, key=len)]
    return verb_of(words) if (SCHEMAS / f"{verb_of(words)}.json").exists() else ""

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
from tests.json_schema import SCHEMAS
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import TOKEN, served
from vivace import contexts

EXAMPLE = "examples/aircraft"

CASES = (
    "status", "status -o wide", "status -o name", "get nodes", "get nodes -o wide", "get queries",
    "get streams", "get fragments", "get fragments -o name", "get fragments -o wide",
    "get outputs", "get planets", "describe fragment alerts", "describe node paris",
    "describe query proximity", "describe stream north", "describe output alerts",
    "describe node nowhere", "top --once", "top nodes --once --sort load",
    "top --once --sort colour", "topology", "topology -o wide", "topology --plot map.txt",
    "logs nowhere", "logs paris", "history -n 3", "metrics", "plan", "plan --explain",
    "plan -f EXAMPLE", "validate -f EXAMPLE", "config list", "config use nowhere",
    "token list", "operations cancel nothing", "explain alerts", "explain nothing",
    "whatif --without nowhere", "rebalance --query nothing", "moves", "undo nothing --dry-run",
    "drill list", "drill report", "drill run nothing", "verify nothing",
    "send north EXAMPLE/cluster.yaml", "tail nothing", "support-bundle --out WORK/cluster.tar.gz",
    "support-bundle --out EXAMPLE/cluster.yaml", "completion fish",
    "up -f EXAMPLE/query.yaml", "down --cluster nowhere", "demo WORK/nowhere",
    "simulate --kind nothing", "apply -f EXAMPLE --dry-run", "switchover alerts --dry-run",
    "switchover nothing", "move alerts primary zurich --dry-run", "move alerts --abort",
    "drain paris --dry-run", "cordon paris", "get nodes", "uncordon paris",
    "token create --role operate --days 2 --note golden", "token revoke nothing",
    "delete nothing", "delete proximity", "get fragments",
)  # fmt: skip
"""In this order: those at the end change something."""

VARIABLE = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "DATE TIME"),
    (r"\d\d:\d\d:\d\d\.\d+", "TIME"),
    (r"\bt-[0-9a-f]{8}\b", "t-ID"),
    (r"^[\w-]{43}$", "TOKEN"),
    (r"\bprocess \d+", "process PID"),
    (r", web, web-[0-9a-f]{12}\b", ""),
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
    given = [w.replace("EXAMPLE", EXAMPLE).replace("WORK", str(work)) for w in words.split()]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*given, *more])
    return Printed(words=words, status=status, out=out.getvalue(), err=err.getvalue())


@contextmanager
def known_cluster(home: Path) -> Generator[None]:
    """A cluster in memory that the command line knows, with a query that runs."""
    cluster = ObedientCluster()
    cluster.now_us = now_us()
    cluster.apply(aircraft())
    cluster.settle()
    cluster.publish_figures()
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
    if first == "top":
        return next((each for each in rest if not each.startswith("-")), "fragments")
    # Of operations of one verb, the first is what it does without files.
    verbs = {each.verb: each.name for each in reversed(OPERATIONS) if each.verb}
    fitting = [verb for verb in verbs if f"{words} ".startswith(f"{verb} ")]
    if fitting:
        return verbs[max(fitting, key=len)]
    return verb_of(words) if (SCHEMAS / f"{verb_of(words)}.json").exists() else ""

"""What the HTTP API returns is what the command line's `--json` prints, byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator import api
from orchestrator.api import cluster_status
from orchestrator.cli.main import run
from orchestrator.operations import table
from orchestrator.operations.operation import Operation
from orchestrator.operations.parameters import (
    ApplyParameters,
    CordonParameters,
    DeleteParameters,
    DrainParameters,
    DrillParameters,
    DrillSeriesParameters,
    HistoryParameters,
    ManifestParameters,
    MoveParameters,
    Parameters,
    PredictParameters,
    SwitchoverParameters,
    VerifyParameters,
    WithdrawParameters,
)
from orchestrator.operations.texts import read_sources
from orchestrator.results.operations import OperationStatus
from tests.obedient_cluster import ObedientCluster, aircraft
from tests.served_cluster import Served, reach, served

FILES = ["-f", "examples/aircraft"]
FRAGMENT = "proximity.alerts"


def manifests() -> dict[str, Any]:
    return {"manifests": read_sources([Path("examples/aircraft")]), "folder": str(Path.cwd())}


Case = tuple[Operation[Any, Any], list[str], Callable[[], Parameters]]
CASES: list[Case] = [
    (table.STATUS, ["status"], Parameters),
    (table.HISTORY, ["history", "-n", "3"], lambda: HistoryParameters(limit=3)),
    (table.METRICS, ["metrics"], Parameters),
    (table.PLAN, ["plan"], Parameters),
    (table.PREVIEW, ["plan", *FILES], lambda: ManifestParameters(**manifests())),
    (table.VALIDATE, ["validate", *FILES], lambda: ManifestParameters(**manifests())),
    (table.APPLY, ["apply", *FILES], lambda: ApplyParameters(**manifests())),
    (table.APPLY, ["apply", "--dry-run", *FILES],
     lambda: ApplyParameters(**manifests(), dry_run=True)),
    (table.DELETE, ["delete", "proximity"], lambda: DeleteParameters(names=("proximity",))),
    (table.DELETE, ["delete", *FILES], lambda: DeleteParameters(**manifests())),
    (table.DELETE, ["delete", "proximty"], lambda: DeleteParameters(names=("proximty",))),
    (table.MOVE, ["move", FRAGMENT, "secondary", "zurich", "--dry-run"],
     lambda: MoveParameters(fragment=FRAGMENT, role="secondary", node="zurich", dry_run=True)),
    (table.MOVE, ["move", "alrts", "secondary", "zurich"],
     lambda: MoveParameters(fragment="alrts", role="secondary", node="zurich")),
    (table.SWITCHOVER, ["switchover", FRAGMENT, "--dry-run"],
     lambda: SwitchoverParameters(fragment=FRAGMENT, dry_run=True)),
    (table.WITHDRAW, ["move", "--abort", FRAGMENT],
     lambda: WithdrawParameters(fragment=FRAGMENT)),
    (table.DRAIN, ["drain", "paris", "--dry-run"],
     lambda: DrainParameters(node="paris", dry_run=True)),
    (table.CORDON, ["cordon", "paris"], lambda: CordonParameters(node="paris")),
    (table.CORDON, ["cordon", "pari"], lambda: CordonParameters(node="pari")),
    (table.UNCORDON, ["uncordon", "paris"], lambda: CordonParameters(node="paris")),
    (table.DRILLS, ["drill", "list"], Parameters),
    (table.DRILL, ["drill", "run", "kill-drver"], lambda: DrillParameters(drill="kill-drver")),
    (table.DRILL_SERIES, ["drill", "run", "kill-drver", "--times", "2", "--target", "alerts"],
     lambda: DrillSeriesParameters(drills=("kill-drver",), times=2, target="alerts")),
    (table.PREDICT, ["drill", "run", "kill-drver", "--simulate"],
     lambda: PredictParameters(drill="kill-drver")),
    (table.VERIFY, ["verify", "proximity"], lambda: VerifyParameters(query="proximity")),
    (table.VERIFY, ["verify", "proximty"], lambda: VerifyParameters(query="proximty")),
]  # fmt: skip
"""Operation, arguments of the command line, parameters."""

STREAMED = {"tail"}
"""What the command line prints line by line; `test_streams` follows it."""

TIMED = {"drill-audit"}
"""What tells when it was read."""

CHANGING = {"apply", "delete", "cordon"}

SENT = {"send"}
"""A site's business: `test_sending` and the functional tests have one."""


TOKENS = {"tokens", "token-create", "token-revoke"}
"""`test_tokens` draws some."""


def running() -> ObedientCluster:
    cluster = ObedientCluster()
    cluster.apply(aircraft())
    cluster.settle()
    return cluster


def at_rest(_: object) -> int:
    return 2_000_000


def test_every_verb_is_compared() -> None:
    told = {each.name for each in table.OPERATIONS if each.verb}
    assert told - STREAMED - TIMED - SENT - TOKENS == {operation.name for operation, *_ in CASES}


@pytest.fixture(scope="module")
def unchanged() -> Generator[Served]:
    """What operations leave as it is."""
    with served(running()) as here:
        yield here


@pytest.mark.parametrize(
    ("operation", "arguments", "asked"), CASES, ids=[" ".join(each[1]) for each in CASES]
)
def test_a_result_is_what_json_prints(
    operation: Operation[Any, Any],
    arguments: list[str],
    asked: Callable[[], Parameters],
    unchanged: Served,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(Path(__file__).parents[4])
    monkeypatch.setattr(cluster_status, "cluster_now_us", at_rest)
    with ExitStack() as fresh:
        changes = operation.name in CHANGING and "--dry-run" not in arguments
        here = fresh.enter_context(served(running())) if changes else unchanged

        @contextmanager
        def connect(_name: str | None = None) -> Generator[api.Cluster]:
            yield api.Cluster(reach(), here.cluster.server.connect())

        monkeypatch.setattr(api, "connect", connect)
        run([*arguments, "--json"])
        printed = capsys.readouterr().out.strip().encode()
        there = fresh.enter_context(served(running())) if changes else unchanged
        result = there.ask(operation, asked()).content
    if operation.long:
        status = msgspec.json.decode(result, type=OperationStatus)
        failed = status.state == "failed"
        result = b'{"error":' + bytes(status.error) + b"}" if failed else bytes(status.result)
    assert result == printed

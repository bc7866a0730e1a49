"""What commands import: whoever only asks for help does not wait for libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.results.status import StatusDocument
from tests import fake_api
from tests.printed_verbs import known_cluster
from vivace import contexts

pytestmark = pytest.mark.slow

HEAVY = {"kazoo", "matplotlib", "numba", "prometheus_client", "pyspark", "scipy", "sklearn", "zmq"}

CLIENT = {*HEAVY, "lark", "litestar", "numpy", "psutil", "pyarrow", "pydantic", "typer", "yaml"}
"""What no verb needs that only asks a cluster."""

PROGRAM = """\
import sys
from orchestrator.cli.main import run
run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
"""


def imported(home: Path, *arguments: str) -> set[str]:
    """Packages that a command has imported when it ends."""
    return {name.partition(".")[0] for name in modules(home, *arguments)}


def modules(home: Path, *arguments: str) -> set[str]:
    """Modules that a command has imported when it ends."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "VIVACE_HOME": str(home)},
        check=True,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_help_imports_neither_numpy_nor_the_product(tmp_path: Path) -> None:
    heavy = {*HEAVY, "numpy", "pyarrow", "lark", "litestar", "yaml"}
    assert not imported(tmp_path, "--help") & heavy


def test_validate_imports_neither_a_solver_nor_a_client(tmp_path: Path) -> None:
    found = imported(tmp_path, "validate", "-f", "examples/aircraft")
    assert "streams" in found
    assert not found & HEAVY


def test_try_imports_neither_spark_nor_compiled_kernels(tmp_path: Path) -> None:
    rows = tmp_path / "readings.csv"
    rows.write_text("at,celsius\n1,30.5\n", encoding="utf-8")
    statement = "RSTREAM(SELECT max(celsius) AS top FROM readings [RANGE 1 SECOND SLIDE 1 SECOND])"
    assert not imported(tmp_path, "try", statement, "-i", str(rows)) & HEAVY


def test_a_mistake_in_a_statement_is_told_before_the_engine_is_imported(tmp_path: Path) -> None:
    rows = tmp_path / "readings.csv"
    rows.write_text("at,celsius\n1,30.5\n", encoding="utf-8")
    found = modules(tmp_path, "try", "RSTREAM(SELECT celcius FROM readings [NOW])", "-i", str(rows))
    assert "streams.plan.compiler" in found
    assert "streams.evaluate.engine" not in found


@pytest.mark.parametrize("words", [["status"], ["history", "--json"], ["config", "list"]])
def test_what_only_asks_imports_neither_the_cluster_nor_the_parser(
    tmp_path: Path, words: list[str]
) -> None:
    status = StatusDocument(
        cluster="c", problems=(), nodes=(), fragments=(), streams=(), outputs=(), history=()
    )
    with fake_api.served(lambda _, __, ___: status) as api:
        contexts.add("c", contexts.Context(api=api.address), tmp_path)
        assert not imported(tmp_path, *words) & CLIENT
    asked = {name for name, _ in api.asked}
    assert asked == {words[0]} - {"config"}


def test_no_verb_that_asks_a_cluster_imports_it(tmp_path: Path) -> None:
    verbs = (
        "get nodes -o wide", "describe fragment alerts", "top --once", "topology", "logs paris",
        "plan", "explain alerts", "whatif --without zurich", "moves", "rebalance --goal "
        "evacuate:paris --out WORK/plan.json", "apply WORK/plan.json --dry-run", "undo --dry-run",
        "switchover alerts --dry-run", "drill list", "token list", "completion zsh",
        "support-bundle --out WORK/bundle.tar.gz",
    )  # fmt: skip
    with known_cluster(tmp_path):
        for words in verbs:
            found = imported(tmp_path, *words.replace("WORK", str(tmp_path)).split())
            assert not found & CLIENT, words

"""`pip install vivace` brings the client, which needs Arrow and msgspec, and a command.

A wheel is built and installed into an environment of its own, which takes a registry of packages.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.edges.sinks.http import HttpResults
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.records import SinkAssignment, SourceAssignment, SourceSpec
from tests.integration.orchestrator.edges.sinks.test_http_results import delivery

pytestmark = [pytest.mark.long, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
NOW_US = 1_700_000_000_000_000

EXCHANGE = """\
import importlib, pkgutil, sys
import vivace

for module in pkgutil.iter_modules(vivace.__path__, "vivace."):
    if module.name != "vivace.spark":
        importlib.import_module(module.name)
assert vivace.site(sys.argv[1]).stream("north").send([{"number": 7}]).accepted == 1
(batch,) = vivace.site(sys.argv[2]).results("alerts", until=(1, 3))
assert batch["number"].to_pylist() == [1000, 1001, 1002]
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=ROOT, capture_output=True, text=True, timeout=240
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment with the wheel, without any extra."""
    folder = tmp_path_factory.mktemp("installed")
    built = run(UV, "build", "--wheel", "--out-dir", folder)
    if any(sign in built.stderr.lower() for sign in ("failed to fetch", "network")):
        pytest.skip("there is no registry of packages here")
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    for command in (
        [UV, "venv", "--python", sys.executable, environment],
        [UV, "pip", "install", "--python", environment / "bin" / "python", wheel],
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
    return environment / "bin"


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where a stream `north` enters, and where the results `alerts` are."""
    options = Http()
    source = options.open(
        SourceAssignment(
            stream="north",
            columns={"number": "int"},
            source=SourceSpec(driver="http", guarantee=options.guarantee),
            start_at_us=None,
        ),
        SourceContext(folder=tmp_path, clock_us=lambda: NOW_US),
    )
    assert isinstance(source, LiveInput)
    assert source.address is not None
    sink = HttpResults().open(
        SinkAssignment(stream="alerts", columns={"number": "int"}, deadline_ms=100.0), tmp_path
    )
    sink.keep(delivery(1, 0, 3))
    sink.flush()
    yield source.address, sink.address
    source.close()
    sink.close()


def test_the_client_alone_sends_and_reads(installed: Path, addresses: tuple[str, str]) -> None:
    packages = run(UV, "pip", "list", "--python", installed / "python", "--format", "freeze")
    names = {line.partition("=")[0] for line in packages.stdout.splitlines()}
    assert names == {"msgspec", "pyarrow", "vivace"}
    # Isolated: the sources in this folder are not those that are meant.
    done = run(installed / "python", "-I", "-c", EXCHANGE, *addresses)
    assert done.returncode == 0, done.stderr
    assert not {"kazoo", "numba", "numpy", "pyspark", "typer"} & set(done.stdout.split())


def test_the_command_line_says_which_extra_it_needs(installed: Path) -> None:
    done = run(installed / "vivace", "status")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'vivace[cluster]'" in done.stderr

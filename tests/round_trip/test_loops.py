"""A loop on real executors buys, beside kills of its primary, what it buys undisturbed; and a
function that its owner has installed says what that is in another currency.

`make round-trip ARGS='-k loops'` runs it. What it is compared with is `vivace try`, which has the
same engine, no hosts, and nothing that fails.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from examples.fetch import EXAMPLES
from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.sinks import read_back
from tests.conftest import WaitUntil
from tests.functional.conftest import Vivace, vivace_at
from tests.integration.vivace.test_owned_functions import install
from tests.round_trip.conftest import Say

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.timeout(900),
]

TICKS, TICK_MS = 6_000, 10
BEGIN = datetime(2024, 3, 1, 9, tzinfo=UTC)
STOCKS = "abc"
OUTPUTS = ("buy_event", "resource_stream", "abroad")
ABROAD = """
  REGISTER QUERY abroad ISTREAM(SELECT id, fahrenheit(price) AS price FROM buy_event [NOW]);
"""


def written(folder: Path, dice: random.Random, standby: str) -> tuple[Path, Path, Path]:
    """The manifests of the example, with a minute of prices and money for most of them."""
    ticks = [
        (
            (BEGIN + timedelta(milliseconds=TICK_MS * (number + 1))).isoformat(
                timespec="milliseconds"
            ),
            *tick,
        )
        for number, tick in enumerate(
            (dice.choice(STOCKS), dice.randint(450, 620)) for _ in range(TICKS)
        )
    ]
    at = BEGIN.isoformat()
    _write(folder / "market.csv", ("at", "stock_id", "price"), ticks)
    _write(folder / "stock.csv", ("at", "id", "num", "price"), [(at, k, 0, 0) for k in STOCKS])
    _write(folder / "initial_resource.csv", ("at", "val"), [(at, 700_000_000)])
    example = EXAMPLES / "trading"
    for name in ("cluster.yaml", "streams.yaml", "query.yaml"):
        text = (example / name).read_text(encoding="utf-8")
        text = text.replace("09:00:29Z", "09:01:01Z")
        if name == "query.yaml":
            text = text.replace("outputs: {", "outputs: {abroad: desk, ") + ABROAD
        (folder / name).write_text(text.replace("standby: active", f"standby: {standby}"))
    return folder / "cluster.yaml", folder / "streams.yaml", folder / "query.yaml"


def _write(path: Path, names: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])


def ok(vivace: Vivace, *arguments: object) -> str:
    done = vivace(*arguments)
    assert done.returncode == 0, f"vivace {arguments}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def vivace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Vivace:
    """`vivace`, whose processes have a package with a function."""
    package = tmp_path / "package"
    package.mkdir()
    install(package)
    monkeypatch.setenv("PYTHONPATH", str(package))
    return vivace_at(tmp_path / "home")


@pytest.fixture
def data(tmp_path: Path, vivace: Vivace) -> Iterator[Path]:
    """Folder of the cluster, which ends with the test."""
    yield tmp_path / "cluster-data"
    vivace("down")


def expected(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    """The rows that `vivace try` gives."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for output in OUTPUTS:
        with (folder / f"{output}.csv").open(newline="", encoding="utf-8") as file:
            _, *rows = csv.reader(file)
        found[output] = [tuple(row) for row in rows]
    return found


def rows(data: Path, output: str) -> list[tuple[str, ...]]:
    """What the archive has, as a CSV would have it."""
    try:
        table = read_back(data / "archive", output).rows
    except FileNotFoundError:
        return []
    names = [name for name in table.column_names if name == "_ts" or not name.startswith("_")]
    return [tuple(str(row[name]) for name in names) for row in table.to_pylist()]


@pytest.mark.parametrize("standby", ["active", "adaptive"])
def test_a_loop_buys_beside_kills_what_it_buys_undisturbed(
    vivace: Vivace,
    data: Path,
    tmp_path: Path,
    wait_until: WaitUntil,
    dice: random.Random,
    say: Say,
    standby: str,
) -> None:
    cluster, streams, query = written(tmp_path, dice, standby)
    kept = [part for name in OUTPUTS for part in ("--output", f"{name}={tmp_path / name}.csv")]
    ok(vivace, "try", "-f", query, "-f", streams, *kept)
    wanted = expected(tmp_path)
    ok(vivace, "up", "-f", cluster, "--data", data)
    ok(vivace, "apply", "-f", streams, "-f", query)
    killed = 0
    for share in (0.2, 0.6):
        wait_until(
            lambda share=share: len(rows(data, "buy_event")) > share * len(wanted["buy_event"])
        )
        killed += kill_primary(vivace, wait_until)
    for output in OUTPUTS:
        wait_until(lambda output=output: len(rows(data, output)) >= len(wanted[output]))
        assert rows(data, output) == wanted[output]
        faults = sequence_faults(read_back(data / "archive", output))
        assert faults == SequenceFaults(lost=0, repeated=0)
    history = json.loads(ok(vivace, "history", "--json", "--limit", "1000"))["history"]
    took_over = [each["subject"] for each in history if each["kind"] == "took over"]
    assert took_over.count("trading.buy_event__loop") >= killed == 2
    assert not [each for each in history if each["kind"] == "state lost"]
    say(
        standby,
        f"{len(wanted['buy_event'])} purchases, {killed} primaries killed, lost 0, repeated 0",
    )


def kill_primary(vivace: Vivace, wait_until: WaitUntil) -> int:
    """Kill the executor of the loop's primary, once there is a warm secondary; returns 1."""

    def status() -> dict[str, list[dict[str, object]]]:
        return json.loads(ok(vivace, "status", "--json"))

    def loop() -> dict[str, object]:
        fragments = status()["fragments"]
        return next(each for each in fragments if str(each["fragment"]).endswith("__loop"))

    wait_until(lambda: bool(loop()["redundant"]))
    primary = loop()["primary"]
    (pid,) = [each["pid"] for each in status()["nodes"] if each["node"] == primary]
    psutil.Process(int(str(pid))).kill()
    return 1

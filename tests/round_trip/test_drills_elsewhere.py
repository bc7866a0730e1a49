"""All drills of a cluster on two machines, from a client on a third that reaches its HTTP API.

`VIVACE_DRILLS="hang cut-link"` runs only those.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from orchestrator.api import Cluster, apply
from orchestrator.control.observe.view import read_view
from orchestrator.control.planning.task import settled
from orchestrator.deploy.config import read_config
from orchestrator.drills.disturbances import DRILLS
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.ports import free_port
from orchestrator.manifest import load
from orchestrator.results.drill_report import DrillReport
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
from tests.round_trip.kills import await_view
from tests.round_trip.machines import Machine, third_machine, two_machines
from tests.round_trip.test_machines import (
    EXECUTORS,
    are_apart,
    machines_of,
    start,
    write_query,
)

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

TOKEN = "a-token-of-somebody-on-a-third-machine"

UNFIT = {"kill-zookeeper", "pause-zookeeper", "lose-quorum", "kill-driver"}
"""ZooKeeper is not the cluster's own, and there is one application."""

CHOSEN = os.environ.get("VIVACE_DRILLS", "").split() or [*DRILLS]


def test_drills_have_the_verdicts_that_they_have_on_one_machine(
    tmp_path: Path, java: Java, say: Say, wait_until: WaitUntil
) -> None:
    with two_machines(tmp_path, java) as (first, second):
        if second.namespace is None:
            pytest.skip("no network namespace can be made here: that takes root and `ip netns`")
        write_query(tmp_path, repeat=True)
        with (
            closing(start(tmp_path, first, second, wait_until)) as store,
            third_machine(first, tmp_path) as (address, third),
        ):
            api = f"http://{serve(tmp_path, first, address)}"
            wait_until(lambda: len(machines_of(store, *EXECUTORS)) == len(EXECUTORS))
            wait_until(lambda: settled(read_view(store).hosts))
            cluster = Cluster(read_config(tmp_path / "vivace.yaml", {}), store)
            apply(cluster, load([tmp_path / "query.yaml"]), on_progress=say)
            assert are_apart(store, "machine")
            there = machines_of(store, *EXECUTORS)
            say("nodes", str(there))
            token = str(tmp_path / "token")
            asked(third, tmp_path, "config", "add", "machines", api, "--token-file", token)
            found: dict[str, str] = {}
            for name in CHOSEN:
                await_view(store, "protected", *EXECUTORS)
                found[name] = judged(asked(third, tmp_path, "drill", "run", name, "--json"))
                say(name, found[name])
        first.end()
    expected = {name: "unfit" if name in UNFIT else "passed" for name in CHOSEN}
    assert found == expected


def serve(folder: Path, first: Machine, address: str) -> str:
    """Serve the API on the first machine; where."""
    (folder / "token").write_text(TOKEN)
    given = (folder / "vivace.yaml").read_text()
    listen = f"{address}:{free_port()}"
    own = {"web": listen, "tokenFile": "token", "insecureHttp": True}
    config = folder / "web.yaml"
    lines = [f"{name}: {json.dumps(value)}\n" for name, value in own.items()]
    config.write_text(given + "".join(lines) + f"archive: {folder / 'sink'}\n")
    first.python("web", config)
    return listen


def asked(machine: Machine, folder: Path, *words: str) -> str:
    """What `vivace` prints on a machine."""
    done = subprocess.run(
        [*machine.inside, sys.executable, "-m", "orchestrator.cli.main", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "VIVACE_HOME": str(folder / "third"), "PYTHONPATH": str(source_root())},
        check=False,
    )
    return done.stdout or done.stderr


def judged(printed: str) -> str:
    """What became of a drill: `passed`, `unfit`, or why it failed."""
    try:
        report = msgspec.json.decode(printed, type=DrillReport)
    except msgspec.ValidationError:
        error = json.loads(printed)["error"]
        return "unfit" if error["type"] == "Inapplicable" else error["message"]
    assert (report.lost, report.repeated, report.differing) == (0, 0, 0), printed
    return "; ".join(report.failures) or "passed"

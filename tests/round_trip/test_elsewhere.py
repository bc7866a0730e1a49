"""Every verb from a machine that reaches nothing of the cluster but its HTTP API.

The machine is a network namespace. The cluster's processes listen at loopback addresses, as
`vivace up` has them do, and a second process of the API at the address of the link.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.deploy.context import find
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import source_root
from orchestrator.embedded.ports import free_port
from tests.conftest import PATIENCE_S, WaitUntil
from tests.round_trip.machines import Machine, two_machines

pytestmark = [
    pytest.mark.round_trip,
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "examples/http"
TOKEN = "a-token-of-somebody-elsewhere"

LOCAL = {"up", "down", "demo", "simulate", "validate"}
"""Verbs of the machine that they are called on."""


class Elsewhere:
    """Commands on the other machine, with a home of their own."""

    def __init__(self, machine: Machine, home: Path) -> None:
        assert machine.namespace is not None
        self._inside = ("ip", "netns", "exec", machine.namespace)
        self._home = home
        self.called: set[str] = set()

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run `vivace` to its end."""
        self.called.add(words[0])
        return self.python("-m", "orchestrator.cli.main", *words, given=given)

    def python(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run Python to its end."""
        return subprocess.run(
            [*self._inside, sys.executable, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            cwd=ROOT,
            env={**os.environ, "VIVACE_HOME": str(self._home), "PYTHONPATH": str(source_root())},
            check=False,
        )

    def ok(self, *words: str, given: str = "") -> str:
        """What `vivace` prints, which succeeds."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def elsewhere(tmp_path: Path, java: Java, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """The other machine, which has a context of the cluster."""
    home, folder = tmp_path / "home", tmp_path / "data"
    monkeypatch.setenv("VIVACE_HOME", str(home))
    with two_machines(tmp_path, java) as (first, second):
        if second.namespace is None:
            pytest.skip("no network namespace can be made here: that takes root and `ip netns`")
        here = [sys.executable, "-m", "orchestrator.cli.main"]
        cluster = f"{EXAMPLE}/cluster.yaml"
        subprocess.run([*here, "up", "-f", cluster, "--data", str(folder)], cwd=ROOT, check=True)
        try:
            context = find("http", home)
            (tmp_path / "token").write_text(TOKEN)
            (tmp_path / "secret").write_text(context.secret)
            address = f"{first.address}:{free_port()}"
            config = {
                "cluster": "http", "zookeeper": context.zookeeper, "web": address,
                "archive": str(folder / "archive"), "insecureHttp": True,
                "secretFile": "secret", "tokenFile": "token",
            }  # fmt: skip
            (tmp_path / "web.yaml").write_text(json.dumps(config))
            web = (sys.executable, "-m", "orchestrator.web", "--config", str(tmp_path / "web.yaml"))
            first.start("web", *web)
            other = Elsewhere(second, tmp_path / "other")
            other.ok(
                "config", "add", "http", f"http://{address}", "--token-file",
                str(tmp_path / "token"),
            )  # fmt: skip
            yield other
        finally:
            subprocess.run([*here, "down"], cwd=ROOT, check=True)


def test_every_verb_works(elsewhere: Elsewhere, wait_until: WaitUntil, tmp_path: Path) -> None:
    from orchestrator.cli.verbs import GROUPS, VERBS

    wait_until(lambda: elsewhere.run("status").returncode == 0)
    reach = "import socket, sys; socket.create_connection(('10.99.0.1', int(sys.argv[1])), 2)"
    zookeeper = find("http", tmp_path / "home").zookeeper.rpartition(":")[2]
    assert elsewhere.python("-c", reach, zookeeper).returncode != 0
    elsewhere.ok("plan", "-f", EXAMPLE)
    elsewhere.ok("apply", "-f", EXAMPLE)
    lines = (ROOT / EXAMPLE / "readings.csv").read_text()
    sent = json.loads(elsewhere.ok("send", "readings", "-", "--json", given=lines))
    assert (sent["accepted"], sent["late"]) == (4, 0)
    (row,) = elsewhere.ok("tail", "hot", "--limit", "1", "--json").splitlines()
    assert json.loads(row)["celsius"] >= 30
    status = json.loads(elsewhere.ok("status", "--json"))
    (fragment,) = status["fragments"]
    wait_until(lambda: elsewhere.run("switchover", "hot").returncode == 0)
    elsewhere.ok("move", "hot", "primary", fragment["primary"], "--dry-run")
    elsewhere.ok("cordon", "one")
    elsewhere.ok("uncordon", "one")
    drained = elsewhere.run("drain", "one", "--dry-run")
    assert "can go nowhere" in drained.stderr or drained.returncode == 0
    elsewhere.ok("drill", "list")
    elsewhere.ok("drill", "run", "switchover", "--simulate")
    elsewhere.ok("drill", "report")
    verified = elsewhere.run("verify", "heat")
    assert verified.returncode in (0, 2), verified.stderr
    assert "high" not in elsewhere.ok("metrics")
    elsewhere.ok("history")
    drawn = json.loads(elsewhere.ok("token", "create", "--json"))
    elsewhere.ok("token", "revoke", drawn["id"])
    elsewhere.ok("delete", "-f", EXAMPLE)
    assert elsewhere.called >= {*VERBS, *GROUPS} - LOCAL

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
from tests.conftest import WaitUntil
from tests.round_trip.conftest import Say
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

STUCK_S = 300.0
"""No verb of this test takes so long; `verify` starts Spark."""

MODULE = ("-m", "orchestrator.cli.main")

SAME = (
    ("drill", "list"), ("drill", "list", "--json"), ("history",), ("history", "--json"),
    ("plan",), ("plan", "--json"), ("token", "list"), ("token", "list", "--json"),
)  # fmt: skip
"""What prints the same wherever it is called, byte for byte, while figures do not change."""

READING = (
    ("get", "nodes", "-o", "name"), ("describe", "node", "one"), ("top", "--once"), ("topology",),
    ("explain", "hot"), ("rebalance",), ("moves",), ("completion", "bash"),
)  # fmt: skip

LOCAL = {"up", "down", "demo", "simulate", "validate", "size", "try", "bulk", "render"}
"""Verbs of the machine that they are called on."""


class Elsewhere:
    """Commands on the other machine, with a home of their own."""

    def __init__(self, machine: Machine, home: Path, say: Say) -> None:
        assert machine.namespace is not None
        self._say = say
        self._inside = ("ip", "netns", "exec", machine.namespace)
        self._home = home
        self.called: set[str] = set()

    def run(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run `vivace` to its end."""
        return ended(self.start(*words), given)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Run `vivace`."""
        self.called.add(words[0])
        self._say("elsewhere", " ".join(words))
        return self.python(*MODULE, *words)

    def python(self, *words: str) -> subprocess.Popen[str]:
        """Run Python."""
        return python(*words, inside=self._inside, home=self._home)

    def ok(self, *words: str, given: str = "") -> str:
        """What `vivace` prints, which succeeds."""
        done = self.run(*words, given=given)
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout


def python(*words: str, home: Path, inside: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Run Python in the namespace that a command leads into."""
    return subprocess.Popen(
        [*inside, sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "VIVACE_HOME": str(home),
            "PYTHONPATH": str(source_root()),
            "COLUMNS": "120",
        },
    )


def ended(process: subprocess.Popen[str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Give a process its input, and wait for its end."""
    try:
        out, err = process.communicate(given, timeout=STUCK_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def elsewhere(
    tmp_path: Path, java: Java, monkeypatch: pytest.MonkeyPatch, say: Say
) -> Iterator[Elsewhere]:
    """The other machine, which has a context of the cluster."""
    home, folder = tmp_path / "home", tmp_path / "data"
    monkeypatch.setenv("VIVACE_HOME", str(home))
    with two_machines(tmp_path, java) as (first, second):
        if second.namespace is None:
            pytest.skip("no network namespace can be made here: that takes root and `ip netns`")
        here = [sys.executable, *MODULE]
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
            other = Elsewhere(second, tmp_path / "other", say)
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
    assert ended(elsewhere.python("-c", reach, zookeeper)).returncode != 0
    elsewhere.ok("plan", "-f", EXAMPLE)
    elsewhere.ok("apply", "-f", EXAMPLE)
    tail = elsewhere.start("tail", "hot", "--limit", "1", "--json")
    assert tail.stderr is not None
    assert "No tuple of hot has come" in tail.stderr.readline()
    lines = (ROOT / EXAMPLE / "readings.csv").read_text()
    sent = json.loads(elsewhere.ok("send", "readings", "-", "--json", given=lines))
    assert (sent["accepted"], sent["late"]) == (4, 0)
    (row,) = ended(tail).stdout.splitlines()
    assert json.loads(row)["celsius"] == 30.1
    status = json.loads(elsewhere.ok("status", "--json"))
    (fragment,) = status["fragments"]
    wait_until(lambda: elsewhere.run("switchover", "hot").returncode == 0)
    elsewhere.ok("move", "hot", "primary", fragment["primary"], "--dry-run")
    elsewhere.ok("cordon", "one")
    elsewhere.ok("uncordon", "one")
    drained = elsewhere.run("drain", "one", "--dry-run")
    assert (drained.returncode, "no other live node" in drained.stderr) == (2, True)
    elsewhere.ok("whatif", "--without", "one")
    elsewhere.ok("drill", "run", "switchover", "--simulate")
    elsewhere.ok("drill", "report")
    elsewhere.ok("verify", "heat")
    assert "vivace_" in elsewhere.ok("metrics")
    for words in READING:
        elsewhere.ok(*words)
    elsewhere.ok("support-bundle", "--out", str(tmp_path / "bundle"))
    told = elsewhere.run("logs", "here")
    assert told.returncode == 0 or "machine" in told.stderr, told.stderr
    undone = elsewhere.run("undo", "--dry-run")
    assert undone.returncode == 0 or "vivace moves" in undone.stderr
    drawn = json.loads(elsewhere.ok("token", "create", "--json"))

    def is_same(words: tuple[str, ...]) -> bool:
        here = ended(python(*MODULE, *words, home=tmp_path / "home"))
        there = elsewhere.run(*words)
        return (there.returncode, there.stdout) == (0, here.stdout)

    for words in SAME:
        wait_until(lambda words=words: is_same(words), 120.0)
    elsewhere.ok("token", "revoke", drawn["id"])
    assert "is unknown" in elsewhere.run("operations", "cancel", "nothing").stderr
    elsewhere.ok("delete", "-f", EXAMPLE)
    assert elsewhere.called >= {*VERBS, *GROUPS} - LOCAL

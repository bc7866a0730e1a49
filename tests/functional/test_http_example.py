"""The commands of the examples of HTTP, TCP, Spark and Kafka, as written but for ports and brokers.

Then a client sends while its site is killed. Where there is no `curl`, a program of the tests does
the same requests.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import vivace
from orchestrator.deploy.context import find
from orchestrator.embedded.class_data import class_data_options, class_path
from orchestrator.embedded.java import SMALL_JVM, Java
from orchestrator.embedded.ports import free_port
from orchestrator.store.protocol import NODES
from orchestrator.store.zookeeper import ZooKeeperStore
from tests.conftest import PATIENCE_S, WaitUntil
from tests.mock_kafka import MockKafka

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "examples" / "http" / "README.md").read_text(encoding="utf-8")
OTHER_PAGES = [
    (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    for name in ("tcp", "spark", "kafka")
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PORT, LINES, BROKERS = "8642", "9642", "localhost:9092"
TRIALS = 3
BATCHES = 150

_block = re.compile(r"```console\n(.*?)```", re.DOTALL)
_command = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a text with the output that it shows."""
    return [found for block in _block.findall(text) for found in _command.findall(block)]


class Shell:
    """Runs commands as a person does, in a folder with the examples, at a port that is free.

    Parameters
    ----------
    home
        Where Vivace keeps its files.
    root
        Made: a folder with a copy of the examples.
    """

    def __init__(self, home: Path, root: Path, java: Java) -> None:
        self.home = home
        self.root = root
        self._port, self._lines = (str(free_port()) for _ in range(2))
        self.address = f"http://127.0.0.1:{self._port}"
        self.meters = f"127.0.0.1:{self._lines}"
        self._kafka = MockKafka()
        for name in ("http", "tcp", "spark", "kafka"):
            shutil.copytree(ROOT / "examples" / name, root / "examples" / name)
        for file in root.rglob("*.yaml"):
            file.write_text(self._here(file.read_text(encoding="utf-8")), encoding="utf-8")
        tools = root / "bin"
        tools.mkdir()
        if shutil.which("curl") is None:
            stand_in = tools / "curl"
            program = Path(__file__).with_name("curl.py")
            stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n')
            stand_in.chmod(0o700)
        folders = [str(Path(sys.executable).parent), str(tools), os.environ["PATH"]]
        self._environment = {
            **java.environment(),
            "PATH": os.pathsep.join(folders),
            "VIVACE_HOME": str(home),
            "VIVACE_ADDRESS": self.address,
            "METERS": self.meters,
            "BROKERS": self._kafka.brokers,
            "PYSPARK_SUBMIT_ARGS": shlex.join(small_spark(java)),
        }
        self._environment.pop("VIVACE_CLUSTER", None)

    def __call__(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", self._here(command)],
            cwd=self.root,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, steps: list[tuple[str, str]]) -> None:
        """Run commands, each of which says what is shown."""
        for command, shown in steps:
            said = self(command)
            assert not shown or said == shown, command

    def patiently(self, command: str) -> str:
        """Run a command; again if Spark gave up its own Python processes, after ten seconds."""
        for _ in range(TRIALS):
            try:
                return self(command)
            except AssertionError as error:
                if "Python worker failed to connect back" not in str(error):
                    raise
        raise AssertionError(f"{command}: this machine is too busy for Spark")

    def _here(self, text: str) -> str:
        text = text.replace(PORT, self._port).replace(LINES, self._lines)
        return text.replace(BROKERS, self._kafka.brokers)


def small_spark(java: Java) -> list[str]:
    """Arguments for a person's own Spark, which has two of its tasks side by side."""
    options = shlex.join([*SMALL_JVM, *class_data_options(java)])
    settings = {
        "spark.driver.extraClassPath": class_path(),
        "spark.driver.extraJavaOptions": options,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    told = [f"--conf={name}={value}" for name, value in settings.items()]
    return ["--master", "local[2]", *told, "pyspark-shell"]


@pytest.fixture
def shell(tmp_path: Path, java: Java) -> Iterator[Shell]:
    made = Shell(tmp_path / "home", tmp_path / "repository", java)
    yield made
    if list(made.home.glob("*.json")):
        made("vivace down")


def test_the_pages_as_written_and_a_site_that_is_killed(
    shell: Shell, wait_until: WaitUntil
) -> None:
    *steps, (last, _) = commands(PAGE)
    assert last == "vivace down"
    (own_data,) = re.findall(r"^## Your own data\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    assert own_data.strip().count("\n") < 10
    *own_steps, (last, _) = commands(own_data)
    assert last == "vivace down"
    shell.run(steps)
    # The page's readings have gone on to 13:00.
    readings = shell.root / "examples" / "http" / "readings.csv"
    readings.write_text(readings.read_text(encoding="utf-8").replace("T12:", "T14:"))
    shell.run([step for step in own_steps if step not in steps])
    refuse_what_the_site_cannot_open(shell)
    # The cluster of the other pages is the same.
    for command, shown in [step for page in OTHER_PAGES for step in commands(page)[:-1]]:
        if (command, "") not in steps:
            said = shell.patiently(command)
            assert not shown or said == shown, command
    kill_the_site_while_a_client_sends(shell, wait_until)
    streams = json.loads(shell("vivace status --json"))["streams"]
    addresses = {stream["stream"]: stream["input"]["address"] for stream in streams}
    assert addresses.pop("trades").endswith(" trades")
    assert addresses.pop("meters") == shell.meters
    assert addresses == {name: f"{shell.address}/streams/{name}" for name in ("readings", "rates")}
    shell("vivace down")


def refuse_what_the_site_cannot_open(shell: Shell) -> None:
    """The topics are made later."""
    said = shell("vivace apply -f examples/kafka 2>&1 || echo status $?")
    assert "from.kafka.topic: 'trades' cannot be used" in said
    assert "(looked at by site here). Create it" in said
    assert said.endswith("status 2\n")
    assert "trades" not in shell("vivace status --json")


def kill_the_site_while_a_client_sends(shell: Shell, wait_until: WaitUntil) -> None:
    """Every reading comes out once, in order, whichever moment the site dies at."""
    sent = threading.Event()
    errors: list[Exception] = []
    progress: list[int] = []

    def send() -> None:
        stream = vivace.site(shell.address, patience_s=PATIENCE_S).stream("readings")
        try:
            for number in range(BATCHES):
                # A minute of readings, hot and cold ones.
                stamps = [f"2026-07-02T{number // 60:02}:{number % 60:02}:{s:02}Z" for s in (0, 30)]
                rows = {"at": stamps, "sensor": ["roof"] * 2, "celsius": [40.0 + number, 0.0]}
                taken = stream.send(rows)
                assert taken.accepted + 2 * taken.repeated == 2, taken
                progress.append(number)
        except Exception as error:  # noqa: BLE001  The test says it.
            errors.append(error)
        sent.set()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    for share in (1, 2):
        wait_until(lambda share=share: sent.is_set() or len(progress) > share * BATCHES // 3)
        kill_site(shell, wait_until)
    assert sent.wait(PATIENCE_S)
    assert not errors
    got: list[float] = []
    results = vivace.site(shell.address, patience_s=PATIENCE_S).results("hot")
    before = [30.1, 31.4, 32.0, 33.5, 30.1, 31.4]
    while len(got) < len(before) + BATCHES:
        got += next(results).column("celsius").to_pylist()
    assert got == [*before, *(40.0 + number for number in range(BATCHES))]


def kill_site(shell: Shell, wait_until: WaitUntil) -> None:
    here = find("http", shell.home)
    with closing(ZooKeeperStore(here.zookeeper, here.cluster, here.secret)) as store:
        before = store.list(NODES).records["here"].record
        os.kill(before.pid, signal.SIGKILL)

        def is_back() -> bool:
            found = store.list(NODES).records.get("here")
            return found is not None and found.record.incarnation != before.incarnation

        wait_until(is_back)

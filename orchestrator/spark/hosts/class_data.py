"""Makes the class data that Java processes on this machine share.

    python -m orchestrator.spark.hosts.class_data

A Spark session computes a little, and a ZooKeeper starts in its driver, which also loads what the
executor has loaded. When it ends, it writes all classes down (`java`'s option
`-XX:ArchiveClassesAtExit`). See `orchestrator.embedded.class_data`.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from orchestrator.embedded.class_data import class_data, class_path
from orchestrator.embedded.java import PROBE_TIMEOUT_S, SMALL_JVM, Java, find_java
from orchestrator.embedded.ports import LOOPBACK, free_port
from orchestrator.spark.hosts.session import SessionSettings, start_session, stop_session

WRITE_S = 1800.0
"""Far more than writing takes: 200 s were seen where many processes shared two processors."""

ROWS = 100

_loaded = re.compile(r"^([\w.$]+) source: (?:file|jrt):", re.MULTILINE)
"""A class in Java's log that came out of a file."""

_recorder = """\
import os, sys
arguments = sys.argv[1:]
if "org.apache.spark.launcher.Main" not in arguments and "-cp" in arguments:
    arguments[arguments.index("-cp") + 1] = {class_path!r}
    arguments = ["-Xlog:disable", "-XX:ArchiveClassesAtExit=" + {file!r}, *arguments]
os.execv({executable!r}, [{executable!r}, *arguments])
"""
"""What stands in for `java`, and has Spark's driver keep its class data. Spark's launcher would put
folders on the class path, of which Java keeps no class data."""


def make_class_data(java: Java) -> Path | None:
    """Make the file anew; None if this Java cannot."""
    made = class_data(java)
    if not keeps_class_data(java):
        return None
    # Java cannot use one file while it writes another. Who uses it keeps it.
    made.unlink(missing_ok=True)
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        work = Path(folder)
        file = work / made.name
        _run(work / "spark", _recording(java, work / "java", file))
        file.replace(made)
    return made


def keeps_class_data(java: Java) -> bool:
    """Whether the runtime has its own classes' data, which others are added to."""
    probe = [str(java.executable), "-Xshare:on", "-version"]
    done = subprocess.run(probe, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    return done.returncode == 0


def _recording(java: Java, home: Path, file: Path) -> Java:
    """A Java home whose driver writes the file when it ends."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    recorder = home / "recorder.py"
    recorder.write_text(
        _recorder.format(class_path=class_path(), file=str(file), executable=str(java.executable)),
        encoding="utf-8",
    )
    started = shlex.join([sys.executable, str(recorder)])
    # A first line that names Python may be too long for the system.
    executable.write_text(f'#!/bin/sh\nexec {started} "$@"\n', encoding="utf-8")
    executable.chmod(0o700)
    return Java(home=home, version=java.version)


def _run(work: Path, java: Java) -> None:
    """What clusters, jobs and `vivace verify` do, in little."""
    loaded = work / "loaded"
    log = f"-Xlog:class+load:file={loaded}:none"
    session = start_session(
        SessionSettings(
            name="class data",
            work_dir=work,
            executors=1,
            java=java,
            extra={"spark.executor.extraJavaOptions": " ".join([*SMALL_JVM, f'"{log}"'])},
        )
    )
    try:
        _compute(session, work / "rows")
        gateway = vars(SparkContext)["_gateway"]
        _start_zookeeper(gateway.jvm, work / "zookeeper")
        _load(gateway.jvm, loaded.read_text(encoding="utf-8"))
        session.stop()
        # The driver ends at the end of this file, and writes before.
        gateway.proc.stdin.close()
        gateway.proc.wait(WRITE_S)
    finally:
        stop_session(session)


def _compute(session: SparkSession, folder: Path) -> None:
    numbers = session.sparkContext.parallelize(range(ROWS), 2)
    numbers.map(lambda number: (number % 2, number)).groupByKey().collect()
    frame = session.range(ROWS).selectExpr("id", "id % 7 AS part", "cast(id AS string) AS name")
    frame.write.parquet(folder.as_uri())
    rows = session.read.parquet(folder.as_uri())
    rows.createOrReplaceTempView("rows")
    session.sql(
        "SELECT a.part, count(*), sum(b.id), max(a.name) FROM rows a JOIN rows b ON a.id = b.id "
        "WHERE a.id > 3 GROUP BY a.part ORDER BY a.part"
    ).collect()
    rows.rdd.map(lambda row: row.id).collect()


def _load(jvm: Any, log: str) -> None:
    """Have the driver load what an executor has loaded from files."""
    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for name in _loaded.findall(log):
        # Some are made on the way, and can only be loaded where they were made.
        with contextlib.suppress(Py4JError):
            jvm.java.lang.Class.forName(name, False, loader)


def _start_zookeeper(jvm: Any, folder: Path) -> None:
    """Have a ZooKeeper start and end."""
    folder.mkdir()
    properties = jvm.java.util.Properties()
    properties.setProperty("clientPortAddress", LOOPBACK)
    properties.setProperty("clientPort", str(free_port()))
    embedded = jvm.org.apache.zookeeper.server.embedded
    server = (
        embedded.ZooKeeperServerEmbedded.builder()
        .baseDir(jvm.java.io.File(str(folder)).toPath())
        .configuration(properties)
        .exitHandler(embedded.ExitHandler.LOG_ONLY)
        .build()
    )
    server.start()
    server.close()


def main() -> None:
    """Make the file for the Java that Vivace uses."""
    java = find_java()
    made = make_class_data(java)
    if made is None:
        said = f"{java.executable} has no data of its own classes: it can keep none of others"
    else:
        said = f"{made}: {made.stat().st_size / 1e6:.0f} MB"
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()

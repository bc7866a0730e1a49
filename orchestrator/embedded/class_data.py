"""Class data: what Java makes of classes when it loads them, in a file that processes share.

With it, the Java processes of Spark and ZooKeeper start sooner. The file is made once, by
`orchestrator.spark.hosts.class_data`, which `make setup` runs. Java uses it only if the same Java
made it from the same jars; without it, processes start as they always did.

It lies beside the installed packages: whoever can write it can have these processes run anything.
"""

from __future__ import annotations

import sys
from pathlib import Path

from orchestrator.embedded.java import Java
from orchestrator.embedded.packages import pyspark_folder


def class_path() -> str:
    """PySpark's jars, as the first part of the class path: Java compares it with the file's."""
    return str(pyspark_folder() / "jars" / "*")


def class_data(java: Java) -> Path:
    """The file for a Java runtime, which may not be there."""
    return Path(sys.prefix) / "share" / "vivace" / f"java-{java.version}.jsa"


def class_data_options(java: Java) -> tuple[str, ...]:
    """Java's options for a process whose class path begins with `class_path()`."""
    file = class_data(java)
    # A file of another Java or of other jars is passed over in silence.
    return (f"-XX:SharedArchiveFile={file}", "-Xlog:cds*=off") if file.is_file() else ()

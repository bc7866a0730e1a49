"""Folders of Python packages that other programs must be told."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import orchestrator


def source_root() -> Path:
    """Folder that this package is imported from; other Pythons need it in `PYTHONPATH`."""
    return Path(orchestrator.__file__).resolve().parent.parent


def python_path() -> str:
    """`PYTHONPATH` of another Python of this machine that finds all packages which this one finds:
    ours, and those of owners."""
    return os.pathsep.join(filter(None, [str(source_root()), os.environ.get("PYTHONPATH")]))


def pyspark_folder() -> Path:
    """Folder of PySpark, found without importing it."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise ImportError("pyspark is not installed; `make setup` installs it")
    return Path(package.origin).parent

"""A benchmark's results with all that is needed to read them later: commit and machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil

from bench.registry import Figures

ROOT = Path(__file__).resolve().parent.parent

REQUIRED = {"correct": 1.0, "equal": 1.0, "violations": 0.0}
"""Last part of a figure's key → its value in a run that is in order."""


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyspark": importlib.metadata.version("pyspark"),
    }


def _processor() -> str:
    """Model of the processor; its architecture where Linux does not tell."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def commit() -> str:
    """The commit that is checked out, with `+` if files differ from it; empty outside git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        head = git("rev-parse", "HEAD")
        return f"{head}+" if git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.CalledProcessError):
        return ""


def report(name: str, figures: Figures) -> dict[str, Any]:
    """Everything about one run, ready for JSON."""
    return {
        "benchmark": name,
        "commit": commit(),
        "machine": machine(),
        "figures": dict(figures),
    }


def broken(figures: Figures) -> list[str]:
    """Those that are not as required, as phrases."""
    wanted = {key: REQUIRED.get(key.rpartition(".")[2]) for key in figures}
    return [
        f"{key} is {figures[key]:g}, not {value:g}"
        for key, value in wanted.items()
        if value is not None and figures[key] != value
    ]


def write(result: dict[str, Any], path: Path) -> None:
    """Write a report; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n")

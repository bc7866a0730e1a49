"""A copy of the product that is one step ahead: its wire, its records, and fields in both."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from orchestrator.embedded.packages import source_root
from orchestrator.records.versions import RECORDS, WIRE_VERSION
from scripts.code_lines import PACKAGES

LATER = "\n    added_later: int = {steps}\n"
"""What a class gets at its end."""

NEEDED = '\n    later = {{"records": {records}}}\n'
"""What assignments get, too: once every process reads the newest records, each needs such ones."""

GROWN = {
    "ha/messages.py": ("Heartbeat", "Ack", "Ping", "Subscribe"),
    "orchestrator/host/shell/wire.py": ("ChunkHeader", "DataHeader", "SnapshotHeader"),
    "orchestrator/records/hosts.py": ("NodeRecord", "ReplicaStatus", "SinkStatus"),
    "orchestrator/records/fragments.py": ("FragmentRecord", "HistoryEvent"),
    "orchestrator/records/base.py": ("Peer", "NameClaim"),
    "orchestrator/records/assignments.py": ("Assignment", "FragmentAssignment"),
}
"""File → classes that have one more field."""


def make_next_version(folder: Path, steps: int = 1) -> Path:
    """Write the product of so many steps ahead into a new folder, for `PYTHONPATH`."""
    for package in (*PACKAGES, "vivace"):
        shutil.copytree(
            source_root() / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    versions = folder / "orchestrator/records/versions.py"
    text = versions.read_text(encoding="utf-8")
    numbers = {"LEAST_WIRE": WIRE_VERSION - 1, "WIRE_VERSION": WIRE_VERSION, "RECORDS": RECORDS}
    for name, now in numbers.items():
        said, count = re.subn(rf"(?m)^{name} = \d+$", f"{name} = {now + steps}", text)
        assert count == 1, name
        text = said
    versions.write_text(text, encoding="utf-8")
    for file, classes in GROWN.items():
        path = folder / file
        text = path.read_text(encoding="utf-8")
        for name in classes:
            added = LATER.format(steps=steps)
            if name == "Assignment":
                added += NEEDED.format(records=RECORDS + steps)
            text = _with_one_more_field(text, name, added)
        path.write_text(text, encoding="utf-8")
    return folder


def _with_one_more_field(text: str, name: str, added: str) -> str:
    """The module with a field at the end of a class's: before its first method, or what follows."""
    begin = re.search(rf"^class {name}\(", text, flags=re.MULTILINE)
    assert begin is not None, name
    end = re.compile(r"^(    @|    def |\S)", flags=re.MULTILINE).search(
        text, text.index("\n", begin.end())
    )
    at = len(text) if end is None else end.start()
    return text[:at].rstrip("\n") + added + "\n\n" + text[at:]

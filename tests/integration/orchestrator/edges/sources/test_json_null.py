"""A site lives on when somebody sends it a line that is no object of JSON."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TCP = """
import socket, sys, time
from pathlib import Path
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.formats.row_form import Format
from orchestrator.edges.sources.tcp import Tcp

assigned = SourceAssignment(
    stream="north", columns={"number": "int"},
    source=SourceSpec(driver="tcp", guarantee=Guarantee.JOURNALED), start_at_us=None,
)
context = SourceContext(folder=Path(sys.argv[1]), clock_us=lambda: 10**15)
source = Tcp(format=Format.JSON, acknowledge=True).open(assigned, context)
host, port = source.address.rsplit(":", 1)
client = socket.create_connection((host, int(port)), timeout=30)
client.sendall(b'null\\n{"number": 1}\\n')
acknowledged = client.makefile().readline()
print(acknowledged.strip(), source.status.malformed)
source.close()
"""

FOLDER = """
import sys, time
from pathlib import Path
from orchestrator.records import Guarantee, SourceAssignment, SourceSpec
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.folder import Folder

folder = Path(sys.argv[1])
inbox = folder / "inbox"
inbox.mkdir(parents=True, exist_ok=True)
(inbox / "a.jsonl").write_text('null\\n{"number": 1}\\n')
(inbox / "b.jsonl").write_text('{"number": 2}\\n')
assigned = SourceAssignment(
    stream="north", columns={"number": "int"},
    source=SourceSpec(driver="folder", guarantee=Guarantee.JOURNALED), start_at_us=None,
)
context = SourceContext(folder=folder / "site", clock_us=lambda: 10**15)
source = Folder(path=str(inbox), every_ms=5).open(assigned, context)
end = time.monotonic() + 20
while not source.has("file b.jsonl", 2**53) and time.monotonic() < end:
    time.sleep(0.01)
print(source.has("file b.jsonl", 2**53), source.status.malformed)
source.close()
"""


@pytest.mark.parametrize(
    ("site", "told"), [(TCP, "2 1"), (FOLDER, "True 1")], ids=["tcp", "folder"]
)
def test_a_null_in_json_is_malformed_and_the_site_lives(
    tmp_path: Path, site: str, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", site, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"the site ended with {done.returncode}: {done.stderr[-300:]}"
    assert done.stdout.strip() == told

"""Manifests and parts of them that pages show can be read as they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrator.manifest import load

ROOT = Path(__file__).resolve().parents[3]

_block = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)

AROUND = {
    "from:": "kind: Stream\nname: trades\nsite: here\ncolumns: {symbol: string}\nrate: 1 KB/s\n%s",
    "outputs:": (
        "kind: Query\nname: watch\ndeadline: 1 s\nrecovery: 1 s\n%sstatements: |\n"
        "  REGISTER QUERY large ISTREAM(SELECT symbol FROM trades [NOW]);\n"
    ),
}
"""What a part begins with → what makes a manifest of it."""

blocks = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, text in enumerate(_block.findall(page.read_text(encoding="utf-8")))
]


def test_pages_of_sources_and_sinks_show_some() -> None:
    assert {"kafka-0", "kafka-1", "live-streams-0", "live-streams-1"} <= {b.id for b in blocks}


@pytest.mark.parametrize("text", blocks)
def test_what_a_page_shows_can_be_read(tmp_path: Path, text: str) -> None:
    for begin, around in AROUND.items():
        if text.startswith(begin):
            text = around % text
    file = tmp_path / "manifest.yaml"
    file.write_text(text, encoding="utf-8")
    found = load([file])
    assert len(found.streams) + len(found.queries) == 1

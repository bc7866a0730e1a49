"""`python -m bench papers`: the reports, the document, and the page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from bench.papers.document import document
from bench.papers.page import page
from bench.papers.reports import reports


def papers(folder: Path, *, quick: bool, reuse: bool, say: Callable[[str], None]) -> list[str]:
    """Write `papers.json` and `index.html`; returns the benchmarks that failed."""
    found = reports(folder / "reports", quick=quick, reuse=reuse, say=say)
    made = json.dumps(document(found, quick=quick), indent=1, ensure_ascii=False)
    (folder / "papers.json").write_text(made + "\n")
    # What the file holds is shown, and nothing else.
    (folder / "index.html").write_text(page(json.loads(made)))
    return [name for name, report in found.items() if "status" in report]

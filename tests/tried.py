"""Queries that are tried as `vivace try` tries them."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.api.trying import AskedTry, try_query
from orchestrator.results.trying import TryDocument


def tried(query: str | None, *inputs: str, stdin: bytes = b"", **options: Any) -> TryDocument:
    """What a query gives."""
    return tried_on_pipe(query, *inputs, stdin=stdin, **options)[0]


def tried_on_pipe(
    query: str | None, *inputs: str, stdin: bytes = b"", **options: Any
) -> tuple[TryDocument, str]:
    """The same, and what it writes to standard output."""
    stdout = io.BytesIO()
    with tempfile.TemporaryFile() as pipe:
        pipe.write(stdin)
        pipe.seek(0)
        found = try_query(AskedTry(query=query, inputs=inputs, **options), pipe, stdout)
    return found, stdout.getvalue().decode()


def written(folder: Path, name: str, *lines: str) -> Path:
    """A file of lines."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path

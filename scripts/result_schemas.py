"""Writes the JSON schemas of what verbs and operations print, into `docs/schemas`.

They come from the records, so that documents and schemas cannot part ways: `python -m
scripts.result_schemas` rewrites them, and a unit test fails until that is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from orchestrator import api
from orchestrator.cli.config import KnownContext
from orchestrator.cli.support_bundle import SupportBundle
from orchestrator.operations.table import OPERATIONS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"

DIALECT = "https://json-schema.org/draft/2020-12/schema"

LOCAL: Mapping[str, Any] = {
    "bulk-coordinates": api.BulkEmbedding,
    "bulk-place": api.BulkPlacement,
    "config-list": list[KnownContext],
    "demo": api.Verdict,
    "down": api.DownDocument,
    "preflight": api.PreflightDocument,
    "render-compose": api.RenderDocument,
    "render-standalone": api.RenderDocument,
    "simulate": api.Campaign,
    "simulate-seed": api.TrialReport,
    "size": api.SizeDocument,
    "support-bundle": SupportBundle,
    "try": api.TryDocument,
    "up": api.UpDocument,
}
"""Verb → what it prints that is no operation's result."""

ERROR: dict[str, Any] = {
    "$schema": DIALECT,
    "title": "error",
    "description": "What a command prints, and the HTTP API responds, if it fails.",
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message", "exit_status"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "exit_status": {"type": "integer"},
                "file": {"type": "string"},
                "subject": {"type": "string"},
                "field": {"type": "string"},
                "problem": {"type": "string"},
                "remedy": {"type": "string"},
                "figures": {"type": "object"},
                "guessed": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}


def schemas() -> dict[str, dict[str, Any]]:
    """Schema by name."""
    found: dict[str, dict[str, Any]] = {"error": ERROR}
    for operation in OPERATIONS:
        told = {"title": operation.name, "description": operation.summary}
        found[operation.name] = {"$schema": DIALECT, **told, **schema_of(operation.result)}
    for name, kind in LOCAL.items():
        told = {"title": name, "description": f"What `vivace {name}` prints."}
        found[name] = {"$schema": DIALECT, **told, **schema_of(kind)}
    return found


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a type."""
    return msgspec.json.schema(kind, schema_hook=lambda _: {})


def written(schema: Mapping[str, Any]) -> str:
    """A schema as its file has it."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=1).decode() + "\n"


def main() -> None:
    """Bring the folder up to date."""
    FOLDER.mkdir(exist_ok=True)
    found = schemas()
    for path in FOLDER.glob("*.json"):
        if path.stem not in found:
            path.unlink()
    for name, schema in found.items():
        (FOLDER / f"{name}.json").write_text(written(schema), encoding="utf-8")


if __name__ == "__main__":
    main()

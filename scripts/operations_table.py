"""Writes the tables of operations in `docs/api.md`.

They come from `orchestrator.operations.table`, so that page and code cannot part ways: `python -m
scripts.operations_table` rewrites them in place, and a unit test fails until that is done.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from orchestrator.operations.operation import Manner
from orchestrator.operations.table import OPERATIONS
from orchestrator.web.openapi import PREFIX
from scripts.marked_tables import with_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "api.md"

_HOW = {Manner.DIRECT: "", Manner.LONG: "long", Manner.STREAM: "events"}


def table() -> str:
    """A row for each operation."""
    rows = ["| request | parameters | role | | what it does |", "| --- | --- | --- | --- | --- |"]
    for each in OPERATIONS:
        fields = [
            field.encode_name + ("" if field.required else "?")
            for field in msgspec.structs.fields(each.parameters)
            if field.encode_name not in each.path_fields
        ]
        given = ", ".join(f"`{name}`" for name in fields)
        request = f"`{each.method} {PREFIX}{each.path}`"
        rows.append(
            f"| {request} | {given} | {each.role.value} | {_HOW[each.manner]} | {each.summary} |"
        )
    return "\n".join(rows) + "\n"


def updated(page: str) -> str:
    """The page with the table as it should be."""
    return with_table(page, "operations", table())


def main() -> None:
    """Bring the page up to date."""
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

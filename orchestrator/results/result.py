"""What all results have in common."""

from __future__ import annotations

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all results: immutable, keyword-only, and a table in notebooks."""

    def _repr_html_(self) -> str:
        from orchestrator.records.html import html

        return html(self)

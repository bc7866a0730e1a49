"""Rows of JSON that Python has to look at, one after the other."""

from __future__ import annotations

from typing import Any

from orchestrator.edges.sources.formats.json_rows import read
from orchestrator.edges.sources.formats.row_form import RowForm

ROWS = 2000


class _Text(str):
    """Counts what is copied of it."""

    copied = 0

    def __getitem__(self, at: Any) -> str:
        part = super().__getitem__(at)
        _Text.copied += len(part)
        return part


class _Body(bytes):
    def decode(self, *_: Any, **__: Any) -> str:
        return _Text(super().decode())


def test_to_look_at_each_row_of_a_body_takes_no_more_than_a_few_times_its_size() -> None:
    # What stands in the text might be a row that is null: each row is looked at.
    body = _Body(b'{"s": "} null"}\n' + b'{"s": "a text"}\n' * ROWS)
    assert read(RowForm(columns={"s": "string"}), body, True).count == 1 + ROWS
    assert _Text.copied <= 10 * len(body)

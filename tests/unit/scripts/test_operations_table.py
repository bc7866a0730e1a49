"""The table of operations in the documentation."""

from __future__ import annotations

import pytest

from scripts import operations_table


def test_page_is_up_to_date() -> None:
    page = operations_table.PAGE.read_text(encoding="utf-8")
    assert operations_table.updated(page) == page, "run `python -m scripts.operations_table`"


def test_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="0 tables"):
        operations_table.updated("# The HTTP API\n")

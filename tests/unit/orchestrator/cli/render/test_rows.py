from __future__ import annotations

from orchestrator import api
from orchestrator.cli.render.rows import RowPrinter


def test_row_shows_its_event_timestamp_and_the_names_of_columns_come_once() -> None:
    printer = RowPrinter({"symbol": "string", "price": "float", "volume": "int"})
    values: dict[str, object] = {"symbol": "ACME", "price": 99.125, "volume": None}
    row = api.TailRow(seq=7, timestamp_ms=1_700_000_000_250, values=values)
    head, first = printer.line(row).split("\n")
    assert head.split() == ["seq", "time", "symbol", "price", "volume"]
    assert first.split() == ["7", "2023-11-14", "22:13:20.250", "ACME", "99.125", "–"]
    assert printer.line(row) == first

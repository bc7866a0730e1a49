"""Two sites get a topic's messages in different portions, and must read the same rows of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.edges.sources.formats.row_form import Format, RowForm
from orchestrator.edges.sources.kafka import PartitionReader


class Message:
    def __init__(self, offset: int, value: bytes) -> None:
        self._offset, self._value = offset, value

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int:
        return self._offset

    def partition(self) -> int:
        return 3

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000 + self._offset


@pytest.mark.parametrize(
    "values", [[b"x", b" "], [b"x", b"\xef\xbb\xbfy"], [b"x", b'"a', b"b"], [b'"', b'"']]
)
def test_a_message_is_the_same_row_alone_and_with_others(values: list[bytes]) -> None:
    refused: list[bytes] = []

    def refuse(value: bytes, reason: str) -> None:
        refused.append(value)
        places = [f"partition 3, offset {n}: " for n, each in enumerate(values) if each == value]
        assert reason.startswith(tuple(places))

    def ignore(_: object) -> None:
        pass

    reader: Any = object.__new__(PartitionReader)
    reader._form = RowForm(columns={"name": "string"})
    reader._options = SimpleNamespace(format=Format.CSV, message_time=True)
    reader._input = SimpleNamespace(rejections=SimpleNamespace(malformed=refuse, ignored=ignore))
    messages = [Message(n, value) for n, value in enumerate(values)]
    together = reader._rows(messages)[0].to_pylist()
    refused_together, refused[:] = list(refused), []
    alone = [row for each in messages for row in reader._rows([each])[0].to_pylist()]
    assert (together, refused_together) == (alone, refused)

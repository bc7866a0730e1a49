"""Fields that older readers must not overlook: what a record needs, and what readers get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from orchestrator.records.base import Record
from orchestrator.store.protocol import encode


class Part(Record, frozen=True, kw_only=True):
    later: ClassVar[Mapping[str, int]] = {"colour": 3}
    name: str
    colour: str = "grey"


class Whole(Record, frozen=True, kw_only=True):
    later: ClassVar[Mapping[str, int]] = {"urgent": 2, "notes": 4}
    first: int
    urgent: bool = False
    notes: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = msgspec.field(default_factory=dict[str, Part])
    overlooked: int = 7


PLAIN = Whole(first=1, parts=(Part(name="a"),), overlooked=8)


def test_a_record_needs_what_its_later_fields_need_that_are_set() -> None:
    assert PLAIN.needs == 1
    assert msgspec.structs.replace(PLAIN, urgent=True).needs == 2
    assert msgspec.structs.replace(PLAIN, urgent=True, notes=("x",)).needs == 4
    assert msgspec.structs.replace(PLAIN, urgent=False, notes=()).needs == 1


def test_a_record_needs_what_records_within_it_need() -> None:
    red = Part(name="b", colour="red")
    assert msgspec.structs.replace(PLAIN, parts=(Part(name="a"), red)).needs == 3
    assert msgspec.structs.replace(PLAIN, named={"b": red}).needs == 3


def test_what_an_older_reader_gets_has_the_defaults_of_later_fields() -> None:
    red = Part(name="b", colour="red")
    full = Whole(first=1, urgent=True, notes=("x",), parts=(red,), named={"b": red}, overlooked=8)
    assert full.as_read_by(4) is full
    assert full.as_read_by(3) == msgspec.structs.replace(full, notes=())
    grey = Part(name="b")
    third = msgspec.structs.replace(full, notes=(), parts=(grey,), named={"b": grey})
    assert full.as_read_by(2) == third
    assert full.as_read_by(1) == msgspec.structs.replace(third, urgent=False)
    assert full.as_read_by(1).needs == 1


def test_the_store_keeps_what_a_record_needs() -> None:
    assert b'"needs"' not in encode(PLAIN)
    assert encode(msgspec.structs.replace(PLAIN, urgent=True)).endswith(b',"needs":2}')

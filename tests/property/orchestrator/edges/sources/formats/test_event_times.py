"""A timestamp is the same in whatever form it comes, and is rounded towards the past."""

from __future__ import annotations

import io
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import ipc

from orchestrator.edges.sources.formats.formats import parse
from orchestrator.edges.sources.formats.row_form import Format, RowForm

SECOND_MS = {"s": 1000, "ms": 1, "us": Fraction(1, 1000), "ns": Fraction(1, 1_000_000)}
"""Milliseconds of a unit."""

FARTHEST_S = 10**11
"""Some three thousand years."""


def arrow(column: pa.Array) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"at": column})
    writer = ipc.new_stream(sink, table.schema)
    writer.write_table(table)
    writer.close()
    return sink.getvalue()


def read(written: str, form: Format, body: bytes, columns: dict[str, str]) -> list[int]:
    rows = RowForm(columns=columns, time_column="at", time_format=written)
    return parse(rows, form, body).column(0).to_pylist()


def _sum(whole: int, fraction: Decimal) -> Decimal:
    return whole + fraction


@st.composite
def numbers(draw: st.DrawFn) -> tuple[str, list[Decimal]]:
    """A unit, and numbers of it with any fraction, many of them a little before a millisecond."""
    unit = draw(st.sampled_from(list(SECOND_MS)))
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    whole = st.integers(-FARTHEST_S * 10**digits, FARTHEST_S * 10**digits)
    fraction = st.integers(0, 18).flatmap(
        lambda places: st.integers(0, 10**places - 1).map(lambda n: Decimal(n).scaleb(-places))
    )
    near = st.sampled_from([Decimal("0.001"), Decimal("0.999"), Decimal("0.9999999"), Decimal(0)])
    number = st.builds(_sum, whole, st.one_of(fraction, near))
    small = st.builds(_sum, st.integers(-3, 3), near)
    return unit, draw(st.lists(st.one_of(number, small), min_size=1, max_size=5))


@given(numbers())
def test_a_number_counts_as_its_digits_say(drawn: tuple[str, list[Decimal]]) -> None:
    unit, stamps = drawn
    expected = [math.floor(Fraction(stamp) * SECOND_MS[unit]) for stamp in stamps]
    texts = [f"{stamp:f}" for stamp in stamps]
    bodies = {
        Format.CSV: "at\n" + "\n".join(texts),
        Format.JSON: "\n".join(f'{{"at": {text}}}' for text in texts),
    }
    for form, body in bodies.items():
        for columns in ({}, {"at": "float"}):
            if columns or form is Format.JSON or len(texts) > 1:
                assert read(unit, form, body.encode(), columns) == expected
    quoted = "\n".join(f'{{"at": "{text}"}}' for text in texts)
    assert read(unit, Format.JSON, quoted.encode(), {}) == expected
    assert read(unit, Format.JSON, quoted.encode(), {"at": "string"}) == expected
    decimals = pa.array(stamps, pa.decimal256(76, 38))
    assert read(unit, Format.ARROW, arrow(decimals), {}) == expected


@pytest.mark.parametrize("unit", SECOND_MS)
@given(st.lists(st.floats(-1e12, 1e12, allow_nan=False), min_size=1, max_size=5))
def test_a_float_counts_as_its_shortest_digits_say(unit: str, stamps: list[float]) -> None:
    rounded = [*stamps, *(round(stamp, 3) for stamp in stamps)]
    expected = [math.floor(Fraction(repr(stamp)) * SECOND_MS[unit]) for stamp in rounded]
    assert read(unit, Format.ARROW, arrow(pa.array(rounded)), {}) == expected
    # Beside one that has no thousandths, digits are written.
    thousandths = [round(stamp, 3) for stamp in stamps]
    together = read(unit, Format.ARROW, arrow(pa.array([*thousandths, 9.1e15])), {})
    assert together[:-1] == expected[len(stamps) :]


@pytest.mark.parametrize("unit", SECOND_MS)
@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=5))
def test_whole_numbers_and_timestamps_of_a_unit_are_the_same(unit: str, stamps: list[int]) -> None:
    expected = [math.floor(stamp * SECOND_MS[unit]) for stamp in stamps]
    for column in (pa.array(stamps), pa.array(stamps).cast(pa.timestamp(unit, "UTC"))):
        assert read(unit, Format.ARROW, arrow(column), {}) == expected
    csv = "at\n" + "\n".join(map(str, stamps))
    assert read(unit, Format.CSV, csv.encode(), {}) == expected


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.integers(0, 999))
def test_an_iso_timestamp_is_the_same_with_and_without_a_zone(moment: datetime, ns: int) -> None:
    text = f"{moment.isoformat(timespec='microseconds')}{ns:03d}"
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = [since // timedelta(milliseconds=1)]
    for written in (text, f"{text}Z", f"{text}+00:00"):
        assert read("iso", Format.CSV, f"at\n{written}".encode(), {}) == expected
        assert read("iso", Format.JSON, f'{{"at": "{written}"}}'.encode(), {}) == expected
    assert read("iso", Format.ARROW, arrow(pa.array([moment])), {}) == expected


def test_a_date_is_its_beginning() -> None:
    for kind in (pa.date32(), pa.date64()):
        column = pa.array([datetime(1969, 12, 31).date()], kind)
        assert read("iso", Format.ARROW, arrow(column), {}) == [-86_400_000]

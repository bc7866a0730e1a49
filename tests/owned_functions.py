"""Functions as an owner of queries writes them; tests name them as entry points would."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from streams.expressions import owned


@owned.owned(arguments=["float"], result="float", cost=2)
def fahrenheit(celsius: pa.Array) -> pa.Array:
    """A temperature; NULL of NULL."""
    return pc.add(pc.multiply(celsius, 1.8), 32.0)


@owned.owned(arguments=["string", "int"], result="string")
def labelled(name: pa.Array, number: pa.Array) -> pa.Array:
    """A name with a number; `?` for what is NULL."""
    words = pc.fill_null(name, "?"), pc.fill_null(pc.cast(number, pa.string()), "?")
    return pc.binary_join_element_wise(*words, "-")


@owned.owned(arguments=["float"], result="int")
def too_short(values: pa.Array) -> pa.Array:
    """Gives no result for the last row."""
    return pc.cast(values, pa.int64(), safe=False)[:-1]


@owned.owned(arguments=["float"], result="int")
def of_another_type(values: pa.Array) -> pa.Array:
    """Gives floats."""
    return values


@owned.owned(arguments=["int"], result="float")
def reciprocal(values: pa.Array) -> pa.Array:
    """Infinite for 0, and −0.0 for no int."""
    return pc.divide(1.0, pc.cast(values, pa.float64()))


no_function = "neither declared nor callable"


def install(monkeypatch: pytest.MonkeyPatch, *names: str, **others: str) -> None:
    """Have functions of this module installed: by their names, or `name=value` as entry points."""
    values = {name: f"tests.owned_functions:{name}" for name in names} | others
    entries = {n: EntryPoint(n, value, owned.GROUP) for n, value in values.items()}
    monkeypatch.setattr(owned, "installed", lambda: entries)
    owned.load.cache_clear()

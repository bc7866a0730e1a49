"""Functions that an owner of queries writes in Python and installs on every host.

An installed package names them as entry points, and statements call them as they call others:

    [project.entry-points."vivace.functions"]
    wind_chill = "my_package.weather:wind_chill"

A function takes Arrow arrays of one length, in which NULLs are nulls, and gives an array of that
length. It must be pure: a row's result depends on this row's arguments only, and is the same to the
bit on every host, since a query's two replicas and whoever verifies its results evaluate it
independently. It is code of its owner, which hosts run as they run Vivace.

Hosts tell functions apart by a fingerprint of their code: that of all modules of the package in
which they are defined. What these import from elsewhere is not part of it.
"""

from __future__ import annotations

import hashlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from foundation.arrays import BoolArray
from streams.expressions.functions import Function, functions
from streams.vectors.chunk import type_names
from streams.vectors.vector import Array, Vector, fillers, storage

GROUP = "vivace.functions"
"""The group of their entry points."""

Compute = Callable[..., "pa.Array | pa.ChunkedArray"]


class FunctionError(Exception):
    """A function that is installed cannot be used, or gave what it must not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedFunction:
    """A function that is no part of Vivace.

    Attributes
    ----------
    arguments
        Types of its arguments: "int", "float", "string" or "bool". An int is given as a float where
        that is asked for.
    result
        Type of its result. Floats that are infinite or not a number count as NULL.
    compute
        Arrow arrays of one length in, such an array out.
    cost
        Relative cost of one element, > 0; an addition is 1.
    """

    arguments: tuple[str, ...]
    result: str
    compute: Compute
    cost: float = 10.0

    @property
    def fingerprint(self) -> str:
        """What tells its code apart: 16 hexadecimal digits of a SHA-256."""
        return fingerprint_of(getattr(self.compute, "__module__", ""))


def owned(
    *, arguments: Sequence[str], result: str, cost: float = 10.0
) -> Callable[[Compute], OwnedFunction]:
    """Declare a function that an entry point may name.

    Raises
    ------
    ValueError
        A type is none of the query language, there is no argument, or the cost is not > 0.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> @owned(arguments=["float"], result="float", cost=2)
    ... def fahrenheit(celsius):
    ...     return pc.add(pc.multiply(celsius, 1.8), 32.0)
    >>> fahrenheit.result
    'float'
    """
    for kind in (*arguments, result):
        if kind not in type_names:
            raise ValueError(f"type {kind!r} is none of {', '.join(type_names)}")
    if not arguments:
        raise ValueError("a function takes one argument or more")
    if not cost > 0:
        raise ValueError(f"cost {cost} is not > 0")
    return lambda compute: OwnedFunction(
        arguments=tuple(arguments), result=result, compute=compute, cost=cost
    )


def known_function(name: str) -> Function | None:
    """A function of the language, or else one that is installed; None if there is neither.

    Raises
    ------
    FunctionError
        It is installed, and cannot be used.
    """
    found = functions.get(name)
    return found if found is not None or name not in installed() else _as_function(name)


def function_of(name: str) -> Function:
    """As `known_function`, for a name that is known."""
    found = known_function(name)
    assert found is not None, name
    return found


def owned_names() -> tuple[str, ...]:
    """The functions that are installed, those that the language has itself left out."""
    return tuple(sorted(installed().keys() - functions.keys()))


def fingerprints(names: Iterable[str]) -> dict[str, str]:
    """Fingerprints of those functions among these that are installed, by name."""
    ours = frozenset(owned_names())
    return {name: load(name).fingerprint for name in sorted({*names} & ours)}


@cache
def load(name: str) -> OwnedFunction:
    """An installed function.

    Raises
    ------
    FunctionError
        Naming its entry point, and what is wrong.
    """
    entry = installed()[name]
    told = f"function {name} ({entry.value})"
    try:
        found = entry.load()
    except Exception as error:
        raise FunctionError(f"{told} cannot be imported: {error}") from error
    if not isinstance(found, OwnedFunction):
        raise FunctionError(f"{told} is no function declared by `streams.expressions.owned.owned`")
    found.fingerprint  # noqa: B018  One whose code cannot be told apart cannot be used.
    return found


@cache
def installed() -> Mapping[str, EntryPoint]:
    """Entry points by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _as_function(name: str) -> Function:
    found = load(name)
    wanted = found.arguments

    def result(kinds: Sequence[str]) -> str | None:
        fits = len(kinds) == len(wanted) and all(
            kind == asked or (kind, asked) == ("int", "float")
            for kind, asked in zip(kinds, wanted, strict=True)
        )
        return found.result if fits else None

    return Function(
        takes=", ".join(wanted),
        arguments=len(wanted),
        result=result,
        compute=lambda arguments: _applied(name, found, arguments),
        cost=found.cost,
    )


def _applied(name: str, function: OwnedFunction, arguments: Sequence[Vector]) -> Vector:
    shapes = [part.shape for each in arguments for part in each if part is not None]
    shape = np.broadcast_shapes(*shapes)
    given = [
        _arrow(each, kind, shape) for each, kind in zip(arguments, function.arguments, strict=True)
    ]
    found = checked(name, function, len(given[0]), function.compute(*given))
    valid: BoolArray | None = None
    if found.null_count:
        valid = np.asarray(found.is_valid().to_numpy(zero_copy_only=False)).reshape(shape)
        found = found.fill_null(fillers[function.result])
    values: Array = found.to_numpy(zero_copy_only=False).astype(storage[function.result])
    return Vector(values.reshape(shape), valid)


def checked(name: str, function: OwnedFunction, length: int, found: object) -> pa.Array:
    """What a function gave, if it is an array as it has to be."""
    wanted = type_names[function.result]
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    if not isinstance(found, pa.Array):
        raise FunctionError(f"{name} gave a {type(found).__name__}, not an Arrow array")
    if found.type != wanted or len(found) != length:
        told = f"{len(found)} values of type {found.type}"
        raise FunctionError(f"{name} gave {told}, not {length} of type {wanted}")
    return found


def _arrow(vector: Vector, kind: str, shape: tuple[int, ...]) -> pa.Array:
    values = np.broadcast_to(vector.values, shape).ravel().astype(storage[kind])
    nulls = None
    if vector.valid is not None:
        nulls = ~np.broadcast_to(vector.valid, shape).ravel()
    return pa.array(values, type=type_names[kind], mask=nulls)


@cache
def fingerprint_of(module: str) -> str:
    """Of the code of a module's package: names and texts of all its modules."""
    made = hashlib.sha256()
    for name, text in sorted(_sources(_package_of(module))):
        made.update(f"{name}\0{text}\0".encode())
    return made.hexdigest()[:16]


def _package_of(module: str) -> ModuleSpec:
    """The outermost package that a module lies in and that is no mere namespace, or the module."""
    name, *inner = module.split(".")
    spec = find_spec(name)
    while spec is not None and spec.loader is None and inner:
        name = f"{name}.{inner.pop(0)}"
        spec = PathFinder.find_spec(name, spec.submodule_search_locations)
    if spec is None:
        raise FunctionError(f"module {name} is not found, so its code cannot be told apart")
    return spec


def _sources(spec: ModuleSpec) -> Iterator[tuple[str, str]]:
    """Names and texts of a module and of all that lie below it, none of which is imported."""
    # Loaders from folders and from archives have it; the base class does not say so.
    get_source: Callable[[str], str | None] | None = getattr(spec.loader, "get_source", None)
    text = None if get_source is None else get_source(spec.name)
    if text is None:
        raise FunctionError(f"module {spec.name} has no source, so its code cannot be told apart")
    yield spec.name, text
    below = spec.submodule_search_locations or ()
    for found in pkgutil.iter_modules(below):
        if (inner := PathFinder.find_spec(f"{spec.name}.{found.name}", below)) is not None:
            yield from _sources(inner)

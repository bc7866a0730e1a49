"""Digests of what the query language computes, to compare between processors.

`python -m tests.same_bits` prints the processor features that numpy uses, then one line for each
function and statement.
"""

from __future__ import annotations

import sys
import zlib
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from streams.evaluate.engine import FragmentEngine
from streams.expressions.functions import functions
from streams.language import parse
from streams.plan.compiler import compile_statement
from streams.vectors.chunk import Chunk, stream_schema
from streams.vectors.vector import Array, Vector, known_of, storage

STATEMENTS = {
    "aggregates": (
        "ISTREAM(SELECT k, sum(x) AS t, avg(x * y) AS a, min(x) AS l, max(y) AS h, count(*) AS n "
        "FROM s [ROWS 300] GROUP BY k)"
    ),
    "distance": (
        "ISTREAM(SELECT a.k AS k, a.i AS i, b.i AS j FROM s [ROWS 40] AS a, s [ROWS 40] AS b "
        "WHERE power(60 * (a.x - b.x), 2) + power(60 * cos(radians(a.x)) * (a.y - b.y), 2) < 9000 "
        "AND a.i < b.i)"
    ),
    "stateless": "RSTREAM(SELECT sin(x) / power(y, 0.3) AS q, i % 7 / x AS r FROM s [NOW])",
}
LITERALS: dict[str, list[Any]] = {"regexp_extract": ["a(b?)", 1]}
"""Function → arguments after the first that are the same for every tuple."""

columns = {"k": "string", "i": "int", "x": "float", "y": "float"}


def samples(kind: str, count: int) -> Array:
    """Edge values, and at least `count` random values, of a type."""
    rng = np.random.default_rng(7)
    if kind == "string":
        return np.array(["", "a", "ab", "b", "ç"] * (count // 5), dtype=np.object_)
    if kind == "bool":
        return np.array([True, False] * (count // 2))
    if kind == "int":
        edges = [0, 1, -1, 2, -2, 3, 7, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
        return np.concatenate([edges, rng.integers(-100, 100, count)]).astype(np.int64)
    edges = [0.0, 0.5, 1.0, 2.0, 2.5, 1e16, 2.0**53 + 2, 2.0**63, 1e22, 1e308, 5e-324, 2.3e-308]
    near = [np.nextafter(value, 0) for value in edges]
    signed = np.array([*edges, *near, np.pi / 2, np.pi])
    # Made by exact operations only, so that the samples do not depend on the processor.
    random = np.concatenate([rng.uniform(-2, 2, count // 2), rng.uniform(-90, 90, count // 2)])
    scaled = np.ldexp(rng.uniform(1, 2, count), rng.integers(-60, 60, count))
    return np.concatenate([signed, -signed, random, scaled])


def digest(vector: Vector) -> int:
    """Checksum of values and NULLs."""
    values, known = np.broadcast_arrays(vector.values, known_of(vector))
    if values.dtype == np.float64:
        known = known & np.isfinite(values)
    shown = values[known]
    data = repr(shown.tolist()).encode() if shown.dtype == np.object_ else shown.tobytes()
    return zlib.crc32(known.tobytes(), zlib.crc32(data))


def function_digests() -> list[tuple[str, int]]:
    """Every function on every combination of types that it takes."""
    found: list[tuple[str, int]] = []
    for name, function in functions.items():
        for kinds in product(storage, repeat=function.arguments):
            if function.result(kinds) is None:
                continue
            if name in LITERALS:
                literals = [np.array(value) for value in LITERALS[name]]
                result = function.compute(
                    [Vector(v, None) for v in (samples(kinds[0], 5000), *literals)]
                )
                found.append((f"{name}({', '.join(kinds)})", digest(result)))
                continue
            # One argument: a column; two: a table.
            first, *others = [samples(kind, 100 if len(kinds) > 1 else 5000) for kind in kinds]
            shortest = min(map(len, others), default=0)
            shapes = [first[:, None] if others else first, *(one[:shortest] for one in others)]
            result = function.compute([Vector(values, None) for values in shapes])
            found.append((f"{name}({', '.join(kinds)})", digest(result)))
    return found


def statement_digests() -> list[tuple[str, int]]:
    """Statements on random tuples."""
    rng = np.random.default_rng(11)
    count = 1500
    rows: dict[str, Any] = {
        "_ts": np.arange(count) // 3,
        "k": [f"k{number}" for number in rng.integers(0, 5, count).tolist()],
        "i": np.arange(count),
        "x": rng.uniform(40, 56, count),
        "y": np.ldexp(rng.uniform(1, 2, count), rng.integers(-9, 9, count)),
    }
    batch = pa.RecordBatch.from_pydict(rows, schema=stream_schema(columns))
    watermarks_ms = np.unique(rows["_ts"])
    chunk = Chunk(
        first_seq=0, rows=batch, watermarks_ms=watermarks_ms, ingestion_times_us=watermarks_ms
    )
    found: list[tuple[str, int]] = []
    for name, text in STATEMENTS.items():
        (statement,) = parse(f"REGISTER QUERY q {text};")
        engine = FragmentEngine(compile_statement(statement, {"s": columns}))
        engine.offer("s", chunk)
        evaluated = engine.advance(count)
        assert evaluated is not None
        assert evaluated.rows.num_rows
        found.append((name, zlib.crc32(evaluated.rows.serialize().to_pybytes())))
    return found


def main() -> None:
    """Print the digests."""
    lines = [" ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))]
    with np.errstate(all="ignore"):
        for name, value in [*function_digests(), *statement_digests()]:
            lines.append(f"{name} {value:08x}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

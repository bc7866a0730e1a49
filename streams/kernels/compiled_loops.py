"""Kernels whose Python is a loop as numba wants it, compiled as it stands.

`streams.kernels.compiled` says how kernels are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import types

from streams.kernels import contender_loops, row_loops, session_loops
from streams.kernels.machine_code import kernel

_Loop = TypeVar("_Loop", bound=Callable[..., Any])

_codes = types.Array(types.int32, 1, "C")
_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_table = types.Array(types.int64, 2, "C")
_flags = types.Array(types.boolean, 1, "C")
_read_flags = types.Array(types.boolean, 1, "C", readonly=True)
_int = types.int64
_two = types.Tuple((types.int64, types.int64))
_three = types.Tuple((types.int64, types.int64, types.int64))


def _compiled(signature: Any, loop: _Loop) -> _Loop:
    return kernel(signature, nogil=True)(loop)


newest_rows = _compiled(
    _two(_codes, _read_ints, _int, _ints, _ints, _ints, _flags, _ints, _ints, _ints),
    row_loops.newest_rows,
)
chain_rows = _compiled(
    types.void(
        *(_codes, _read_ints, _read_ints, _codes, _read_ints, _read_ints),
        *(_codes, _codes, _codes),
    ),
    row_loops.chain_rows,
)
fill_pairs = _compiled(_three(_codes, _codes, _int, _int, _ints, _ints), row_loops.fill_pairs)
link_rows = _compiled(types.void(_codes, _int, _codes, _codes, _codes), row_loops.link_rows)
fill_pairs_until = _compiled(
    _three(_codes, _codes, _ints, _read_ints, _int, _int, _ints, _ints),
    row_loops.fill_pairs_until,
)
extend_sessions = _compiled(
    _int(
        *(_read_codes, _read_ints, _read_flags, _int, _int),
        *(_table, _codes, _ints, _codes, _int, _codes),
    ),
    session_loops.extend_sessions,
)
end_sessions = _compiled(_int(_int, _table, _codes, _ints, _codes), session_loops.end_sessions)
keep_contenders = _compiled(
    _int(
        *(_read_ints, _read_codes, _read_flags, _read_ints, _read_ints, _read_ints),
        *(_read_flags, types.boolean, _table, _table, _ints, _int, _ints, _flags),
    ),
    contender_loops.keep_contenders,
)

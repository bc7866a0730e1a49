"""The kernel that keeps lists of contenders, compiled by numba.

Its Python is a loop as numba wants it, so it is compiled as it stands. `streams.kernels.compiled`
says how kernels are compiled.
"""

from __future__ import annotations

from numba import njit, types

from streams.kernels import reference_contenders

_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_table = types.Array(types.int64, 2, "C")
_flags = types.Array(types.boolean, 1, "C")
_read_flags = types.Array(types.boolean, 1, "C", readonly=True)
_int = types.int64

keep_contenders = njit(
    [
        _int(
            *(_read_ints, _read_codes, _read_flags, _read_ints, _read_ints, _read_ints),
            *(_read_flags, types.boolean, _table, _table, _ints, _int, _ints, _flags),
        )
    ],
    cache=True,
    nogil=True,
)(reference_contenders.keep_contenders)

"""The kernels that keep open sessions, compiled by numba.

Their Python is a loop as numba wants it, so it is compiled as it stands. `streams.kernels.compiled`
says how kernels are compiled.
"""

from __future__ import annotations

from numba import njit, types

from streams.kernels import reference_sessions

_codes = types.Array(types.int32, 1, "C")
_read_codes = types.Array(types.int32, 1, "C", readonly=True)
_ints = types.Array(types.int64, 1, "C")
_read_ints = types.Array(types.int64, 1, "C", readonly=True)
_table = types.Array(types.int64, 2, "C")
_read_flags = types.Array(types.boolean, 1, "C", readonly=True)
_int = types.int64

extend_sessions = njit(
    [
        _int(
            *(_read_codes, _read_ints, _read_flags, _int, _int),
            *(_table, _codes, _ints, _codes, _int, _codes),
        )
    ],
    cache=True,
    nogil=True,
)(reference_sessions.extend_sessions)

end_sessions = njit([_int(_int, _table, _codes, _ints, _codes)], cache=True, nogil=True)(
    reference_sessions.end_sessions
)

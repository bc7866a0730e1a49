"""Compiles kernels, and finds the machine code of those that have been compiled before.

numba keeps machine code, but it looks only in folders that it may write to: the one beside the
source, or else one in the user's home. Where an installation is read-only, as in a container, it
would neither find what was made at build time nor be able to go on. So machine code is always
looked for beside the source, and kept there if that is possible. Only the variable
`NUMBA_CACHE_DIR` names another place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from numba import njit
from numba.core import config
from numba.core.caching import InTreeCacheLocator

_Loop = TypeVar("_Loop", bound=Callable[..., Any])


class BesideSource(InTreeCacheLocator):
    """The folder beside a kernel's source, be it read-only."""

    def get_source_stamp(self) -> tuple[float, int]:
        """What tells sources apart: of a package of kernels that call each other, all of them."""
        own = Path(self._py_file)
        if own.parent.name != "loops":
            return super().get_source_stamp()
        stats = [each.stat() for each in sorted(own.parent.glob("*.py"))]
        return max(each.st_mtime for each in stats), sum(each.st_size for each in stats)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> Self:
        """Where machine code of a function is."""
        return cls(py_func, py_file)


def kernel(
    signature: Any, *, nogil: bool = False, inline: str = "never"
) -> Callable[[_Loop], _Loop]:
    """Has numba compile a function, unless its machine code is there, for one signature."""

    def compiled(loop: _Loop) -> _Loop:
        with _beside_source():
            try:
                return njit([signature], cache=True, nogil=nogil, inline=inline)(loop)
            except OSError:
                # Its machine code is not there, and cannot be kept.
                return njit([signature], nogil=nogil, inline=inline)(loop)

    return compiled


@contextmanager
def _beside_source() -> Generator[None]:
    usual = config.CACHE_LOCATOR_CLASSES
    config.CACHE_LOCATOR_CLASSES = f"UserProvidedCacheLocator,{__name__}.{BesideSource.__name__}"
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = usual

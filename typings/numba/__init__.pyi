"""The part of numba that is used. A compiled function has the type of the one it is made of."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numba import types as types

_F = TypeVar("_F", bound=Callable[..., Any])

def njit(
    signature: Sequence[Any], /, *, cache: bool = ..., nogil: bool = ..., inline: str = ...
) -> Callable[[_F], _F]: ...

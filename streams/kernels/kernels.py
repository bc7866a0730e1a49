"""Which implementation of the kernels is in use: numpy's until numba's have been loaded.

Loading takes a second or two of processor time, and some fifty if the machine code is not on disk
yet. A host must not stand still that long. Both implementations give the same bits, so a process
may go over from one to the other at any time: it loads the compiled ones when a statement asks for
kernels (`wanted`), on a thread of its own.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from streams.kernels import reference


class _InUse:
    """The kernels of this process."""

    def __init__(self) -> None:
        self.module: ModuleType = reference
        self.wanted = False


in_use = _InUse()


def current() -> ModuleType:
    """The module with the kernels: `streams.kernels.reference`, or `streams.kernels.compiled`."""
    return in_use.module


def want() -> None:
    """Note that this process evaluates a statement by panes."""
    in_use.wanted = True


def loaded() -> bool:
    """Whether the compiled kernels are in use."""
    return in_use.module is not reference


def missing() -> bool:
    """Whether a statement asked for kernels, and the compiled ones have not been loaded."""
    return in_use.wanted and in_use.module is reference


def load() -> bool:
    """Go over to the compiled kernels; whether there are any on this machine."""
    try:
        in_use.module = importlib.import_module("streams.kernels.compiled")
    except ImportError:
        in_use.wanted = False
        return False
    return True


def use(module: ModuleType) -> None:
    """Use these kernels, for tests that compare both."""
    in_use.module = module

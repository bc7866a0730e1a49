"""Which implementation of the kernels is in use: numpy's until numba's have been loaded.

Loading takes a second or two of processor time, and some fifty if the machine code is not on disk
yet. A host must not stand still that long. Both implementations give the same bits, so a process
may go over from one to the other at any time: it loads the compiled ones when a statement asks for
kernels (`want`), on a thread of its own. Those of the loop machine take half a second more. Only
what has a loop asks for them; there are none in numpy.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from streams.kernels import reference


class _InUse:
    """The kernels of this process."""

    def __init__(self) -> None:
        self.module: ModuleType = reference
        self.loops: ModuleType | None = None
        self.wanted = self.loops_wanted = False


in_use = _InUse()


def current() -> ModuleType:
    """The module with the kernels: `streams.kernels.reference`, or `streams.kernels.compiled`."""
    return in_use.module


def loops() -> ModuleType:
    """The module with the kernels of the loop machine, which have been loaded."""
    assert in_use.loops is not None
    return in_use.loops


def want(*, loops: bool = False) -> None:
    """Note that this process evaluates a statement with kernels, or with those of loops too."""
    in_use.wanted = True
    in_use.loops_wanted |= loops


def loaded() -> bool:
    """Whether the compiled kernels are in use."""
    return in_use.module is not reference


def loops_loaded() -> bool:
    """Whether those of the loop machine are in use, too."""
    return loaded() and in_use.loops is not None


def missing() -> bool:
    """Whether a statement asked for kernels, and the compiled ones have not been loaded."""
    return (in_use.wanted and not loaded()) or (in_use.loops_wanted and not loops_loaded())


def load(*, loops: bool = False) -> bool:
    """Go over to the compiled kernels; whether there are any on this machine.

    Parameters
    ----------
    loops
        Load those of the loop machine even if no statement asked for them.
    """
    try:
        in_use.module = importlib.import_module("streams.kernels.compiled")
        if loops or in_use.loops_wanted:
            in_use.loops = importlib.import_module("streams.kernels.loops.compiled")
    except ImportError:
        in_use.wanted = in_use.loops_wanted = False
        return False
    return True


def use(module: ModuleType) -> None:
    """Use these kernels, for tests that compare both."""
    in_use.module = module

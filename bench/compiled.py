"""Compiled kernels, without which figures would be those of their reference implementations."""

from streams.kernels import kernels


def require_kernels() -> None:
    """Go over to the compiled kernels.

    Raises
    ------
    RuntimeError
        There are none on this machine.
    """
    if not kernels.load(loops=True):
        raise RuntimeError("numba cannot be imported: the figures would be those of Python's loops")

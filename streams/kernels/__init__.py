"""Loops over arrays (*kernels*), and the codes of keys that they work on.

`kernels.py` says which of two implementations is in use: `compiled.py` (numba), or `reference.py`
(numpy and Python), which gives the same bits.
"""

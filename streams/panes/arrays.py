"""Types of the arrays that kernels work on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
"""Codes of groups, and places of groups in a pane; -1 for none."""

Bits = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

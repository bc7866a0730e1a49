"""What this project uses of scikit-learn's manifold learning, which ships without types."""

import numpy as np
import numpy.typing as npt

class ClassicalMDS:
    def __init__(self, n_components: int = ..., *, metric: str = ...) -> None: ...
    def fit_transform(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]: ...

def smacof(
    dissimilarities: npt.NDArray[np.float64],
    *,
    n_components: int = ...,
    init: npt.NDArray[np.float64] | None = ...,
    n_init: int = ...,
    max_iter: int = ...,
    eps: float = ...,
    normalized_stress: bool = ...,
) -> tuple[npt.NDArray[np.float64], float]: ...

"""What this project uses of scikit-learn's clustering, which ships without types."""

import numpy as np
import numpy.typing as npt

class MiniBatchKMeans:
    cluster_centers_: npt.NDArray[np.float64]
    def __init__(
        self,
        n_clusters: int = ...,
        *,
        batch_size: int = ...,
        max_iter: int = ...,
        n_init: int = ...,
        random_state: int | None = ...,
    ) -> None: ...
    def fit(self, X: npt.NDArray[np.float64]) -> MiniBatchKMeans: ...

"""What is used of threadpoolctl."""

from types import TracebackType

class threadpool_limits:
    def __init__(self, limits: int | None = None) -> None: ...
    def __enter__(self) -> threadpool_limits: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

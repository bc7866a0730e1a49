from collections.abc import Callable
from typing import Any

class InTreeCacheLocator:
    def __init__(self, py_func: Callable[..., Any], py_file: str) -> None: ...
    _py_file: str
    def get_source_stamp(self) -> tuple[float, int]: ...

"""The part of TopoHub that Vivace uses; the package has no annotations."""

from typing import Any

def get(key: str, use_names: bool = False) -> dict[str, Any]: ...

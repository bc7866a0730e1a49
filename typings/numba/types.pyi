"""Types of arguments."""

from typing import Any

class Type:
    def __call__(self, *arguments: Type) -> Any: ...

class Array(Type):
    def __init__(self, dtype: Type, ndim: int, layout: str, readonly: bool = ...) -> None: ...

class Tuple(Type):
    def __init__(self, types: tuple[Type, ...]) -> None: ...

uint8: Type
int32: Type
int64: Type
uint64: Type
float64: Type
boolean: Type
void: Type

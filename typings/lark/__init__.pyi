"""The part of lark that Vivace uses; its own annotations leave generic types open."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from lark.tree import Tree as Tree

Returned = TypeVar("Returned")
Leaf = TypeVar("Leaf")
Method = TypeVar("Method", bound=Callable[..., Any] | type)

class Token(str):
    type: str
    start_pos: int | None
    end_pos: int | None
    @classmethod
    def new_borrow_pos(cls, type_: str, value: str, borrow_t: Token) -> Token: ...

class Lark:
    def __init__(
        self,
        grammar: str,
        *,
        parser: str = ...,
        lexer: str = ...,
        propagate_positions: bool = ...,
        keep_all_tokens: bool = ...,
    ) -> None: ...
    def parse(self, text: str) -> Tree: ...

class Transformer(Generic[Leaf, Returned]):
    def __init__(self, visit_tokens: bool = True) -> None: ...
    def transform(self, tree: Tree) -> Returned: ...

def v_args(*, meta: bool = False) -> Callable[[Method], Method]: ...

"""Verbs and groups of verbs as the help shows them: a flag has a name, but no type.

Paragraphs of the help are wrapped by the terminal alone, and not by the docstring as well.
"""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class Verb(TyperCommand):
    """A verb."""

    def __init__(self, *args: Any, help: str | None = None, **others: Any) -> None:
        super().__init__(*args, help=_joined(help), **others)

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, with the one that shows the help."""
        return _without_type_of_flags(super().get_params(ctx))


class Verbs(TyperGroup):
    """Several verbs under one name."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options of the group itself, with the one that shows the help."""
        return _without_type_of_flags(super().get_params(ctx))


def _joined(text: str | None) -> str | None:
    """A docstring, each paragraph of which is one line."""
    if text is None:
        return None
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _without_type_of_flags(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if isinstance(each, TyperOption) and each.is_flag:
            # `<bool>` would read as if a value were to follow.
            each.metavar = ""
    return parameters

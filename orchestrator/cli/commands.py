"""Verbs and groups of verbs as the help shows them: a flag has a name, but no type."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption


class Verb(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, with the one that shows the help."""
        return _without_type_of_flags(super().get_params(ctx))


class Verbs(TyperGroup):
    """Several verbs under one name."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options of the group itself, with the one that shows the help."""
        return _without_type_of_flags(super().get_params(ctx))


def _without_type_of_flags(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        if isinstance(each, TyperOption) and each.is_flag:
            # `<bool>` would read as if a value were to follow.
            each.metavar = ""
    return parameters

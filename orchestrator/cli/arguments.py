"""What verbs take, and reading it from words.

A verb is a function; `Annotated` says of each parameter what it is on the command line. Words that
are plainly right are read here. Whatever is not, and every question for help, is left to the
library that explains it (`orchestrator.cli.application`), which takes several times as long to
import as a verb takes to respond.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints


class Option:
    """A parameter that is named on the command line.

    Parameters
    ----------
    names
        Such as `--limit` and `-n`, or `--wait/--no-wait`; none: as the parameter is called.
    min, max
        Least and greatest value.
    envvar
        Variables that are read, in this order, if it is not given.
    values
        The words that it takes, if these are known; none: any.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        min: float | None = None,
        max: float | None = None,
        metavar: str | None = None,
        envvar: Sequence[str] = (),
        values: Sequence[str] = (),
    ) -> None:
        self.names, self.envvar, self.values = names, envvar, values
        self.shown = {"help": help, "min": min, "max": max, "metavar": metavar}

    def takes(self, number: float) -> bool:
        """Whether a number is within its limits."""
        least, most = self.shown["min"], self.shown["max"]
        assert not isinstance(least, str)
        assert not isinstance(most, str)
        return (least is None or number >= least) and (most is None or number <= most)


class Argument(Option):
    """A parameter that is known by its place."""

    def __init__(
        self, *, help: str, metavar: str | None = None, values: Sequence[str] = ()
    ) -> None:
        super().__init__(help=help, metavar=metavar, values=values)


class Parameter:
    """A parameter of a verb.

    Attributes
    ----------
    kind
        Type of a value; `several` of them may be given.
    """

    def __init__(self, name: str, hint: Any, default: object) -> None:
        self.name, self.default = name, default
        self.annotation, self.shown = get_args(hint)
        kind = self.annotation
        if get_origin(kind) in (Union, types.UnionType):
            (kind,) = (each for each in get_args(kind) if each is not types.NoneType)
        self.several = get_origin(kind) is list
        self.kind: Any = get_args(kind)[0] if self.several else kind

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it takes, if these are known."""
        choices: Mapping[str, Enum] = getattr(self.kind, "__members__", {})
        return tuple(str(each.value) for each in choices.values()) or tuple(self.shown.values)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of an option."""
        return self.shown.names or (f"--{self.name.replace('_', '-')}",)

    def value(self, word: str) -> object | None:
        """The value that a word stands for; None: it stands for none."""
        kind = self.kind
        if self.shown.values and word not in self.shown.values:
            return None
        if issubclass(kind, Enum):
            return next((each for each in kind if each.value == word), None)
        if kind in (int, float):
            try:
                number = kind(word)
            except ValueError:
                return None
            return number if word.isascii() and self.shown.takes(number) else None
        return kind(word) if kind in (str, Path) else None


def parameters(verb: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a verb, in order."""
    hints = get_type_hints(verb, include_extras=True)
    return [
        Parameter(name, hints[name], each.default)
        for name, each in inspect.signature(verb).parameters.items()
        if get_origin(hints[name]) is Annotated
    ]


class _Unclear(Exception):
    """Words that are not plainly right."""


def read(verb: Callable[..., Any], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of a verb by name; None if the words are not plainly right."""
    try:
        return _read(parameters(verb), list(words))
    except _Unclear:
        return None


def _read(taken: Sequence[Parameter], words: list[str]) -> dict[str, Any]:
    places = [each for each in taken if isinstance(each.shown, Argument)]
    options: dict[str, tuple[Parameter, bool]] = {}
    for each in taken:
        if each not in places:
            for name in each.names:
                yes, _, no = name.partition("/")
                options |= {yes: (each, True)} | ({no: (each, False)} if no else {})
    given: dict[str, Any] = {}

    def keep(parameter: Parameter, word: str) -> None:
        if (value := parameter.value(word)) is None:
            raise _Unclear
        if parameter.several:
            given.setdefault(parameter.name, []).append(value)
        else:
            given[parameter.name] = value

    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            if not places:
                raise _Unclear
            keep(places[0], word)
            if not places[0].several:
                places.pop(0)
            continue
        name, has_value, value = word.partition("=")
        if name not in options or (has_value and not name.startswith("--")):
            raise _Unclear
        parameter, yes = options[name]
        if parameter.kind is bool:
            if has_value:
                raise _Unclear
            given[parameter.name] = yes
        elif has_value:
            keep(parameter, value)
        elif words:
            keep(parameter, words.pop(0))
        else:
            raise _Unclear
    for each in taken:
        variable = next(filter(None, map(os.environ.get, each.shown.envvar)), None)
        if each.name not in given and variable is not None:
            keep(each, variable)
        if each.name not in given and each.default is inspect.Parameter.empty:
            raise _Unclear
    return given

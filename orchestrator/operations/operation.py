"""What an operation on a running cluster is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Literal, TypeVar

import msgspec

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R")

_field = re.compile(r"{(\w+)}")


class AccessRole(Enum):
    """What a token permits."""

    READ = "read"
    """To look at everything."""
    OPERATE = "operate"
    """To change things, too."""


class Manner(Enum):
    """How a result comes."""

    DIRECT = "direct"
    """In the response."""
    LONG = "long"
    """The response names a record of the operation (status 202), in which the result will be."""
    STREAM = "stream"
    """As server-sent events, each with a result, until the client has enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[P, R]):
    """An operation on a running cluster.

    Attributes
    ----------
    name
        By which code and documentation know it.
    path
        Below `/api/v1/`; names in braces are fields of the parameters.
    parameters
        Their type. Fields that are not in the path are in the query of GET and DELETE, and in the
        JSON body of POST.
    result
        Type of the result, or of each one in a stream.
    summary
        A sentence.
    verb
        The verb of the command line that prints the same result with `--json`; empty: none does.
    changes
        Whether it may change the cluster; who asked is then in the history.
    """

    name: str
    method: Literal["GET", "POST", "DELETE"]
    path: str
    parameters: type[P]
    result: type[R]
    role: AccessRole
    summary: str
    manner: Manner = Manner.DIRECT
    verb: str = ""
    changes: bool = False

    @property
    def long(self) -> bool:
        """Whether the result comes later, in a record."""
        return self.manner is Manner.LONG

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The parameters that are in the path."""
        return tuple(_field.findall(self.path))

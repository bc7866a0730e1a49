"""The verbs by name; the module of one is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Protocol, cast

VERBS = (
    "try", "up", "down", "apply", "delete", "pause", "resume", "validate", "size", "plan",
    "explain", "whatif", "switchover", "move", "drain", "cordon", "uncordon", "rebalance", "moves",
    "undo", "automation", "status", "get", "describe", "top", "topology", "logs", "send", "tail",
    "verify", "history", "metrics", "support-bundle", "preflight", "demo", "simulate", "completion",
)  # fmt: skip
"""Each is a module with a function `command`; in the order in which the help has them."""

GROUPS = {
    "drill": ("list", "run", "report"),
    "config": ("list", "use", "add", "remove"),
    "operations": ("cancel",),
    "token": ("create", "list", "revoke"),
    "maintenance": ("show", "break"),
    "savepoint": ("create", "list", "show", "delete", "export"),
    "bulk": ("coordinates", "place"),
    "render": ("standalone", "compose"),
}
"""Groups of verbs, each a module, and their verbs."""

MODULES = {"render": "rendering"}
"""Group → its module, where another one has its name."""

Command = Callable[..., int | None]
"""A verb: its exit status, if that may be another one than 0."""


class VerbGroup(Protocol):
    """The module of a group."""

    HELP: str
    VERBS: Mapping[str, Command]


def group_of(name: str) -> VerbGroup:
    """A group of verbs."""
    return cast(VerbGroup, import_module(f"orchestrator.cli.{MODULES.get(name, name)}"))


def verb_of(name: str) -> Command:
    """A verb that is in no group."""
    return import_module(f"orchestrator.cli.{name.replace('-', '_')}").command

"""What all records have in common, and the names of hosts and replicas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast

import msgspec

R = TypeVar("R")

_with_later: set[type[Record]] = set()
"""Kinds of records that have fields which an older reader must not overlook."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything stored: immutable and keyword-only.

    Readers ignore fields that they do not know: a newer version may have written them. A field that
    comes later therefore has a default, which means what its lack meant before.
    """

    later: ClassVar[Mapping[str, int]] = {}
    """Fields that an older reader must not overlook → the `RECORDS` with which each came
    (`records.versions`). All others may be overlooked."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        if cls.later:
            _with_later.add(cls)

    @property
    def needs(self) -> int:
        """The least `RECORDS` of a version that may act on this record.

        It follows from those of its later fields that are set, in records within it, too.
        """
        return max(_steps(self), default=1) if _with_later else 1

    def as_read_by(self, records: int) -> Self:
        """The record for readers of so many `RECORDS`: later fields have their defaults.

        So it says what the version would have said that wrote such records.
        """
        return self if self.needs <= records else _reduced(self, records)


def _steps(value: object) -> Iterator[int]:
    """The `RECORDS` of the later fields that are set in a value."""
    if isinstance(value, Record):
        for name in value.__struct_fields__:
            found = getattr(value, name)
            if name in value.later and found != _defaults(type(value))[name]:
                yield value.later[name]
            yield from _steps(found)
    for each in _elements(value):
        yield from _steps(each)


def _reduced(value: R, records: int) -> R:
    """A value in which no later field is set that came with more `RECORDS`."""
    if isinstance(value, Record):
        kept = {name: getattr(value, name) for name in value.__struct_fields__}
        for name, step in value.later.items():
            if step > records:
                kept[name] = _defaults(type(value))[name]
        return type(value)(**{name: _reduced(each, records) for name, each in kept.items()})
    if isinstance(value, dict):
        names = cast(dict[object, object], value)
        return cast(R, {name: _reduced(each, records) for name, each in names.items()})
    elements = tuple(_reduced(each, records) for each in _elements(value))
    return cast(R, elements) if isinstance(value, tuple) else value


def _elements(value: object) -> Iterable[object]:
    """What a tuple has, and the values of a dictionary; records hold no other collections."""
    if isinstance(value, tuple):
        return cast(tuple[object, ...], value)
    return cast(dict[object, object], value).values() if isinstance(value, dict) else ()


@cache
def _defaults(kind: type[Record]) -> dict[str, object]:
    """The defaults of a kind's fields that have one."""
    found: dict[str, object] = {}
    for each in msgspec.structs.fields(kind):
        if each.default_factory is not msgspec.NODEFAULT:
            found[each.name] = each.default_factory()
        elif each.default is not msgspec.NODEFAULT:
            found[each.name] = each.default
    return found


FIRST_WIRE = 13
"""Of the first release, and so of a host of which nobody says what it speaks. It stays."""


class NodeKind(Enum):
    """The kind of process that a host is, and thereby what may run on it."""

    EXECUTOR = "executor"
    """A Spark executor: runs fragments."""
    SITE = "site"
    """A place where streams enter or leave; runs no fragment."""
    OBSERVER = "observer"
    """A passing reader of streams: `vivace tail`, a drill's instrument."""


class ReplicaId(Record, frozen=True, kw_only=True):
    """One replica of a fragment: a node in one of its incarnations."""

    node: str
    incarnation: str


class NameClaim(Record, frozen=True, kw_only=True):
    """`/claims/<node>`: the newest process that has claimed a host's name."""

    number: int
    """Rises with every claim."""
    incarnation: str


class LinkFault(Record, frozen=True, kw_only=True):
    """What a drill does to a link in one direction, for a while."""

    until_us: int
    """When it ends by itself, cluster clock, µs."""
    delay_ms: float | None = None
    """By how much the link takes longer; None: it is cut, and loses what it is to carry."""


class Peer(Record, frozen=True, kw_only=True):
    """How to reach another host, and how far away it is."""

    node: str
    incarnation: str
    endpoint: str
    public_key: str
    delay_ms: float
    """One-way delay that the link shaper adds on the way from that host; 0 on a real network."""
    machine: str = ""
    wire: int = FIRST_WIRE
    """The newest wire that both hosts speak."""
    fault: LinkFault | None = None
    """What a drill does to the link from that host to this one."""


class FailureLabels(Record, frozen=True, kw_only=True):
    """What a host dies with: it may share each with other hosts. Empty: it shares none."""

    application: str = ""
    """The Spark application."""
    domain: str = ""
    """Named in the manifest, such as a rack."""
    machine: str = ""
    zone: str = ""
    driver: str = ""
    """The machine of its application's driver."""

    @property
    def groups(self) -> dict[tuple[str, str], None]:
        """Kind and name of all that it dies with, in order: the driver's machine is a machine."""
        found = {
            (kind, name): None
            for kind in self.__struct_fields__
            if kind != "driver" and (name := getattr(self, kind))
        }
        return found | ({("machine", self.driver): None} if self.driver else {})


class HostSpec(Record, frozen=True, kw_only=True):
    """Start parameters of a host process. They contain the secret, and are never logged."""

    cluster: str
    node: str
    kind: NodeKind
    region: str
    labels: FailureLabels = FailureLabels()
    """The machine is filled in where the host turns out to run: Spark decides where that is."""
    zookeeper: str
    secret: str
    """Digest credential for the store; empty if the host's environment says where it lies."""
    bind: str = "127.0.0.1"
    advertise: str = ""
    """Address that peers are told; see `orchestrator.host.shell.addresses`."""
    port: int = 0
    """On which links come in; 0: any."""
    archive: str | None = None
    """Folder for the files of a site's sinks."""

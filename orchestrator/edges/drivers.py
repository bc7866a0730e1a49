"""Drivers by name: which code brings a stream in, and which takes one out.

A *driver* is a frozen record of options, with the methods that `orchestrator.edges.sources.driver`
and `orchestrator.edges.sinks.driver` describe. A manifest names the driver and gives the options:
`from: {replay: {path: ticks.parquet}}`. The store keeps the name and the options as JSON; each host
turns them back into the driver, decoded strictly.

A driver of one's own needs no change of this code base. It is either an entry point of an
installed package, found in every process of the cluster:

    [project.entry-points."vivace.sources"]
    numbers = "my_package.numbers:Numbers"

or it is registered by the process itself: `orchestrator.edges.sources.register("numbers",
Numbers)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import msgspec

from orchestrator.errors import VivaceError, in_sentences
from orchestrator.records import DriverSpec, Record

if TYPE_CHECKING:
    from orchestrator.documents.document import Field, Section


class DriverError(VivaceError):
    """A driver is missing, its options do not fit it, or it cannot do its work."""


class Unusable(DriverError):
    """A driver could not do its work because of one of its options.

    Attributes
    ----------
    option
        As manifests name it; None: no single one.
    value
        Its value; None: the driver as a whole is meant.
    problem
        A phrase that follows the value.
    remedy
        What to do, a sentence.
    """

    def __init__(self, option: str | None, value: object, problem: str, remedy: str) -> None:
        subject = " ".join(str(each) for each in (option, value) if each is not None)
        super().__init__(in_sentences(f"{subject} {problem}".strip(), remedy))
        self.option = option
        self.value = None if value is None else str(value)
        self.problem = problem
        self.remedy = remedy


class Driver(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all drivers: the fields of a subclass are its options. None may be overlooked."""

    @classmethod
    def read(cls, section: Section) -> Self:
        """The driver out of its section of a manifest.

        Raises
        ------
        InvalidInput
            Naming file, line, field and value; `Field` and `Section` raise it.
        """
        raise NotImplementedError


D = TypeVar("D", bound=Driver)


class Registry(Generic[D]):
    """Drivers of one kind, by name.

    Parameters
    ----------
    group
        Entry points of installed packages that are drivers of this kind.
    base
        Base class of each of them.
    built_in
        Name → `module:class`; imported when first used.
    unwritten
        Names of those that no manifest names.
    """

    def __init__(
        self,
        group: str,
        base: type[D],
        built_in: Mapping[str, str],
        unwritten: Collection[str] = (),
    ) -> None:
        self._group = group
        self._base = base
        self._built_in = {n: EntryPoint(n, path, group) for n, path in built_in.items()}
        self._unwritten = frozenset(unwritten)
        self._loaded: dict[str, type[D]] = {}

    def register(self, name: str, driver: type[D]) -> None:
        """Make a driver known in this process.

        Raises
        ------
        ValueError
            If another driver has that name.
        """
        if name in self.names and self[name] is not driver:
            raise ValueError(f"{name} of {self._group} is {self[name]} already")
        self._loaded[name] = driver

    @property
    def names(self) -> set[str]:
        """All that are known."""
        return {*self._loaded, *self._built_in, *self._installed}

    def __getitem__(self, name: str) -> type[D]:
        """The driver of this name.

        Raises
        ------
        DriverError
            If there is none, it cannot be imported, or it is none of this kind.
        """
        if name not in self._loaded:
            entry = self._built_in.get(name) or self._installed.get(name)
            if entry is None:
                raise DriverError(f"{self._group}: no driver is named {name} in this process")
            try:
                driver = entry.load()
            except Exception as error:
                raise DriverError(
                    f"{self._group}: {name} cannot be imported from {entry.value}: {error}"
                ) from error
            if not (isinstance(driver, type) and issubclass(driver, self._base)):
                raise DriverError(f"{self._group}: {name} is {driver}, no {self._base.__name__}")
            self._loaded[name] = driver
        return self._loaded[name]

    def preload(self) -> None:
        """Import the drivers that are built in, so that no stream waits for that later."""
        for name in self._built_in:
            self[name]

    def read(self, field: Field) -> tuple[str, D]:
        """Name and driver out of a manifest's field, `{name: {option: value}}`.

        Raises
        ------
        InvalidInput
            Naming file, line, field and value.
        """
        entries = field.entries()
        if len(entries) != 1:
            written = ", ".join(sorted(self.names - self._unwritten))
            field.refuse("does not name one driver", f"Write one of: {written}.")
        ((key, options),) = entries
        name = key.choice(self.names)
        try:
            driver = self[name]
        except DriverError as error:
            key.refuse(f"cannot be used ({error})", "Mend the package that it comes from.")
        with options.section() as section:
            return name, driver.read(section)

    def restore(self, spec: DriverSpec) -> D:
        """The driver that the store names.

        Raises
        ------
        DriverError
            If it is unknown here, or its options are not what this process knows.
        """
        try:
            return msgspec.convert(spec.options, self[spec.driver])
        except msgspec.ValidationError as error:
            raise DriverError(f"{self._group}: options of {spec.driver}: {error}") from None

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self._group)}


def options_of(driver: Driver) -> dict[str, Any]:
    """A driver's options as the store keeps them."""
    return msgspec.to_builtins(driver)

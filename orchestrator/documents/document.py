"""Reading YAML documents field by field, with errors that name file, line, field and value.

The documents are read as YAML nodes rather than plain values, because only nodes know their
lines, and because a mapping with the same key twice is a mistake that plain values hide.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

import yaml

from foundation.bounds import MAX_NAME
from foundation.suggestions import closest, nearest
from orchestrator.documents.units import UnitError, duration_ms
from orchestrator.documents.yaml_errors import explain_yaml
from orchestrator.errors import InvalidInput
from orchestrator.folders import read_text
from streams.language.names import COLUMN, PLAIN, is_plain, names_column

T = TypeVar("T", float, int)
P = TypeVar("P")

_slug = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def slug(name: str) -> str:
    """A name as the store and the file system take it.

    >>> slug("Germany West Central")
    'germany-west-central'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class _Words:
    """A description that is shown in place of a value, without quotes."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        return self._words


def _kind_of(value: object) -> str | None:
    """What YAML takes a word for, if it could be text in quotes."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number"
        case date():
            return "a date"
        case None:
            return "null"
        case _:
            return None


@dataclass(slots=True)
class Field:
    """One value of a document, and where it stands.

    Attributes
    ----------
    folder
        What the name of its file is relative to.
    """

    file: str
    name: str
    node: yaml.Node
    folder: Path = Path()

    def part(self, name: str, node: yaml.Node) -> Field:
        """A value within this one."""
        return Field(self.file, name, node, self.folder)

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.file}:{self.node.start_mark.line + 1}"

    def refuse(self, problem: str, remedy: str) -> NoReturn:
        """Raise `InvalidInput` for this value."""
        raise InvalidInput(self.where, self.name, self._as_written(), problem, remedy)

    def refuse_list(self, problem: str, remedy: str) -> NoReturn:
        """The same for a list, which is shown as it is written."""
        shown = _Words(f"[{', '.join(str(item.node.value) for item in self.items())}]")
        raise InvalidInput(self.where, self.name, shown, problem, remedy)

    def text(self) -> str:
        """A string, not empty."""
        value = self._value()
        if not isinstance(value, str):
            what = _kind_of(value)
            remedy = f"YAML takes it for {what}: put it in quotes." if what else "Write text."
            self.refuse("is not text", remedy)
        if not value.strip():
            self.refuse("is empty", "Write something.")
        return value

    def identifier(self) -> str:
        """A name that can stand in a query."""
        value = self._short(self.text())
        if not is_plain(value):
            self.refuse("cannot be a name in a query", f"Use {PLAIN}.")
        return value

    def column_name(self) -> str:
        """A name that a column may have."""
        value = self.text()
        if not names_column(value):
            self.refuse("cannot be the name of a column", f"Use {COLUMN}.")
        return value

    def slug(self) -> str:
        """A name that can stand in a path."""
        value = self._short(self.text())
        if not _slug.fullmatch(value):
            self.refuse(
                "cannot be a name",
                f"Use small letters, digits and single hyphens, such as "
                f"{slug(value) or 'north-receiver'}.",
            )
        return value

    def _short(self, name: str) -> str:
        if len(name) > MAX_NAME:
            self.refuse(
                f"has {len(name)} characters", f"Use at most {MAX_NAME}: names become file names."
            )
        return name

    def choice(self, known: Iterable[str]) -> str:
        """One of the known words, also if YAML takes it for something else than text."""
        value = self.node.value if isinstance(self.node, yaml.ScalarNode) else self.text()
        if value not in known:
            self.refuse("is unknown", nearest(value, known))
        return value

    def number(self) -> float:
        """A finite number, at least 0."""
        value = self._value()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse("is not a number", "Write a plain number.")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < 0:
            self.refuse("is not a number from 0 on", "Write a number that is not negative.")
        return number

    def count(self) -> int:
        """A whole number, at least 1."""
        value = self.number()
        if value != int(value) or value < 1:
            self.refuse("is not a whole number from 1 on", "Write 1 or more.")
        return int(value)

    def boolean(self, yes: str = "true", no: str = "false") -> bool:
        """True or false, or the two words of YAML that the manifest's reader knows for them."""
        value = self._value()
        if not isinstance(value, bool):
            self.refuse(f"is neither {yes} nor {no}", f"Write {yes} or {no}.")
        return value

    def quantity(self, parse: Callable[[str], T], *, positive: bool = False) -> T:
        """A number with a unit, read by one of `orchestrator.documents.units`."""
        is_text = isinstance(self._value(), (str, _Words))
        quantity = self._parsed(self.text() if is_text else self.node.value, parse)
        if positive and quantity <= 0:
            self.refuse("is not above 0", "Write a quantity above 0.")
        return quantity

    def duration_ms(self) -> float:
        """A length of time that may be 0, ms."""
        return self.quantity(duration_ms)

    def interval_ms(self) -> float:
        """A length of time above 0, ms."""
        return self.quantity(duration_ms, positive=True)

    def parsed(self, parse: Callable[[str], P]) -> P:
        """Text, read by one of `orchestrator.documents.units`."""
        return self._parsed(self.text(), parse)

    def _parsed(self, text: str, parse: Callable[[str], P]) -> P:
        try:
            return parse(text)
        except UnitError as error:
            self.refuse(error.problem, error.remedy)

    def items(self) -> list[Field]:
        """The elements of a list."""
        if not isinstance(self.node, yaml.SequenceNode):
            self.refuse("is not a list", "Write a list: [a, b].")
        return [
            self.part(f"{self.name}[{index}]", node) for index, node in enumerate(self.node.value)
        ]

    def path(self) -> Path:
        """An absolute path; what is written is relative to the manifest's file."""
        text = self.text()
        if "\0" in text:
            self.refuse("cannot be a path", "Leave out the zero byte.")
        return (self.folder / Path(self.file).parent / text).resolve()

    def section(self, resource: str = "") -> Section:
        """A mapping with known fields."""
        return Section(self, resource)

    def entries(self) -> list[tuple[Field, Field]]:
        """A mapping with free keys: pairs of key and value."""
        return list(Section(self).pairs.values())

    def is_mapping(self) -> bool:
        """Whether the value is a mapping."""
        return isinstance(self.node, yaml.MappingNode)

    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    def written(self) -> dict[str, tuple[int, str | None]]:
        """Dotted name of each field within a mapping → its line, and its text if it is a scalar."""
        found: dict[str, tuple[int, str | None]] = {}
        for key, value in self.entries():
            text = value.node.value if isinstance(value.node, yaml.ScalarNode) else None
            name = str(key.node.value)
            found[name] = (key.node.start_mark.line + 1, text)
            if value.is_mapping():
                found |= {f"{name}.{inner}": each for inner, each in value.written().items()}
        return found

    def _as_written(self) -> object:
        """The value, as it stands in the file if YAML takes that for something else."""
        value, written = self._value(), self.node.value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if isinstance(value, (str, _Words)) or (is_number and str(value) == written):
            return value
        return _Words(written or "null")

    def _value(self) -> object:
        """A scalar's value; anything else described in words."""
        if isinstance(self.node, yaml.ScalarNode):
            constructor: Any = yaml.SafeLoader("")
            try:
                return constructor.construct_object(self.node)
            except Exception:  # noqa: BLE001  A constructor may raise anything.
                return self.node.value  # A foreign tag, or a date that is none: as written.
        return _Words("a list" if isinstance(self.node, yaml.SequenceNode) else "a mapping")


@dataclass(slots=True)
class Section:
    """A mapping that is read field by field; the end of its `with` refuses unknown fields.

    Parameters
    ----------
    field
        Where the mapping stands.
    resource
        Prefix of its fields' names, such as `Query proximity: `; empty for a
        section within another, whose own name stands there.

    Attributes
    ----------
    pairs
        Name of each field → its key and its value.
    """

    of: Field
    resource: str = ""
    pairs: dict[str, tuple[Field, Field]] = field(default_factory=dict[str, tuple[Field, Field]])
    _asked: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        node = self.of.node
        if not isinstance(node, yaml.MappingNode):
            self.of.refuse("is not a mapping", "Write fields and values: {name: value}.")
        prefix = self.resource or (f"{self.of.name}." if self.of.name else "")
        for key_node, value_node in node.value:
            name = str(key_node.value)
            key = self.of.part(f"{prefix}{name}", key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.of.refuse("has a field whose name is not text", "Name fields with text.")
            if name in self.pairs:
                key.refuse("is given twice", "Keep one of the two.")
            self.pairs[name] = (key, self.of.part(f"{prefix}{name}", value_node))

    def get(self, name: str) -> Field | None:
        """A field that may be missing (or null, which is the same)."""
        self._asked.append(name)
        pair = self.pairs.get(name)
        if pair is None or pair[1].node.tag == "tag:yaml.org,2002:null":
            return None
        return pair[1]

    def need(self, name: str) -> Field:
        """A field that must be there."""
        found = self.get(name)
        if found is None:
            unasked = [given for given in self.pairs if given not in self._asked]
            if typo := closest(name, unasked):
                self.pairs[typo][0].refuse("is an unknown field", f"Did you mean {name}?")
            prefix = self.resource or (f"{self.of.name}." if self.of.name else "")
            raise InvalidInput(
                self.of.where, f"{prefix}{name}", None, "is missing", f"Add the field {name}."
            )
        return found

    def refuse(self, name: str, remedy: str) -> None:
        """Refuse a field that a manifest once had, if it is there."""
        if name in self.pairs:
            self.pairs[name][0].refuse("is no field any more", remedy)

    def given(self, options: Options) -> dict[str, Any]:
        """Values of those optional fields that are there, by attribute."""
        found = {attribute: (self.get(name), read) for attribute, (name, read) in options.items()}
        return {attribute: read(field) for attribute, (field, read) in found.items() if field}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Refuse the fields that were not asked for."""
        for name, (key, _) in self.pairs.items():
            if name not in self._asked:
                key.refuse("is an unknown field", nearest(name, self._asked))


Options = Mapping[str, tuple[str, Callable[[Field], object]]]
"""Optional fields of a section: attribute of a record → name of the field and its reader."""


MOST_VALUES, MOST_DEPTH = 100_000, 32
"""Of a document, counting a value as often as aliases name it: aliases of aliases multiply."""


def _bound(document: Field) -> None:
    """Refuse a document that is larger or deeper than any manifest."""
    count = 0
    nodes = [(document.node, 0)]
    while nodes:
        node, depth = nodes.pop()
        count += 1
        where = f"{document.file}:{node.start_mark.line + 1}"
        if depth > MOST_DEPTH:
            problem = f"is nested deeper than {MOST_DEPTH} levels"
            raise InvalidInput(where, "", None, problem, "Check the brackets and aliases.")
        if count > MOST_VALUES:
            problem = f"has more than {MOST_VALUES:,} values, those of aliases included"
            raise InvalidInput(where, "", None, problem, "Name fewer aliases.")
        if isinstance(node, yaml.SequenceNode):
            nodes += [(each, depth + 1) for each in node.value]
        elif isinstance(node, yaml.MappingNode):
            nodes += [(each, depth + 1) for pair in node.value for each in pair]


def documents(file: Path) -> list[Field]:
    """The non-empty YAML documents of a file.

    Raises
    ------
    InvalidInput
        The file cannot be read or is not YAML; named with the line.
    """
    return documents_in(str(file), read_text(file))


def documents_in(file: str, text: str, folder: Path = Path()) -> list[Field]:
    """The same of a text.

    Parameters
    ----------
    file
        Its name, which messages show; paths in the text are relative to it.
    folder
        What that name is relative to.
    """
    try:
        nodes = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise explain_yaml(file, text, error) from None
    except RecursionError:
        problem = "is nested too deeply"
        raise InvalidInput(file, "", None, problem, "Check the brackets.") from None
    found = [Field(file, "", node, folder) for node in nodes]
    for document in found:
        _bound(document)
    return [document for document in found if document.node.tag != "tag:yaml.org,2002:null"]

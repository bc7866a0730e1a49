"""Checks that a public class name is unique in the product.

    python -m scripts.class_names [ROOT]

Whoever reads or searches for a name then finds one class. Prints each name that several modules
define, with the places; exit status 1 if there is one. Names that begin with `_` belong to their
module.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.code_lines import PACKAGES

CLIENTS = ("vivace", "pyspark_vivace")

ALLOWED = frozenset({"Refused"})
"""Of two interfaces for others, which have names of their own: `vivace` and `orchestrator.api`."""


def public_classes(source: str) -> Iterator[tuple[str, int]]:
    """Name and line of each class that a module defines for others."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node.lineno


def repeated(root: Path) -> dict[str, list[str]]:
    """Class name → places, of the names that stand in several modules below a repository's root."""
    places: dict[str, list[str]] = {}
    for package in (*PACKAGES, *CLIENTS):
        for module in sorted((root / package).rglob("*.py")):
            path = module.relative_to(root).as_posix()
            for name, line in public_classes(module.read_text(encoding="utf-8")):
                places.setdefault(name, []).append(f"{path}:{line}")
    several = sorted(name for name, where in places.items() if len(where) > 1)
    return {name: places[name] for name in several if name not in ALLOWED}


def main() -> int:
    """Print what is found."""
    found = repeated(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
    sys.stdout.writelines(f"{name}: {', '.join(where)}\n" for name, where in found.items())
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Counts the product's lines of code: without blank lines, comments and docstrings.

    python -m scripts.code_lines [FOLDER]

A line counts if a token of code begins, goes on or ends in it; docstrings do not count.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

PACKAGES = ("orchestrator", "ha", "placement", "streams", "topology", "foundation")
"""What ships; `bench`, `examples`, `scripts` and `tests` do not."""

_NOT_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


def code_lines(source: str) -> int:
    """Lines of code of one module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(source)))


def by_package(root: Path) -> Counter[str]:
    """Lines of code of each package and of the packages right inside `orchestrator`."""
    counts: Counter[str] = Counter()
    for package in PACKAGES:
        for module in sorted((root / package).rglob("*.py")):
            parts = module.relative_to(root).parts[:-1]
            name = "/".join(parts[:2])
            counts[name] += code_lines(module.read_text(encoding="utf-8"))
    return counts


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of string statements: docstrings of modules, classes, functions and attributes."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def main() -> None:
    """Print the counts."""
    counts = by_package(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"{count:7,}  {name}\n")
    sys.stdout.write(f"{counts.total():7,}  all\n")


if __name__ == "__main__":
    main()

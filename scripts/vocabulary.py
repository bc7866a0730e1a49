"""Checks that names and texts use the terms of docs/glossary.md, not the words they replaced.

    python -m scripts.vocabulary [ROOT]

Three kinds of places are checked:

- *names*: files, and the functions, classes, arguments, variables and attributes that Python code
  defines. Names of libraries, such as numpy's `copy`, are used but not defined here.
- *keys*: string constants that look like a name: JSON keys, metrics, benchmark figures.
- *texts*: docstrings, comments, messages and Markdown pages.

A name or key is divided into its words (`closedMs`, `closed_ms` → closed, ms), so that `watermark`
does not contain `mark`. Prints each finding with the term to use; exit status 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

FOLDERS = (
    "orchestrator", "ha", "placement", "streams", "topology", "foundation",
    "bench", "examples", "scripts", "docs", "tests",
)  # fmt: skip
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
"""Pages at the top. CHANGELOG.md is history and may name what was renamed."""

SUFFIXES = (".md", ".py", ".yaml", ".sql", ".lark")

EVERYWHERE = {
    "answers": "completed timestamps, results or responses",
    "copies": "replicas",
    "heed": "adopt",
    "heeds": "adopts",
    "instant": "event timestamp or timestamp group",
    "instants": "event timestamps or timestamp groups",
    "intake": "subscription",
    "intakes": "subscriptions",
    "ledger": "demand table",
    "levelling": "local search",
    "mark": "watermark",
    "marks": "watermarks",
    "origin": "ingestion time",
    "origins": "ingestion times",
    "recast": "rebuild tasks",
    "rehearsal": "warm-up",
    "rehearse": "warm up",
    "rehearses": "warms up",
    "roster": "replica manager",
    "twin": "peer replica",
    "twins": "peer replicas",
}
"""Word → the term to use instead, in names, keys and texts."""

IN_NAMES = {
    "beat": "send heartbeats",
    "closed_ms": "input_watermark_ms or output_watermark_ms",
    "crowd": "node load",
    "dismiss": "stop replica",
    "divide_anyhow": "best effort",
    "fair_share": "proportional sub-deadline",
    "fair_shares": "proportional sub-deadlines",
    "feeder": "source driver",
    "floors": "lower bounds",
    "forget": "discard state",
    "guard": "parent watchdog",
    "hop_ms": "hop_overhead_ms",
    "mass": "bulk",
    "outgoing": "feeding subscribers",
    "presence": "node report",
    "progress_ms": "watermark_ms",
    "serving": "feeding subscribers",
    "spectral_start": "spectral initialisation",
    "springs": "Vivaldi forces or spring relaxation",
    "tend": "supervise",
    "weighing": "move evaluation",
}
"""Word or words → the term to use instead, in names and keys; texts may use the English word."""

WHOLE_NAMES = {
    "Divided": "SubDeadlines",
    "Placed": "result",
    "Receiver": "StreamCursor",
    "Running": "replica",
    "Scales": "MoveEvaluation",
    "Touches": "load delta",
    "Trials": "batch evaluation",
    "existing": "traffic_baseline",
    "fair": "proportional",
    "literal": "paper_model",
    "neighbours": "candidate_moves",
    "options": "legal_order",
    "placed": "result",
    "production": "solver",
    "pulls": "traffic_terms",
    "trials": "batch_evaluation",
}
"""Class or module → the term to use instead."""

ALLOWED = (
    ("*", "HIGH_WATER_MARK", "ZeroMQ's term"),
    ("tests/README.md", "mark", "pytest's `mark`"),
    ("orchestrator/documents/yaml_errors.py", "mark", "a place in a YAML text, PyYAML's term"),
    ("bench/deadline_trials.py", "trials", "repetitions of an experiment"),
    ("orchestrator/cli/render/*", "mark", "a tick or cross in a table"),
    ("orchestrator/cli/render/*", "marks", "ticks and crosses in a table"),
    ("placement/*", "springs", "of spring relaxation"),
    ("tests/*placement*", "springs", "of spring relaxation"),
    ("docs/glossary.md", "*", "names the replaced words"),
    ("scripts/vocabulary.py", "*", "names the replaced words"),
    *(
        (place, word, "a step of a millisecond in a loop, as in *Recursive streams*")
        for place in (
            "ARCHITECTURE.md",
            "foundation/loop_limits.py",
            "streams/*",
            "orchestrator/*",
            "docs/*",
            "examples/*",
            "tests/*",
            "bench/*",
        )
        for word in ("instant", "instants")
    ),
    ("tests/integration/orchestrator/web/test_listening.py", "origin", "of a page, HTTP's term"),
    ("tests/unit/scripts/test_vocabulary.py", "*", "names the replaced words"),
)
"""Path pattern, word or name (`*`: any), the reason why it is legitimate there."""

_word = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_name = re.compile(r"[A-Za-z_][\w.-]*")
_text_word = re.compile(r"[A-Za-z]+(?:[’'][a-z]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A word that has been replaced."""

    path: str
    line: int
    name: str
    """The name with the word in it; empty in texts."""
    word: str
    use: str

    def __str__(self) -> str:
        where = f" in {self.name}" if self.name else ""
        return f"{self.path}:{self.line}: {self.word!r}{where}: use {self.use}"


def words_of(name: str) -> list[str]:
    """The words of an identifier or key, in small letters."""
    return [word.lower() for word in _word.findall(name)]


def in_name(name: str) -> Iterator[tuple[str, str]]:
    """The replaced words of a name or key, each with the term to use."""
    joined = "_".join(words_of(name))
    for word, use in (EVERYWHERE | IN_NAMES).items():
        if f"_{word}_" in f"_{joined}_":
            yield word, use


def in_text(text: str) -> Iterator[tuple[int, str, str]]:
    """The replaced words of a text: line from 0, word, the term to use."""
    for number, line in enumerate(text.splitlines()):
        for word in _text_word.findall(line):
            stem = word.lower().removesuffix("'s").removesuffix("’s")
            if stem in EVERYWHERE:
                yield number, stem, EVERYWHERE[stem]


def in_python(source: str, path: str) -> Iterator[Finding]:
    """The findings of a Python module."""
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 1)
        names = _defined(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _name.fullmatch(node.value):
                names = [node.value]
            else:
                yield from in_page(node.value, path, line)
        for name in names:
            for word, use in in_name(name):
                yield Finding(path=path, line=line, name=name, word=word, use=use)
        if isinstance(node, ast.ClassDef) and node.name in WHOLE_NAMES:
            use = WHOLE_NAMES[node.name]
            yield Finding(path=path, line=line, name=node.name, word=node.name, use=use)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from in_page(token.string, path, token.start[0])


def _defined(node: ast.AST) -> list[str]:
    """The names that a node of a syntax tree defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Attribute(attr=name, ctx=ast.Store()):
            return [name]
        case ast.alias(asname=str(name)):
            return [name]
        case _:
            return []


def in_page(text: str, path: str, first_line: int = 1) -> Iterator[Finding]:
    """The findings of a text, such as a Markdown page."""
    for number, word, use in in_text(text):
        yield Finding(path=path, line=first_line + number, name="", word=word, use=use)


def in_file_name(path: str) -> Iterator[Finding]:
    """The findings of a file's own name."""
    stem = Path(path).stem
    found = [*in_name(stem), *((stem, use) for name, use in WHOLE_NAMES.items() if name == stem)]
    for word, use in found:
        yield Finding(path=path, line=1, name=stem, word=word, use=use)


def allowed(finding: Finding) -> bool:
    """Whether the word has another, legitimate meaning there."""
    return any(
        fnmatch(finding.path, path) and (fnmatch(finding.word, one) or finding.name == one)
        for path, one, _ in ALLOWED
    )


def check(root: Path) -> list[Finding]:
    """All findings below a repository's root."""
    files = [root / page for page in PAGES]
    for folder in FOLDERS:
        files += sorted((root / folder).rglob("*"))
    findings: list[Finding] = []
    for file in files:
        if file.suffix not in SUFFIXES or not file.is_file():
            continue
        path = file.relative_to(root).as_posix()
        text = file.read_text(encoding="utf-8")
        findings += in_file_name(path)
        findings += in_python(text, path) if file.suffix == ".py" else in_page(text, path)
    return [finding for finding in findings if not allowed(finding)]


def main() -> int:
    """Print what is found."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
    missing = [name for name in (*FOLDERS, *PAGES) if not (root / name).exists()]
    if missing:
        sys.stderr.write(f"{root} is not the repository: it has no {', '.join(missing)}\n")
        return 2
    findings = check(root)
    sys.stdout.writelines(f"{finding}\n" for finding in findings)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

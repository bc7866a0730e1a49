"""Files as texts, with the names by which whoever wrote them knows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchestrator.errors import InvalidInput
from orchestrator.folders import read_text
from orchestrator.records import PlanFile
from orchestrator.records.plan_files import FORMAT


class NamedText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: its name, for messages, and its content."""

    file: str
    text: str


class ManifestSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file or folder that somebody has named, and the files that it stands for."""

    path: str
    files: tuple[NamedText, ...]


def read_sources(paths: Sequence[Path]) -> tuple[ManifestSource, ...]:
    """Read files, and of folders every `*.yaml` and `*.yml` in the order of their names.

    Raises
    ------
    InvalidInput
        One cannot be read, or a folder has none.
    """
    return tuple(
        ManifestSource(
            path=str(path),
            files=tuple(NamedText(file=str(f), text=read_text(f)) for f in _files(path)),
        )
        for path in paths
    )


def read_sql(file: Path) -> NamedText:
    """Read the statements that `vivace verify --sql` names.

    Raises
    ------
    InvalidInput
        The file cannot be read.
    """
    try:
        return NamedText(file=str(file), text=file.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        problem = "is not text in UTF-8"
    raise InvalidInput("command line", "--sql", str(file), problem, "Check the path.")


def read_plan(file: Path) -> PlanFile:
    """Read a plan that `vivace rebalance --out` has written.

    Raises
    ------
    InvalidInput
        The file cannot be read, or is no plan.
    """
    text = read_text(file)
    try:
        plan = msgspec.json.decode(text, type=PlanFile)
    except (msgspec.DecodeError, RecursionError) as error:
        remedy = "`vivace rebalance --out plan.json` writes one; manifests are named with -f."
        raise InvalidInput(str(file), "", None, f"is no plan: {error}", remedy) from None
    # Its digest says nothing of fields that a plan does not have.
    if plan.format == FORMAT and msgspec.json.decode(
        msgspec.json.encode(plan)
    ) != msgspec.json.decode(text):
        problem = "was changed: it has other fields than a plan"
        raise InvalidInput(str(file), "", None, problem, "A plan is applied as it was made.")
    return plan


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml"))
    if not files:
        raise InvalidInput(
            str(path), "", None, "holds no *.yaml or *.yml file", "Name another folder."
        )
    return files

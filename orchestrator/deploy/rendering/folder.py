"""A folder of rendered files: checked as a whole before the first one is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from orchestrator.documents.document import documents
from orchestrator.errors import InvalidInput
from orchestrator.folders import read_text
from orchestrator.manifest import ClusterManifest, cluster_record
from orchestrator.results.rendering import RenderedFile

PUBLIC, PROGRAM, SECRET = 0o644, 0o755, 0o600

LATENCIES = "latencies.csv"


@dataclass(frozen=True, slots=True)
class Text:
    """What a file is to hold, and who may read and run it."""

    text: str
    mode: int = PUBLIC


Texts = Mapping[str, Text]
"""Path below the folder → what stands there."""


def manifest_texts(manifest: ClusterManifest) -> dict[str, Text]:
    """A copy of the Cluster manifest, and of the table that it names.

    Raises
    ------
    InvalidInput
        The table cannot be used.
    """
    cluster_record(manifest)
    file = Path(manifest.file.rpartition(":")[0])
    (document,) = (each for each in documents(file) if _kind(each.node) == "Cluster")
    found: dict[str, Text] = {}
    if manifest.latencies is not None:
        found[LATENCIES] = Text(read_text(manifest.latencies))
        for key, value in document.node.value:
            if key.value == "latencies":
                value.value = LATENCIES
    return {"cluster.yaml": Text(_serialized(document.node)), **found}


_serialized: Callable[[yaml.Node], str] = vars(yaml)["serialize"]
"""A document as text, with each value as it was written; yaml gives the function no types."""


def _kind(node: yaml.Node) -> str:
    return next((value.value for key, value in node.value if key.value == "kind"), "")


def check_folder(out: Path, *, overwrite: bool) -> None:
    """Refuse a folder in which something lies already.

    Raises
    ------
    InvalidInput
        It is not empty, and nobody has permitted that; or it is no folder.
    """
    try:
        empty = not any(out.iterdir()) if out.exists() else True
    except OSError as error:
        problem, remedy = f"cannot be used ({error.strerror})", "Name a folder."
        raise InvalidInput("command line", "--out", str(out), problem, remedy) from None
    if not empty and not overwrite:
        problem, remedy = "is not empty", "Name another folder, or write --overwrite."
        raise InvalidInput("command line", "--out", str(out), problem, remedy)


def write(out: Path, texts: Texts) -> tuple[RenderedFile, ...]:
    """Write all files, in the order of their paths.

    Raises
    ------
    InvalidInput
        One cannot be written.
    """
    try:
        for path, each in sorted(texts.items()):
            _write(out / path, each)
    except OSError as error:
        problem = f"cannot be written ({error.strerror}: {error.filename})"
        raise InvalidInput("command line", "--out", str(out), problem, "Name a folder.") from None
    return tuple(
        RenderedFile(path=path, mode=f"{each.mode:04o}") for path, each in sorted(texts.items())
    )


def _write(file: Path, text: Text) -> None:
    """Write a file beside its place first: a secret is never readable, not even for a moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=SECRET, exist_ok=False)
    fresh.write_text(text.text, encoding="utf-8")
    fresh.chmod(text.mode)
    fresh.replace(file)


def left_over(out: Path, texts: Iterable[str]) -> tuple[str, ...]:
    """Remarks on files in the folder that are none of these."""
    known = {*texts}
    found = sorted(
        path
        for each in out.rglob("*")
        if each.is_file() and (path := each.relative_to(out).as_posix()) not in known
    )
    return (f"Not written by this command, and left there: {', '.join(found)}.",) if found else ()

"""What `vivace render` has written."""

from __future__ import annotations

from orchestrator.results.result import Result


class RenderedFile(Result, frozen=True, kw_only=True):
    """A file that was written.

    Attributes
    ----------
    path
        Below the folder.
    mode
        Who may read and run it, as `ls` has it in digits: `0600`.
    """

    path: str
    mode: str


class RenderDocument(Result, frozen=True, kw_only=True):
    """The files that start a cluster.

    Attributes
    ----------
    machines
        Machine → the processes that it runs.
    remarks
        What the reader may not expect.
    """

    cluster: str
    folder: str
    machines: dict[str, tuple[str, ...]]
    files: tuple[RenderedFile, ...]
    remarks: tuple[str, ...] = ()

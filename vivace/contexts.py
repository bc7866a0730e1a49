"""The clusters that somebody can reach, by name.

A *context* is the address of a cluster's HTTP API and the file of its token. Each is a file
`$VIVACE_HOME/contexts/<name>.json` that only its owner can read. `vivace up` writes that of a
cluster on this machine, and the cluster's end removes it. `vivace config` keeps the others.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from orchestrator.errors import EXIT_UNREACHABLE, InvalidInput, VivaceError
from orchestrator.folders import path_part, private_folder

TOKEN_FILE_VARIABLE = "VIVACE_TOKEN_FILE"
"""Names the file of the token in place of the context."""

NAME_VARIABLES = ("VIVACE_CONTEXT", "VIVACE_CLUSTER")
"""Either names the context; the first one wins."""

START = "`vivace up -f …` starts one, with `--data FOLDER` that of before"
"""What to do if no cluster runs."""


class NoCluster(VivaceError):
    """No cluster, or no cluster of that name, is known here."""

    exit_status = EXIT_UNREACHABLE


class SeveralClusters(VivaceError):
    """Several clusters are known here, and none was named."""


class Context(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach a cluster.

    Attributes
    ----------
    api
        Address of its HTTP API, such as `https://vivace.example:8650`; empty while a cluster on
        this machine starts.
    token_file
        Path of the file with the token; None: there is none.
    ca_file
        Certificates of whoever vouches for the API's own, in PEM; None: the system's.
    pid, logs
        The cluster's process, and the folder of its logs, if it runs on this machine.
    """

    api: str
    token_file: str | None = None
    ca_file: str | None = None
    pid: int | None = None
    logs: str = ""

    @property
    def ended(self) -> bool:
        """Whether its cluster ran on this machine, and has ended."""
        if self.pid is None:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False

    def token(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The token.

        Raises
        ------
        InvalidInput
            The file has none, or cannot be read.
        """
        named = environment.get(TOKEN_FILE_VARIABLE)
        path = named or self.token_file
        field = TOKEN_FILE_VARIABLE if named else "token_file"
        return None if path is None else read_token(Path(path), field)


def read_token(path: Path, field: str) -> str:
    """The token in a file; `field` is what has named the file.

    Raises
    ------
    InvalidInput
        The file has none, or cannot be read.
    """
    problem = "holds no token"
    try:
        if token := path.read_text(encoding="utf-8").strip():
            return token
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        problem = "is not text in UTF-8"
    remedy = "`vivace token create` makes a token: write it there."
    raise InvalidInput("context", field, str(path), problem, remedy)


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """Folder of what is known of clusters."""
    return Path(environment.get("VIVACE_HOME") or Path.home() / ".vivace")


def known(folder: Path) -> dict[str, Context]:
    """The contexts by name; those of clusters that have ended are removed."""
    found = {path.stem: _read(path) for path in sorted((folder / "contexts").glob("*.json"))}
    for name in [name for name, context in found.items() if context is None or context.ended]:
        if found.pop(name) is not None:
            remove(name, folder)
    return {name: context for name, context in found.items() if context is not None}


def used(folder: Path) -> str | None:
    """The context that `vivace config use` has chosen."""
    try:
        return _used(folder).read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def use(name: str, folder: Path) -> None:
    """Have a context be meant where none is named.

    Raises
    ------
    NoCluster
        There is none of that name.
    """
    find(name, folder)
    _write(_used(folder), name.encode())


def find(name: str | None, folder: Path) -> tuple[str, Context]:
    """A context and its name: that one, else the chosen one, else the only one.

    Raises
    ------
    NoCluster
        There is no such context, or none at all.
    SeveralClusters
        There are several, and none was chosen.
    """
    contexts = known(folder)
    name = name or used(folder)
    if name is None and len(contexts) == 1:
        (name,) = contexts
    if name is not None and name in contexts:
        return name, contexts[name]
    if name is None and not contexts:
        raise NoCluster(f"no cluster is running here; {START}")
    names = ", ".join(contexts) or "none"
    if name is None:
        raise SeveralClusters(
            f"several clusters are known here ({names}); name one with --context, or choose one "
            "with `vivace config use`"
        )
    raise NoCluster(
        f"no cluster named {name!r} is known here; there is {names}. "
        "`vivace config add` names one that runs elsewhere"
    )


def add(name: str, context: Context, folder: Path) -> None:
    """Keep a context, in place of one of the same name.

    Raises
    ------
    InvalidInput
        Its name or address is none.
    """
    try:
        path_part(name)
    except ValueError:
        remedy = "Write letters, digits, hyphens, underscores and dots."
        raise InvalidInput("context", "NAME", name, "is no name", remedy) from None
    parts = urlsplit(context.api)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        remedy = "Write http://HOST:PORT or https://HOST:PORT."
        raise InvalidInput("context", "api", context.api, "is no address", remedy)
    _write(_path(name, folder), msgspec.json.encode(context))


def add_local(name: str, context: Context, token: str, folder: Path) -> None:
    """Keep the context of a cluster that runs on this machine, with its token."""
    path = _path(name, folder)
    token_file = path.with_suffix(".token")
    _write(token_file, token.encode())
    local = msgspec.structs.replace(context, token_file=str(token_file.absolute()))
    _write(path, msgspec.json.encode(local))


def remove(name: str, folder: Path) -> None:
    """Forget a context, and the token of a cluster that ran on this machine."""
    path = _path(name, folder)
    for each in (path, path.with_suffix(".token")):
        each.unlink(missing_ok=True)
    if used(folder) == name:
        _used(folder).unlink(missing_ok=True)


def _path(name: str, folder: Path) -> Path:
    return folder / "contexts" / f"{path_part(name)}.json"


def _used(folder: Path) -> Path:
    return folder / "contexts" / "used"


def _read(path: Path) -> Context | None:
    """The context in a file; None if it has just been removed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Context)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise VivaceError(f"{path}: is no context ({error}); remove it") from None
    except OSError as error:
        raise VivaceError(f"{path}: cannot be read ({error.strerror})") from None


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; nobody reads half of it."""
    fresh = private_folder(path.parent) / f".{path.name}-{secrets.token_hex(4)}"
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    fresh.replace(path)

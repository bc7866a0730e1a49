"""Addresses at which a site listens for clients, and the tokens that it asks them for.

A site listens on the loopback interface unless the manifest names another address. There, everybody
on the network could reach it, so a token is asked for: a file that the site can read. The store and
logs never hold a token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from pathlib import Path

from orchestrator.documents.document import Field
from orchestrator.edges.drivers import DriverError
from orchestrator.records import Record

LOOPBACK = "127.0.0.1"

MAX_PORT = 65535

LEAST_TOKEN = 16
"""Characters of a token; shorter ones can be guessed."""

MOST_TOKEN = 4096

_endpoint = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):)?([0-9]{1,5})")


class Endpoint(Record, frozen=True, kw_only=True):
    """An address and a port; port 0 stands for any that is free."""

    host: str = LOOPBACK
    port: int = 0

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only processes of this machine reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def read_endpoint(field: Field) -> Endpoint:
    """The field `listen`: a port, or `address:port`.

    Raises
    ------
    InvalidInput
        It is neither.
    """
    if (endpoint := parse_endpoint(str(field.node.value))) is None:
        field.refuse(
            "is no address to listen at", "Write a port, such as 9000, or 0.0.0.0:9000; 0 for any."
        )
    return endpoint


def parse_endpoint(text: str) -> Endpoint | None:
    """A port, at which only this machine reaches it, or `address:port`; None if it is neither."""
    found = _endpoint.fullmatch(text)
    if found is None or int(found[2]) > MAX_PORT:
        return None
    return Endpoint(host=(found[1] or LOOPBACK).strip("[]"), port=int(found[2]))


def need_token(listen: Field | None, endpoint: Endpoint, token_file: str | None) -> None:
    """Refuse an address that others reach without a token."""
    if listen is not None and not endpoint.is_local and token_file is None:
        listen.refuse(
            "can be reached from other machines, and asks for no token",
            "Add `tokenFile`, a file that the site can read, or listen at 127.0.0.1.",
        )


def read_token(path: str | None) -> str | None:
    """The token in a file; None without one.

    Raises
    ------
    DriverError
        The file cannot be read, or holds no token.
    """
    if path is None:
        return None
    try:
        with Path(path).open(encoding="ascii") as file:
            token = file.read(MOST_TOKEN).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII text"
        raise DriverError(f"the token file {path} cannot be read ({why})") from None
    if len(token) < LEAST_TOKEN:
        raise DriverError(f"the token file {path} holds fewer than {LEAST_TOKEN} characters")
    return token


def same_token(given: str, wanted: str) -> bool:
    """Whether two tokens are equal; takes equally long wherever they differ."""
    return hmac.compare_digest(given.encode(), wanted.encode())

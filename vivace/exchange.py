"""What sending and reading share: the connection to a site, its errors, and when to try again."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

ARROW = "application/vnd.apache.arrow.stream"
COMMIT, ABORT = "application/vnd.vivace.commit+json", "application/vnd.vivace.abort+json"

RESPONSE_S = 60.0
"""How long a site may take for one response."""

FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 2.0


class Refused(Exception):
    """The site does not take it, now or later.

    Attributes
    ----------
    status
        Of HTTP.
    """

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status


class Unavailable(Exception):
    """The site was away or full for too long. The batch may have entered: send it again with the
    same number."""


class Place:
    """Where a site is, and what it asks for.

    Parameters
    ----------
    secure
        Whether it speaks HTTPS.
    authority
        Host and port.
    token
        What it asks for; None: nothing.
    patience_s
        How long it may be away or full.
    """

    def __init__(
        self, *, secure: bool, authority: str, token: str | None, patience_s: float
    ) -> None:
        self._secure, self._authority = secure, authority
        self.address = f"{'https' if secure else 'http'}://{authority}"
        self.headers: Mapping[str, str] = (
            {} if token is None else {"Authorization": f"Bearer {token}"}
        )
        self.patience_s = patience_s

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is not open yet."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._authority, timeout=timeout_s)


class Patience:
    """How long to try again, and when.

    Parameters
    ----------
    address
        Of the site, for the error.
    patience_s
        From the first failure after a success.
    sleep
        Waits.
    """

    def __init__(
        self, address: str, patience_s: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._address, self._patience_s = address, patience_s
        self._sleep = sleep
        self.succeeded()

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._waited_s, self._next_s = 0.0, FIRST_RETRY_S

    def failed(self, error: Exception) -> None:
        """Wait, or raise if it has lasted too long."""
        if self._waited_s >= self._patience_s:
            problem = f"{self._address} was away or full for {self._waited_s:.0f} s: {error}"
            raise Unavailable(problem) from error
        self._sleep(self._next_s)
        self._waited_s += self._next_s
        self._next_s = min(2 * self._next_s, LONGEST_RETRY_S)


def problem(document: bytes) -> str:
    """The sentence in a response."""
    try:
        return str(json.loads(document)["error"])
    except (ValueError, KeyError, TypeError):
        return document[:200].decode("utf-8", "replace")


def refuse(status: int, document: bytes) -> NoReturn:
    """Raise what a response says."""
    raise Refused(status, problem(document))

"""What sending and reading share: the connection to a site, its errors, and when to try again."""

from __future__ import annotations

import copy
import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import urlsplit

ARROW = "application/vnd.apache.arrow.stream"
COMMIT, ABORT = "application/vnd.vivace.commit+json", "application/vnd.vivace.abort+json"

RESPONSE_S, SHORT_RESPONSE_S = 60.0, 30.0
"""How long a site may take for one response, and how long if there is another one. A site that
waits for consumers gives up after 20 s."""

ELSEWHERE = (
    *(HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS),
    *(HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT),
)
"""What is said where a stream is not, or not yet; some of it by what stands before a site."""

FIRST_RETRY_S, LONGEST_RETRY_S = 0.05, 2.0


class Refused(Exception):
    """The site does not take it, now or later.

    Attributes
    ----------
    status
        Of HTTP.
    entered
        Tuples of the same `send` that had entered before: those of its first pieces.
    """

    def __init__(self, status: int, problem: str, entered: int = 0) -> None:
        super().__init__(problem)
        self.status = status
        self.entered = entered


class Unavailable(Exception):
    """The site was away or full for too long. The batch may have entered: send it again with the
    same number."""


Address = str | Callable[[], str]
"""Such as `http://HOST:PORT`; or a function that finds it, and raises `ConnectionError` while there
is none."""


class SiteAddresses:
    """Where a site is, and what it asks for; of several sites, one at a time has the stream.

    Parameters
    ----------
    addresses
        Of the sites. Those that are found are found again for each connection.
    token
        What sites ask for; None: nothing.
    patience_s
        How long they may be away or full.

    Attributes
    ----------
    found
        Streams that were found there, by whom ever it was copied for. A site that has just started
        opens one after the other: who has found a stream waits for it.

    Raises
    ------
    ValueError
        One is no such address.
    """

    def __init__(
        self, addresses: Sequence[Address], *, token: str | None, patience_s: float
    ) -> None:
        for each in addresses:
            if isinstance(each, str):
                _site(each)
        self._addresses = addresses
        self._at = 0
        self.found: set[str] = set()
        self.headers: Mapping[str, str] = (
            {} if token is None else {"Authorization": f"Bearer {token}"}
        )
        self.patience_s = patience_s

    @property
    def address(self) -> str:
        """All addresses, for errors."""
        known = [each for each in self._addresses if isinstance(each, str)]
        return " or ".join(known) or "the site"

    @property
    def may_be_elsewhere(self) -> bool:
        """Whether another site may have what this one does not, or this one another address."""
        return len(self._addresses) > 1 or not isinstance(self._addresses[0], str)

    @property
    def response_s(self) -> float:
        """How long a response may take: a machine that is gone gives none."""
        return SHORT_RESPONSE_S if self.may_be_elsewhere else RESPONSE_S

    def copy(self) -> SiteAddresses:
        """The same, for someone else who looks for the site that has a stream."""
        return copy.copy(self)

    def turn(self) -> None:
        """Go to the next site."""
        self._at = (self._at + 1) % len(self._addresses)

    def connection(self, timeout_s: float | None = None) -> http.client.HTTPConnection:
        """A connection that is not open yet.

        Raises
        ------
        ConnectionError
            The site's address cannot be found now.
        """
        address = self._addresses[self._at]
        scheme, authority = _site(address if isinstance(address, str) else address())
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        return kind(authority, timeout=self.response_s if timeout_s is None else timeout_s)


def _site(address: str) -> tuple[str, str]:
    """Scheme, and host with port."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"{address!r} is no address of a site; write http://HOST:PORT")
    return parts.scheme, parts.netloc


class Patience:
    """How long to try again, and when.

    Parameters
    ----------
    address
        Of the site, for the error.
    patience_s
        From the beginning, or the last success: requests that wait for a response count, too.
    sleep, now_s
        Waits; a clock that never goes back.
    """

    def __init__(
        self,
        address: str,
        patience_s: float,
        sleep: Callable[[float], None] = time.sleep,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address, self._patience_s = address, patience_s
        self._sleep, self._now_s = sleep, now_s
        self.succeeded()

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._since_s, self._next_s = self._now_s(), FIRST_RETRY_S

    def failed(self, error: Exception) -> None:
        """Wait, or raise if it has lasted too long."""
        waited_s = self._now_s() - self._since_s
        if waited_s >= self._patience_s:
            problem = f"{self._address} was away or full for {waited_s:.0f} s: {error}"
            raise Unavailable(problem) from error
        self._sleep(self._next_s)
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


def look_elsewhere(place: SiteAddresses, stream: str, status: int, document: bytes) -> NoReturn:
    """Raise what a response says: `Refused`, unless the stream may be found later or elsewhere."""
    is_absent = status in ELSEWHERE and place.may_be_elsewhere
    if is_absent or (status == HTTPStatus.NOT_FOUND and stream in place.found):
        raise ConnectionError(problem(document))
    refuse(status, document)

"""Options of the Spark data source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname

from vivace.client import Site, site
from vivace.stream import Stream

PATIENCE_S = 600.0
"""How long a site may be away or full until Spark's query fails."""

NAMES = (
    *("address", "stream", "token", "tokenFile", "patience", "path", "timestamp", "names", "id"),
    *("startingOffsets", "maxRowsPerBatch", "maxBytesPerBatch"),
    *("startingTimestamp", "endingTimestamp", "partitions"),
)
"""Of all options."""

SPARKS_NAMES = ("checkpointLocation", "queryName")
"""Of those that Spark passes on, which are its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a source or sink.

    Attributes
    ----------
    address
        Of the site's HTTP server; executors must reach it.
    stream
        To write to, or to read from.
    token
        What the site asks for.
    patience_s
        How long the site may be away or full.
    """

    address: str
    stream: str
    token: str | None
    patience_s: float
    given: Mapping[str, str]

    @staticmethod
    def read(given: Mapping[str, str]) -> Options:
        """Options as Spark has them.

        Raises
        ------
        ValueError
            Saying which one is missing, wrong or unknown.
        """
        named = by_name(given)
        for name in ("address", "stream"):
            if not named.get(name):
                raise ValueError(f'vivace: the option "{name}" is missing')
        token = named.get("token")
        if "tokenfile" in named:
            token = _read_token(named["tokenfile"])
        return Options(
            address=named["address"],
            stream=named["stream"],
            token=token,
            patience_s=_seconds(named.get("patience", str(PATIENCE_S))),
            given=named,
        )

    def whole(self, name: str, *, positive: bool = False) -> int | None:
        """An option that is a whole number; None if it is not given."""
        text = self.given.get(name.lower())
        if text is None:
            return None
        try:
            found = int(text)
        except ValueError:
            raise ValueError(f'vivace: the option "{name}" is {text!r}, no whole number') from None
        if positive and found < 1:
            raise ValueError(f'vivace: the option "{name}" is {text!r}; write 1 or more')
        return found

    @property
    def site(self) -> Site:
        """The site."""
        return site(self.address, token=self.token, patience_s=self.patience_s)

    def sender(self, client: str) -> Stream:
        """The stream to write to, under the name of a client."""
        opened = site(self.address, token=self.token, client=client, patience_s=self.patience_s)
        return opened.stream(self.stream)


def by_name(given: Mapping[str, str]) -> dict[str, str]:
    """Options by their names in small letters, in which Spark passes them on.

    Raises
    ------
    ValueError
        Naming one that is unknown, and those that are known.
    """
    known = {name.lower() for name in (*NAMES, *SPARKS_NAMES)}
    if unknown := [name for name in given if name.lower() not in known]:
        raise ValueError(f'vivace: there is no option "{unknown[0]}"; there are {", ".join(NAMES)}')
    return {name.lower(): value for name, value in given.items()}


def _read_token(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ValueError(
            f'vivace: the option "tokenFile" is {path!r}, which cannot be read at {gethostname()} '
            f"({why}); all processes of Spark read it: with Spark Connect, those of the server"
        ) from None


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise ValueError(f'vivace: the option "patience" is {text!r}, no number of seconds')
    return found

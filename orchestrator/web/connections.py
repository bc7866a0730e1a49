"""Connections of clients: how many there may be, and how long one may be idle.

uvicorn ends a connection that is idle after a response, and none on which no request ever comes,
or only a part of its head.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_CONNECTIONS = 600
"""Those of all streams, and of many requests; a process may open about a thousand files."""

IDLE_S = 10.0
"""A connection on which no request has come, or is under way, for so long is ended."""


class BoundedConnection(H11Protocol):
    """See the module; ended is also what cannot be accepted."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        else:
            self._look_later()

    def _look_later(self) -> None:
        self.loop.call_later(IDLE_S, self._look, self.cycle)

    def _look(self, before: RequestResponseCycle | None) -> None:
        """End the connection if no request has come since the last look, and none is under way."""
        if self.transport.is_closing():
            return
        if self.cycle is before and (before is None or before.response_complete):
            self.transport.close()
        else:
            self._look_later()

"""Errors of the HTTP API: which status tells of which, and those that only it has."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from orchestrator.errors import (
    InvalidInput,
    Outdated,
    Refused,
    Unreachable,
    VivaceError,
)
from orchestrator.store.protocol import AccessDenied, StoreError, StoreUnavailable

REQUEST = "request"
"""The file that errors name if the request itself is wrong."""

RETRY_S = 2
"""After which a client tries again what was not there."""


class RequestFailed(VivaceError):
    """A request that the API does not pass on.

    Attributes
    ----------
    status
        Of the response.
    retry_s
        After which the client may try again; None: it is of no use.
    """

    status = HTTPStatus.BAD_REQUEST

    def __init__(self, message: str, retry_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class Unauthorized(RequestFailed):
    """The request has no token, or none that is known."""

    status = HTTPStatus.UNAUTHORIZED


class Forbidden(RequestFailed):
    """The token does not permit that."""

    status = HTTPStatus.FORBIDDEN


class NotFound(RequestFailed):
    """There is no such thing."""

    status = HTTPStatus.NOT_FOUND

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(f"{kind} {name!r} {problem}")


class TooMany(RequestFailed):
    """The token has asked too often."""

    status = HTTPStatus.TOO_MANY_REQUESTS


class Busy(RequestFailed):
    """The process has too much to do, or something took too long."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


def status_of(error: BaseException, given: Mapping[str, str]) -> HTTPStatus:
    """The status that tells of an error.

    Parameters
    ----------
    given
        What stands in the path of the request: a name that is wrong there is not found.
    """
    match error:
        case RequestFailed():
            return error.status
        case msgspec.MsgspecError() | UnicodeDecodeError():
            return HTTPStatus.BAD_REQUEST
        case InvalidInput():
            in_path = error.file != REQUEST and error.value in given.values()
            return HTTPStatus.NOT_FOUND if in_path else HTTPStatus.BAD_REQUEST
        case Outdated():
            return HTTPStatus.CONFLICT
        case Unreachable() | StoreUnavailable() | AccessDenied():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case StoreError():
            return HTTPStatus.CONFLICT
        case Refused() | VivaceError():
            return HTTPStatus.UNPROCESSABLE_ENTITY
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR


def retry_after_s(error: BaseException, status: HTTPStatus) -> int | None:
    """After how long the same request may succeed; None: nobody knows."""
    if isinstance(error, RequestFailed):
        return error.retry_s
    return RETRY_S if status is HTTPStatus.SERVICE_UNAVAILABLE else None

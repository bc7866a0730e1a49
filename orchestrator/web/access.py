"""Who may ask: tokens, and what each permits."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from orchestrator.operations.operation import AccessRole
from orchestrator.web.failures import Forbidden, Unauthorized

LOCAL = "start"
"""The id of the token that the process was started with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Whose token a request has, and where it comes from."""

    token: str
    role: AccessRole
    address: str

    def __str__(self) -> str:
        return f"{self.token}@{self.address}"

    def check(self, role: AccessRole) -> None:
        """Refuse what the token does not permit.

        Raises
        ------
        Forbidden
            It does not.
        """
        if role is AccessRole.OPERATE and self.role is not AccessRole.OPERATE:
            raise Forbidden(f"token {self.token} permits to read, and this changes something")


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Access:
    """Knows tokens by their digests.

    Parameters
    ----------
    own
        The token that the process was started with, which may operate; None: there is none.
    """

    def __init__(self, own: str | None) -> None:
        self._own = None if own is None else digest(own)

    def author(self, authorization: str, address: str) -> Author:
        """Whose request it is, by its header `Authorization`.

        Raises
        ------
        Unauthorized
            It has no token, or none that is known.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("the request has no token: send `Authorization: Bearer TOKEN`")
        given = digest(token.strip())
        if self._own is not None and hmac.compare_digest(given, self._own):
            return Author(token=LOCAL, role=AccessRole.OPERATE, address=address)
        raise Unauthorized("the token is unknown")

"""Tokens of the HTTP API: random, kept as digests only, each with a role and an end."""

from __future__ import annotations

import hashlib
import secrets

import msgspec

from foundation.suggestions import nearest
from orchestrator.api.connection import Cluster
from orchestrator.control.observe.clocks import cluster_now_us
from orchestrator.control.observe.view import read_view
from orchestrator.errors import InvalidInput
from orchestrator.operations.parameters import TokenParameters
from orchestrator.records import HistoryEvent, TokenRecord
from orchestrator.results.tokens import NewToken, TokenDocument, TokensDocument
from orchestrator.store.overtaken import until_not_overtaken
from orchestrator.store.protocol import TOKENS

TOKEN_BYTES = 32

DAY_US = 86_400_000_000


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def create_token(cluster: Cluster, asked: TokenParameters) -> NewToken:
    """Draw a token."""
    token, name = secrets.token_urlsafe(TOKEN_BYTES), f"t-{secrets.token_hex(4)}"
    now_us = cluster_now_us(read_view(cluster.store).cluster_clocks)
    record = TokenRecord(
        sha256=digest(token),
        role=asked.role,
        created_us=now_us,
        expires_us=None if asked.days is None else now_us + round(asked.days * DAY_US),
        note=asked.note,
    )
    cluster.store.create(TOKENS.key(name), record)
    _note(cluster, "token created", name, f"may {asked.role}")
    return msgspec.convert(
        {**msgspec.structs.asdict(_document(name, record)), "token": token}, NewToken
    )


def tokens(cluster: Cluster) -> TokensDocument:
    """The tokens there are, those that have expired included."""
    found = cluster.store.list(TOKENS).records
    return TokensDocument(
        tokens=tuple(_document(name, each.record) for name, each in sorted(found.items()))
    )


def revoke_token(cluster: Cluster, name: str) -> TokensDocument:
    """Have a token permit nothing any more; the tokens that are left.

    Raises
    ------
    InvalidInput
        There is no such token.
    """

    def change() -> None:
        known = cluster.store.list(TOKENS).records
        if name not in known:
            raise InvalidInput("", "token", name, "is no token", nearest(name, known))
        cluster.store.delete(TOKENS.key(name), known[name].version)

    until_not_overtaken(TOKENS.key(name).path, change)
    _note(cluster, "token revoked", name, "")
    return tokens(cluster)


def _document(name: str, record: TokenRecord) -> TokenDocument:
    return TokenDocument(
        id=name,
        role=record.role,
        created_us=record.created_us,
        expires_us=record.expires_us,
        note=record.note,
    )


def _note(cluster: Cluster, kind: str, subject: str, detail: str) -> None:
    at_us = cluster_now_us(read_view(cluster.store).cluster_clocks)
    event = HistoryEvent(at_us=at_us, kind=kind, subject=subject, detail=detail, by=cluster.by)
    cluster.store.append_history(event)

"""What a support bundle leaves out."""

from __future__ import annotations

import pytest

from orchestrator.results.redaction import LEFT_OUT, redacted, redacted_text


def test_fields_of_secrets_and_of_content_are_left_out() -> None:
    given = {
        "token": "abc", "token_file": "/run/token", "secret": "s", "sha256": "0" * 64,
        "inner": [{"db_password": "p", "name": "n", "last_rejected": "line 3: 'geheim'"}],
        "first_missing": [{"x": 1}], "note": None, "tokens": 3,
    }  # fmt: skip
    assert redacted(given) == {
        "token": LEFT_OUT, "token_file": "/run/token", "secret": LEFT_OUT, "sha256": LEFT_OUT,
        "inner": [{"db_password": LEFT_OUT, "name": "n", "last_rejected": LEFT_OUT}],
        "first_missing": LEFT_OUT, "note": None, "tokens": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'evaluation failed: q.f cannot be evaluated at 3 ms: geheim; [{"a": "geheim"}]',
        '2 more, 2 in all; last at 5 ms, overflow; tuples 1 of r: [{"v": "geheim"}]',
        'chunk differs: [{"v": "geheim", "w": [1, 2]}] …',
        "http malformed: no JSON: geheim",
        "GET /x Authorization: Bearer geheimgeheim",
        "started with secret=geheimgeheim",
    ],
)
def test_messages_keep_what_happened_without_tuples_and_secrets(text: str) -> None:
    told = redacted_text(text)
    assert "geheim" not in told
    assert LEFT_OUT in told


def test_other_messages_stay_as_they_are() -> None:
    text = "paris → lyon, epoch 4, silent; the token of web is in a file"
    assert redacted_text(text) == text

"""URIs of folders: which of them lead somewhere, and that none shows credentials."""

from __future__ import annotations

import pytest

from orchestrator.checkpoints.remote_folder import SecretInUri, check_uri


@pytest.mark.parametrize(
    "uri",
    [
        # Its region would have to be asked for; a check asks nobody.
        "s3://bucket/path",
        "s3://bucket",
        "s3://bucket/path?",
        "s3://bucket/path?region=eu-central-1",
        "s3://bucket/path?endpoint_override=minio:9000&scheme=http",
        "gs://bucket/path",
        "abfs://container@account.dfs.core.windows.net/path",
        "file:///srv/state",
    ],
)
def test_a_uri_that_leads_to_a_file_system_is_taken(uri: str) -> None:
    check_uri(uri)


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("nowhere://bucket", "nowhere"),
        ("s3://", "it names no bucket"),
        ("s3:///path", "it names no bucket"),
        ("s3://bucket/path?nonsense=1", "nonsense"),
        ("s3://bucket/path?scheme=gopher", "gopher"),
        ("s3://bucket/a path", "Cannot parse URI"),
    ],
)
def test_a_uri_that_leads_nowhere_says_why(uri: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_uri(uri)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://AKIA:hidden@bucket/path", "s3://…@bucket/path"),
        ("s3://AKIA:hid/den+@bucket/path?region=x", "s3://…@bucket/path?region=x"),
        ("s3://hidden@bucket/path", "s3://…@bucket/path"),
        ("s3://bucket?secret_key=hidden&region=x", "s3://bucket?secret_key=…&region=x"),
        ("abfs://:hidden@account/path", "abfs://…@account/path"),
        ("abfs://c@a/path?client_secret=hidden", "abfs://c@a/path?client_secret=…"),
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(uri: str, shown: str) -> None:
    with pytest.raises(SecretInUri) as refused:
        check_uri(uri)
    assert refused.value.shown == shown
    assert "hidden" not in str(refused.value)

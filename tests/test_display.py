"""What people are shown: no secret of a URL, whatever characters it has."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dedup.display import SecretFormatter, hide_secrets

PASSWORDS = ("secret", "se/cr/et", "se@cret", "se%2Fcr%40et", "/@%/@", "s:e:c", "sé'cr\"et", "://@")


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("scheme", ["s3a", "hdfs", "FTP", "abfss"])
def test_a_password_is_hidden_and_the_rest_is_not(scheme, password):
    text = f"--input: {scheme}://me:{password}@place:8020/folder/x cannot be read (for a reason); mend it"

    assert hide_secrets(text) == f"--input: {scheme}://place:8020/folder/x cannot be read (for a reason); mend it"


@given(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1))
def test_any_password_without_white_space_is_hidden(password):
    assert hide_secrets(f"in s3a://me:{password}@bucket/x") == "in s3a://bucket/x"


def test_a_user_without_a_password_is_hidden():
    assert hide_secrets("ftp://me@host/x and sftp://you@there") == "ftp://host/x and sftp://there"


@pytest.mark.parametrize(
    "text",
    [
        "s3a://bucket/day@2026/x",
        "abfs://container@account.net/x",
        "hdfs://name:8020/x",
        "/local/me:you@x",
        "me@example.org: no URL",
    ],
)
def test_what_is_no_user_stays(text):
    assert hide_secrets(text) == text


def test_logs_and_their_tracebacks_hide_them_too():
    error = ValueError("s3a://me:se/cret@bucket/x")
    trace = (ValueError, error, None)
    record = logging.LogRecord("dedup", logging.ERROR, "", 0, "%s: odd", ("s3a://me:se@cret@b",), trace)
    said = SecretFormatter("%(message)s").format(record)

    assert said == "s3a://b: odd\nValueError: s3a://bucket/x"

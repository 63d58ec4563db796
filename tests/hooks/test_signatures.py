"""Messages are signed as Standard Webhooks says, and a receiver drops forged and old ones."""

import base64
import secrets
import subprocess

import pytest

from takeup.net.signatures import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    BadSecret,
    NotGenuine,
    headers_of,
    key_of,
    new_secret,
    verify,
)

NOW = 1_900_000_000
BODY = b'{"type":"job.completed"}'


def test_s118_a_signature_is_what_another_program_computes():
    secret = new_secret(secrets.token_bytes)
    key = base64.b64decode(secret.removeprefix("whsec_")).hex()
    made = subprocess.run(
        ["openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", f"hexkey:{key}", "-binary"],  # noqa: S607
        input=f"msg_1.{NOW}.".encode() + BODY,
        capture_output=True,
        check=True,
    ).stdout
    headers = headers_of([secret], "msg_1", NOW, BODY)
    assert headers == {ID: "msg_1", TIMESTAMP: str(NOW), SIGNATURE: f"v1,{base64.b64encode(made).decode()}"}
    assert verify(secret, {name.title(): value for name, value in headers.items()}, BODY, now=NOW) == "msg_1"


def test_s118_s119_forged_changed_and_old_messages_are_dropped():
    secret = new_secret(secrets.token_bytes)
    good = headers_of([secret], "msg_1", NOW, BODY)
    for headers, body, now in (
        (good, BODY + b" ", NOW),
        ({**good, ID: "msg_2"}, BODY, NOW),
        ({**good, TIMESTAMP: str(NOW + 1)}, BODY, NOW),
        ({**good, SIGNATURE: "v1,AAAA"}, BODY, NOW),
        ({**good, SIGNATURE: good[SIGNATURE].replace("v1", "v0")}, BODY, NOW),
        ({**good, SIGNATURE: ""}, BODY, NOW),
        ({**good, TIMESTAMP: "soon"}, BODY, NOW),
        ({}, BODY, NOW),
        (good, BODY, NOW + 301),
        (good, BODY, NOW - 301),
        (headers_of([new_secret(secrets.token_bytes)], "msg_1", NOW, BODY), BODY, NOW),
    ):
        with pytest.raises(NotGenuine):
            verify(secret, headers, body, now=now)
    assert verify(secret, good, BODY, now=NOW + 299) == "msg_1"


def test_s120_while_a_secret_is_renewed_both_are_good():
    old, new = new_secret(secrets.token_bytes), new_secret(secrets.token_bytes)
    headers = headers_of([new, old], "msg_1", NOW, BODY)
    assert len(headers[SIGNATURE].split(" ")) == 2
    for secret in (old, new):
        assert verify(secret, headers, BODY, now=NOW) == "msg_1"


def test_a_secret_has_enough_bytes_and_is_never_repeated_in_an_error():
    assert len(key_of(new_secret(secrets.token_bytes))) == 32
    short, long = (base64.b64encode(b"k" * size).decode() for size in (23, 65))
    for wrong in (
        f"whsec_{short}",
        f"whsec_{long}",
        new_secret(secrets.token_bytes)[6:],
        "whsec_!?",
        "",
        "whsec_\xfc",
    ):
        with pytest.raises(BadSecret) as caught:
            key_of(wrong)
        assert not wrong or wrong not in str(caught.value)

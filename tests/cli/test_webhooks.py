"""`takeup webhooks`: secrets are printed once, and what is printed later does not give them away."""

import pytest

from tests.cli.conftest import Call, with_store

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
URL = "https://1.1.1.1/hook"


def test_webhooks_are_managed_from_the_command_line(call: Call, url: str):
    there = ("--database", url)
    (made,) = call("webhooks", "add", URL, "--event", "job.failed", "--json", *there).json
    webhook_id, secret = made["id"], made["secret"]
    assert secret.startswith("whsec_")
    listed = call("webhooks", "list", *there)
    assert all(word in listed.out for word in (webhook_id, URL, "job.failed", "active", f"…{secret[-4:]}"))
    assert secret not in listed.out
    renewed = call("webhooks", "rotate", webhook_id, *there).out.split()
    assert (renewed[0], renewed[1] != secret) == (webhook_id, True)
    assert "is disabled" in call("webhooks", "disable", webhook_id, *there).out
    refused = call("webhooks", "test", webhook_id, *there)
    assert (refused.code, "Enable it first" in refused.err) == (1, True)
    assert call("webhooks", "enable", webhook_id, "--json", *there).json == {"changed": [webhook_id]}
    assert "is sent a test" in call("webhooks", "test", webhook_id, *there).out
    (sent,) = call("webhooks", "deliveries", webhook_id, "--json", *there).json
    assert (sent["event"], sent["status"]) == ("test", "WAITING")
    assert "WAITING" in call("webhooks", "deliveries", webhook_id, *there).out
    assert call("webhooks", "remove", webhook_id, *there).out == f"{webhook_id} is removed\n"
    assert with_store(url, lambda store: store.webhooks.list()) == []


def test_what_cannot_be_a_webhook_is_one_line(call: Call, url: str):
    for address, says in (
        ("https://127.0.0.1/", "is not a public one"),
        ("http://1.1.1.1/", "plain http is not allowed"),
        ("https://1.1.1.1:22/", "port 22 is not one"),
    ):
        told = call("webhooks", "add", address, "--database", url)
        assert (told.code, told.out) == (1, "")
        assert says in told.err
    told = call("webhooks", "add", URL, "--event", "moon.rise", "--database", url)
    assert "'moon.rise' is no event" in told.err

"""Which addresses may be called; tests carry the row of the list of attacks."""

from ipaddress import ip_address, ip_network

import pytest

from takeup.core.errors import InvalidInput
from takeup.net.guard import Forbidden, Guard, networks

STRICT = Guard()

S111 = [
    "127.0.0.1",
    "127.8.9.10",
    "0.0.0.0",  # noqa: S104 - nobody binds it, it is refused
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "255.255.255.255",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "a.localhost",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.1",
    "127.0.0.1.",
    "[::1]",
    "[::]",
    "[fc00::1]",
    "[fd12:3456::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2001::1]",
    "[2001:db8::1]",
    "[ff02::1]",
]


@pytest.mark.parametrize("host", S111)
def test_s111_nothing_of_this_machine_or_its_network(host: str):
    with pytest.raises(Forbidden) as caught:
        STRICT.target(f"https://{host}/hook")
    assert caught.value.http_status == 422
    assert "webhook_allowed_networks" in caught.value.help


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("example.org", "example.org"),
        ("EXAMPLE.org.", "example.org"),
        ("1.1.1.1", "1.1.1.1"),
        ("[2606:4700::1111]", "2606:4700::1111"),
        ("[64:ff9b::1.1.1.1]", "64:ff9b::101:101"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_public_hosts_have_one_spelling(host: str, meant: str):
    target = STRICT.target(f"https://{host}/hook?a=b")
    assert (target.host, target.port, target.path, target.is_secure) == (meant, 443, "/hook?a=b", True)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "//example.org/",
        "example.org",
        "https://user@example.org/",
        "https://user:pass@example.org/",
        "https://example.org:22/",
        "https://example.org:25/",
        "https://example.org:6379/",
        "https://example.org:5432/",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://example.org:x/",
        "https:///path",
        "https://exa mple.org/",
        "https://example.org/a\r\nHost: x",
        "https://example.org\\@127.0.0.1/",
        "https://example.org/#part",
        "https://example.org/#",
        "https://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example/",
        "https://\N{FULLWIDTH DIGIT ONE}27.0.0.1/",
        "https://exa%6dple.org/",
        "https://-a.example/",
        "https://a..b/",
        f"https://{'a' * 64}.example/",
        f"https://example.org/{'a' * 2048}",
        "https://[::1/",
        "",
    ],
)
def test_s115_what_is_no_address_to_be_called(url: str):
    with pytest.raises(Forbidden) as caught:
        STRICT.target(url)
    assert "pass@" not in str(caught.value)


def test_s116_plain_http_is_refused_unless_allowed():
    with pytest.raises(Forbidden, match="plain http"):
        STRICT.target("http://example.org/")
    target = Guard(allows_http=True).target("http://example.org/")
    assert (target.port, target.authority, target.path) == (80, "example.org", "/")
    assert Guard(allows_http=True).target("http://example.org:8080").authority == "example.org:8080"


def test_networks_that_are_allowed_may_be_called_in_every_spelling():
    guard = Guard(networks("192.168.0.0/16, fd00::/8"))
    for host in ("192.168.1.5", "[::ffff:192.168.1.5]", "[fd00::5]"):
        assert guard.target(f"https://{host}/").host
    for host in ("10.0.0.1", "[fe80::1]", "127.0.0.1"):
        with pytest.raises(Forbidden):
            guard.target(f"https://{host}/")
    guard.check([ip_address("192.168.1.5"), ip_address("1.1.1.1")])
    with pytest.raises(Forbidden, match=r"169\.254\.169\.254"):
        guard.check([ip_address("1.1.1.1"), ip_address("169.254.169.254")])
    assert networks("10.0.0.1") == (ip_network("10.0.0.1/32"),)
    with pytest.raises(InvalidInput, match="'lan' is no network"):
        networks("lan")

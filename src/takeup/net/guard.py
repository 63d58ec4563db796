"""Which addresses of the outside may be called: never those of this machine or its network, unless allowed.

The URL is judged by its form alone, the addresses behind its name each time before they are used: a name may
mean another machine tomorrow.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

from takeup.core.errors import InvalidInput

URL_CHARS_MAX = 2048
WEBHOOK = "webhook"
NAME_CHARS_MAX = 253
PORT_MAX = 65_535
LOWEST_FREE_PORT = 1024
PORTS = {"https": 443, "http": 80}
NETWORKS_MAX = 100
REFUSED_PORTS = frozenset(
    {
        1433,
        1521,
        1723,
        1883,
        2049,
        2181,
        2375,
        2376,
        2379,
        2380,
        3306,
        3389,
        4369,
        5432,
        5433,
        5672,
        5900,
        5984,
    }
    | {6000, 6379, 6380, 6432, 6443, 7001, 8086, 9042, 9092, 9200, 9300, 10_250, 11_211, 25_672, 26_379}
    | {27_017, 27_018, 50_000, 61_616}
)
"""Where databases, queues and machines are managed: nothing there expects to be called by us."""

_PRINTABLE = re.compile(r"[!-~]+\Z")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)\Z")

_REFUSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_PUBLIC_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Tunnels, documentation and what the standards keep for themselves."""
_WITHIN_V6 = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"))
"""An IPv4 address in other clothes: mapped, or behind NAT64."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Forbidden(InvalidInput):
    """An address that may not be called from here."""

    help = (
        "Give an https address of a public machine. What is to be called within your own network must "
        "stand in webhook_allowed_networks."
    )


@dataclass(frozen=True, slots=True)
class Target:
    """A URL that was judged, in the parts that a request is made of."""

    scheme: str
    host: str
    """A name in lower case without a dot at its end, or an address."""
    port: int
    path: str
    """With its query, if it has one."""

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class Guard:
    """Judges URLs and addresses by what this installation allows."""

    def __init__(
        self, allowed: Sequence[Network] = (), *, allows_http: bool = False, settings: str = WEBHOOK
    ) -> None:
        """`allowed` are networks that may be called although they are not public; `settings` begins the names
        of those that say so.
        """
        self._allowed = tuple(allowed)
        self._allows_http = allows_http
        self._settings = settings

    def target(self, url: str) -> Target:
        """The parts of a URL that may be called, or what is wrong with it; asks nobody."""
        with self._advising():
            return self._target(url)

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Name the settings that this guard is made from."""
        try:
            yield
        except Forbidden as error:
            error.help = error.help.replace(f"{WEBHOOK}_", f"{self._settings}_")
            raise

    def _target(self, url: str) -> Target:
        if not 0 < len(url) <= URL_CHARS_MAX or not _PRINTABLE.match(url) or "\\" in url:
            raise Forbidden(
                f"the address must be 1 to {URL_CHARS_MAX} plain characters, a name in its xn-- form"
            )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise Forbidden("the address cannot be read") from None
        self._check_parts(parts)
        if "#" in url:
            raise Forbidden("the address has a part behind #", advice="Leave it out: no server ever sees it.")
        scheme = parts.scheme.lower()
        target = Target(
            scheme=scheme,
            host=_host(parts),
            port=PORTS[scheme] if port is None else port,
            path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
        )
        _check_port(target)
        known = literal(target.host)
        if known is not None:
            self.check([known])
        return target

    def _check_parts(self, parts: SplitResult) -> None:
        scheme = parts.scheme.lower()
        if scheme not in PORTS:
            raise Forbidden("the address must begin with https://")
        if scheme == "http" and not self._allows_http:
            raise Forbidden(
                "plain http is not allowed", advice='Use https, or allow it: webhook_http = "allowed".'
            )
        if "@" in parts.netloc:
            raise Forbidden(
                "the address holds a user or a password",
                advice="Leave them out: an address is kept and shown.",
            )

    def check(self, addresses: Sequence[Address]) -> None:
        """Refuse unless each of these addresses may be called."""
        for address in addresses:
            meant = unwrapped(address)
            is_allowed = any(one.version == meant.version and meant in one for one in self._allowed)
            if not is_allowed and not is_public(meant):
                with self._advising():
                    raise Forbidden(f"the address {address} is not a public one")


def is_public(address: Address) -> bool:
    """Whether an address is that of a machine on the open internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    return address in _PUBLIC_V6 and not any(address in network for network in _REFUSED_V6)


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv6Address) and any(address in network for network in _WITHIN_V6):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def literal(host: str) -> Address | None:
    """The address that a host is without asking anybody; None if it is a name."""
    if host == "localhost" or host.endswith(".localhost"):
        return IPv4Address("127.0.0.1")
    try:
        return ip_address(host)
    except ValueError:
        return None


def networks(text: str) -> tuple[Network, ...]:
    """Networks with commas between, or an error that names the one that is none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) > NETWORKS_MAX:
        raise InvalidInput(f"there are {len(names)} networks, at most {NETWORKS_MAX} can be given")
    found = []
    for name in names:
        try:
            found.append(ip_network(name, strict=False))
        except ValueError:
            raise InvalidInput(f"{name[:80]!r} is no network; write it like 192.168.0.0/16") from None
    return tuple(found)


def _host(parts: SplitResult) -> str:
    """The host as it is looked up and told to TLS: one spelling, and none that readers differ about."""
    host = (parts.hostname or "").lower()
    if "[" in parts.netloc:
        try:
            return str(IPv6Address(host)) if "%" not in host else _refuse(host)
        except ValueError:
            return _refuse(host)
    host = host.removesuffix(".")
    labels = host.split(".")
    if _NUMBER.match(labels[-1]):
        try:
            return str(
                IPv4Address(host)
            )  # four plain numbers; octal, hexadecimal and shorter forms are refused
        except ValueError:
            return _refuse(host)
    if len(host) > NAME_CHARS_MAX or not all(map(_LABEL.match, labels)):
        return _refuse(host)
    return host


def _refuse(host: str) -> str:
    raise Forbidden(f"{host[:80]!r} is no host that can be called")


def _check_port(target: Target) -> None:
    is_low = target.port < LOWEST_FREE_PORT and target.port not in PORTS.values()
    if is_low or target.port > PORT_MAX or target.port in REFUSED_PORTS:
        raise Forbidden(
            f"port {target.port} is not one that is called",
            advice=f"Use 443, or one from {LOWEST_FREE_PORT} on that belongs to no other service.",
        )

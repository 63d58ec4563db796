"""When to try again and how long a lease lasts; all lengths are float seconds."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from takeup.core.errors import InvalidInput

RetryKind = Literal["exponential", "fixed", "none"]

ATTEMPTS_MAX = 100
DELAY_S_MAX = 30 * 86_400.0
LEASE_S_MIN, LEASE_S_MAX = 1.0, 86_400.0
PRIORITY_MIN, PRIORITY_MAX, PRIORITY_DEFAULT = 0, 10, 5
REFUNDS_MAX = 20
"""How often a released attempt is given back to one task: a long one outlives many deployments, and one that
is handed back for ever still ends."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a failed attempt is retried: how often in all, and after how long."""

    kind: RetryKind = "exponential"
    max_attempts: int = 3
    initial_s: float = 10.0
    multiplier: float = 2.0
    cap_s: float = 300.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a policy that could not be kept."""
        if self.kind not in ("exponential", "fixed", "none"):
            raise InvalidInput(f"retry kind {self.kind!r} is not one of exponential, fixed, none")
        if not 1 <= self.max_attempts <= ATTEMPTS_MAX:
            raise InvalidInput(f"max_attempts {self.max_attempts} is not within 1 to {ATTEMPTS_MAX}")
        if not (0 <= self.initial_s <= DELAY_S_MAX and 0 <= self.cap_s <= DELAY_S_MAX):
            raise InvalidInput(f"retry delays must be within 0 to {DELAY_S_MAX:.0f} seconds")
        if not 1 <= self.multiplier <= ATTEMPTS_MAX:
            raise InvalidInput(f"retry multiplier {self.multiplier} is not within 1 to {ATTEMPTS_MAX}")
        if not 0 <= self.jitter <= 1:
            raise InvalidInput(f"retry jitter {self.jitter} is not within 0 to 1")

    def allows(self, attempt: int) -> bool:
        """Whether another attempt may follow this one."""
        return self.kind != "none" and attempt < self.max_attempts

    def delay_s(self, attempt: int, luck: float = 0.0) -> float:
        """The wait after this attempt (1-based); `luck` in [0, 1) shortens it by up to the jitter.

        The cap is tested before the power is taken, so no attempt number overflows a float.
        """
        exponent = 0 if self.kind == "fixed" else max(attempt - 1, 0)
        if self.initial_s == 0 or self.cap_s == 0:
            delay = 0.0
        elif exponent * math.log(self.multiplier) >= math.log(self.cap_s) - math.log(self.initial_s):
            delay = self.cap_s
        else:
            delay = min(self.initial_s * self.multiplier**exponent, self.cap_s)
        return delay * (1.0 - self.jitter * luck)

    def as_json(self) -> dict[str, Any]:
        """The policy as it is stored with a stage."""
        return {name: getattr(self, name) for name in self.__slots__}


def check_lease_s(lease_s: Any) -> float:
    """A lease length that can be kept, or an error that says which can."""
    if type(lease_s) not in (int, float) or not LEASE_S_MIN <= lease_s <= LEASE_S_MAX:
        raise InvalidInput(f"lease {lease_s!r} is not within {LEASE_S_MIN:.0f} to {LEASE_S_MAX:.0f} seconds")
    return float(lease_s)


def check_priority(priority: Any) -> int:
    """A priority from 0 to 10, 10 most urgent."""
    if type(priority) is not int or not PRIORITY_MIN <= priority <= PRIORITY_MAX:
        raise InvalidInput(
            f"priority {priority!r} is not a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}"
        )
    level: int = priority
    return level


def renew_every_s(lease_s: float) -> float:
    """How often a holder renews: three chances within one lease."""
    return lease_s / 3


def trusted_until(request_started: float, lease_s: float, margin_s: float) -> float:
    """Until when a holder may trust its lease, on the clock that read `request_started`.

    Counted from before the request was sent, so that a slow answer shortens the trust, never the safety.
    """
    return request_started + max(lease_s - margin_s, 0.0)


def parse_duration(text: str | float) -> float:
    """Seconds from a number or from text such as `90s`, `15m`, `2h`."""
    if isinstance(text, int | float):
        return float(text)
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
    unit = next((u for u in ("ms", "s", "m", "h", "d") if text.endswith(u)), None)
    try:
        if unit is None:
            return float(text)
        return float(text[: -len(unit)]) * units[unit]
    except ValueError:
        raise InvalidInput(f"{text!r} is not a length of time; write it like 90s, 15m or 2h") from None

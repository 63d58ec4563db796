"""The clock by which a worker trusts its leases: it also runs while the machine sleeps, unlike most."""

import time


def boot_clock() -> float:
    """Seconds since the machine started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

"""What the numbers were measured with: recorded with them by the program itself."""

import importlib.metadata
import os
import platform
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime

from tests.services import PostgresServer


def describe(
    server: PostgresServer | None, packages: Iterable[str], command: str, elapsed_s: float
) -> dict[str, str]:
    """Command, date, machine and versions."""
    return {
        "command": command,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "took": f"{elapsed_s / 60:.1f} minutes",
        "machine": f"{os.cpu_count()} cores, {_memory_gb():.0f} GB, {platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **(_describe_server(server) if server else {}),
        "sqlite": f"{sqlite3.sqlite_version} (WAL, synchronous=FULL)",
        **{name: version for name in packages if (version := _version(name))},
    }


def _describe_server(server: PostgresServer) -> dict[str, str]:
    settings = {**server.settings, "autovacuum": "on (defaults)", "full_page_writes": "on"}
    return {
        "postgresql": server.version,
        "postgresql settings": ", ".join(f"{name}={value}" for name, value in settings.items() if value),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _memory_gb() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)

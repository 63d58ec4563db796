"""A DBOS worker service: it registers a queue, launches and waits."""

import os
import threading

from dbos import DBOS, DBOSConfig

from bench.engine.marks import mark_start
from bench.engine.system import URL_VARIABLE

APPLICATION = "bench"
QUEUE = "bench"
POLLING_S = 0.05
"""DBOS polls its queues, every second by default: too long to compare latencies."""


@DBOS.workflow(name="noop")
def noop() -> None:
    pass


@DBOS.workflow(name="mark")
def mark(address: str) -> None:
    mark_start(address)


def main() -> None:
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": os.environ[URL_VARIABLE],
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLLING_S)
    threading.Event().wait()


if __name__ == "__main__":
    main()

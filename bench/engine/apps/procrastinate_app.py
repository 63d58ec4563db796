"""Procrastinate's application, for `procrastinate --app=… worker`."""

import os

from bench.engine.marks import mark_start
from bench.engine.system import URL_VARIABLE
from bench.queues import open_app

CONNECTIONS = 20
"""One for each job that runs at once."""

app = open_app(os.environ[URL_VARIABLE], CONNECTIONS)


@app.task(name="noop")
async def noop() -> None:
    pass


@app.task(name="mark")
async def mark(address: str) -> None:
    mark_start(address)

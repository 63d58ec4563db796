"""Procrastinate's application, for `procrastinate --app=… worker`."""

import os

from bench.engine import bell
from bench.engine.system import URL_VARIABLE
from bench.queues import open_app

CONNECTIONS = 20
"""One for each job that runs at once."""

app = open_app(os.environ[URL_VARIABLE], CONNECTIONS)


@app.task(name="noop")
async def noop() -> None:
    pass


@app.task(name="ring")
async def ring(address: str) -> None:
    bell.ring(address)

"""Celery's application, for `celery -A … worker`. Its results are kept: they say what was done and when."""

import os

from celery import Celery

from bench.engine.marks import mark_start
from bench.engine.system import URL_VARIABLE

app = Celery("bench", broker=os.environ[URL_VARIABLE], backend=os.environ[URL_VARIABLE])


@app.task(name="noop")
def noop() -> None:
    pass


@app.task(name="mark")
def mark(address: str) -> None:
    mark_start(address)

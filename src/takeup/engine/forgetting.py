"""When a job is over, what its stages made only for each other is removed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from takeup.artifacts.port import Artifacts
from takeup.core.model import Message
from takeup.engine.outbox import Deliver
from takeup.telemetry.logs import logger

COMPLETED = "job.completed"
JOB_OVER = (COMPLETED, "job.cancelled")
"""A failed job keeps them: the next run of it need not make them again."""

log = logger("outbox")


def forget_outputs(artifacts: Artifacts, failed_before: Callable[[str], Awaitable[Sequence[str]]]) -> Deliver:
    """What carries out the message that a job is over; done twice it does nothing.

    If it was completed, what earlier runs left when they failed is of no use any more either.
    """

    async def deliver(message: Message) -> None:
        is_completed = message.topic == COMPLETED
        for job_id in (message.subject, *(await failed_before(message.subject) if is_completed else ())):
            count = await asyncio.to_thread(artifacts.forget, job_id)
            log.info(message.topic, job=job_id, forgotten=count)

    return deliver

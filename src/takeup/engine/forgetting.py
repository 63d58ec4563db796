"""When a job is over, what its stages made only for each other is removed."""

import asyncio

from takeup.artifacts.port import Artifacts
from takeup.core.model import Message
from takeup.engine.outbox import Deliver
from takeup.telemetry.logs import logger

JOB_OVER = ("job.completed", "job.cancelled")
"""A failed job keeps them: whoever looks for the reason may want to see them."""

log = logger("outbox")


def forget_outputs(artifacts: Artifacts) -> Deliver:
    """What carries out the message that a job is over; done twice it does nothing."""

    async def deliver(message: Message) -> None:
        count = await asyncio.to_thread(artifacts.forget, message.subject)
        log.info(message.topic, job=message.subject, forgotten=count)

    return deliver

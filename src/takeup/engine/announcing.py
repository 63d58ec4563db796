"""What a job's end is to the outside: a message for every endpoint that wants to hear of it."""

from takeup.core.model import Message
from takeup.engine.outbox import Deliver
from takeup.store.webhooks import CourierStore
from takeup.telemetry.logs import logger

log = logger("outbox")


def announce(store: CourierStore) -> Deliver:
    """What queues a message for those who want it; done twice it adds nothing. Others send it."""

    async def deliver(message: Message) -> None:
        count = await store.fan_out(message)
        log.info(message.topic, job=message.subject, webhooks=count)

    return deliver

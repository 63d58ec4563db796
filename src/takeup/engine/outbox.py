"""The outbox loop: carries out what was promised in a transaction, after it: at least once, or parked."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from takeup.core.model import Message
from takeup.core.points import point
from takeup.core.policy import RetryPolicy
from takeup.store.store import RecoveryStore
from takeup.telemetry.logs import logger

BATCH = 100
PATIENCE = RetryPolicy(max_attempts=10, initial_s=1.0, multiplier=3.0, cap_s=3600.0)

Deliver = Callable[[Message], Awaitable[None]]

log = logger("outbox")


class Outbox:
    """Delivers messages by their topic; a topic that nobody takes is done with once it was logged.

    A message that several carry out is delivered once all of them have; if one fails, all get it again.
    """

    name = "outbox"

    def __init__(
        self,
        store: RecoveryStore,
        *,
        period_s: float = 1.0,
        lease_s: float = 60.0,
        deliveries: Mapping[str, Sequence[Deliver]] | None = None,
    ) -> None:
        """`deliveries` maps a topic, or its first word with `.*`, to all that carries it out.

        A message whose sender died is due again after `lease_s`.
        """
        self.period_s = period_s
        self._lease_s = lease_s
        self._store = store
        self._deliveries = dict(deliveries or {})

    async def run_once(self) -> bool:
        """Take a batch, deliver each, and note what happened."""
        messages = await self._store.take_messages(limit=BATCH, lease_s=self._lease_s)
        delivered: list[Message] = []
        for message in messages:
            try:
                await self._deliver(message)
            except Exception as error:  # noqa: BLE001 - a receiver's failure is one to retry
                await self._failed([message], f"{type(error).__name__}: {error}")
            else:
                delivered.append(message)
        point("outbox.before deliver")
        if delivered:
            await self._store.deliver(delivered)
        return len(messages) == BATCH

    async def _deliver(self, message: Message) -> None:
        family = f"{message.topic.partition('.')[0]}.*"
        found = [*self._deliveries.get(message.topic, ()), *self._deliveries.get(family, ())]
        failures: list[Exception] = []
        for deliver in found:
            try:
                await deliver(message)
            except Exception as error:  # noqa: BLE001 - the others do not wait for the one that fails
                failures.append(error)
        if failures:
            raise failures[0]
        if not found:
            log.info(message.topic, job=message.subject)

    async def _failed(self, messages: Sequence[Message], error: str) -> None:
        for message in messages:
            if PATIENCE.allows(message.attempt):
                delay_s = PATIENCE.delay_s(message.attempt)
                log.warning("not delivered", topic=message.topic, error=error, again_in_s=delay_s)
                await self._store.retry_messages([message], error, delay_s)
            else:
                log.error("given up", topic=message.topic, subject=message.subject, error=error)
                await self._store.park([message], error)

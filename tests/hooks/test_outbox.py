"""A message goes to everybody who carries out its topic, and nobody waits for the one that fails."""

from takeup.core.model import Message
from takeup.core.plan import NewJob
from takeup.engine.outbox import Outbox
from takeup.store.store import Store
from tests.store.scenes import ONE, Clock


async def test_all_who_take_a_topic_or_its_family_get_it_again_until_all_have_it(store: Store, clock: Clock):
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    await store.operator.cancel([job_id])
    got: list[str] = []

    def taker(name: str, failures: int = 0):
        left = [failures]

        async def take(message: Message) -> None:
            got.append(f"{name} {message.subject}")
            left[0] -= 1
            if left[0] >= 0:
                raise OSError("not now")

        return take

    outbox = Outbox(
        store.recovery,
        deliveries={"job.cancelled": [taker("first", 1), taker("second")], "job.*": [taker("family")]},
    )
    everybody = [f"{name} {job_id}" for name in ("first", "second", "family")]
    assert not await outbox.run_once()
    assert got == everybody
    await outbox.run_once()
    assert got == everybody, "not due yet"
    clock.pass_s(2)
    await outbox.run_once()
    assert got == everybody * 2
    clock.pass_s(3600)
    await outbox.run_once()
    assert got == everybody * 2, "it is delivered"

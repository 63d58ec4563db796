"""A batch that holds one task twice is refused: its answers could not be told apart."""

from takeup.core.errors import InvalidInput
from takeup.core.model import Completion, Failure, Lease, Progress
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


async def two_epochs(world: World) -> tuple[Lease, Lease]:
    """The stale and the right lease of one task of one worker."""
    await world.add_worker()
    await world.submit(world.pipeline(world.stage("work", attempts=20)))
    stale = await world.lease()
    world.advance(LEASE_S)
    await world.store.recovery.expire()
    return stale, await world.lease()


async def refuse_all(world: World, one: Lease, two: Lease) -> None:
    """Every kind of report on both leases at once."""
    store, held = world.store.worker, [one.held, two.held]
    async with world.refuses(InvalidInput):
        await store.renew("w", [Progress(lease) for lease in held])
    async with world.refuses(InvalidInput):
        await store.complete("w", [Completion(lease) for lease in held])
    async with world.refuses(InvalidInput):
        await store.fail("w", [Failure(lease, "boom") for lease in held])
    async with world.refuses(InvalidInput):
        await store.release("w", held)


@case()
async def one_report_twice_is_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    await refuse_all(world, lease, lease)
    await world.finish(lease)


@case()
async def a_stale_token_beside_the_right_one_is_refused(world: World) -> None:
    stale, right = await two_epochs(world)
    await refuse_all(world, stale, right)
    await refuse_all(world, right, stale)
    await world.finish(right)

"""When leases are renewed: each in time, and news together, for one write costs as much as many."""

from collections.abc import Sequence

from takeup.core.ids import Token
from takeup.core.model import Answer, Glance, Held, Lease, Progress
from takeup.engine.holding import Hand, Holding
from takeup.engine.keeper import Keeper
from takeup.testing.clocks import START

LEASE_S, NEWS_S = 60.0, 1.0


class Told:
    """A source that accepts everything and remembers it."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []

    async def glance(self, _worker_id: str, held: Sequence[Held]) -> Glance:
        return Glance("active", frozenset(one.task_id for one in held))

    async def renew(self, _worker_id: str, reports: Sequence[Progress], **_: str) -> list[Answer]:
        self.writes.append([report.held.task_id for report in reports])
        return [Answer(report.held.task_id, accepted=True, status="RUNNING") for report in reports]


class Scene:
    """A keeper with some leases, and a clock that is set by hand."""

    def __init__(self, count: int) -> None:
        self.now, self.source, hand = 0.0, Told(), Hand()
        self.held = [self._holding(number) for number in range(count)]
        for holding in self.held:
            hand.add(holding)
        self._keeper = Keeper(
            self.source, "w", hand, clock=lambda: self.now, obey=lambda *_: None,
            glance_every_s=NEWS_S, news_every_s=NEWS_S,
        )  # fmt: skip

    async def writes_at(self, now: float) -> list[list[int]]:
        self.now, self.source.writes = now, []
        await self._keeper.run_once()
        return self.source.writes

    def _holding(self, number: int) -> Holding:
        lease = Lease(number, "job", "p", "s", None, 1, 1, 3, 5, LEASE_S, START, {}, Token(1, "n"))
        return Holding(lease, number, asked_at=number * 0.5, started_at=0.0)


async def test_news_of_all_go_with_the_first_that_waited_long_enough():
    scene = Scene(3)
    scene.held[0].has_news = scene.held[1].has_news = True
    assert await scene.writes_at(0.9) == []
    assert await scene.writes_at(1.0) == [[0, 1]], "the second asked half a second later, the third has none"
    assert await scene.writes_at(1.6) == []
    scene.held[1].has_news = True
    assert await scene.writes_at(1.9) == []
    assert await scene.writes_at(2.0) == [[1]]


async def test_every_lease_is_renewed_at_a_third_whatever_the_others_do():
    scene = Scene(2)
    assert await scene.writes_at(19.9) == []
    assert await scene.writes_at(20.0) == [[0]]
    assert await scene.writes_at(20.5) == [[1]]
    scene.held[0].stopping = "lost"
    scene.held[0].has_news = True
    assert await scene.writes_at(80.0) == [[1]], "what is lost is not renewed"

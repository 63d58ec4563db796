"""The live feed of one server: looks at the database while somebody listens, and tells what he asked for.

The log is the truth. It is read from where all of it is known to be there, again and again, so a row that
becomes visible late is found; who was told of it already is not told again. Whichever process a listener
comes back to, his position says what he missed.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from takeup.core.channels import Channel
from takeup.core.errors import NotFound, StoreUnavailable, TakeupError
from takeup.core.live import LogRow, Settling, WorkerLook
from takeup.core.position import Position, parse_position
from takeup.dispatch.bell import Bell
from takeup.engine.listener import WAITING_MAX, Listener
from takeup.engine.loop import keep_running
from takeup.engine.scene import Scene, pulls_of, watch_of
from takeup.engine.telling import Told, gone_worker, of_worker, reset
from takeup.store.feeds import FeedStore

PAUSE_S = 0.1
"""However often the bell rings, looks keep such a distance."""
STATE_S, WORKERS_S = 0.25, 1.0
"""How often it is looked how jobs and workers stand, besides what the log says."""
SHARE = 9.0
"""It is not looked again for so many times as long as it took."""
JOIN_S_MAX = CLOSE_S_MAX = 15.0
REPLAY_MAX = 1500
"""Whoever missed more rows reads everything anew."""


class TooManyListeners(TakeupError):
    """So many listen already that another one would cost the others."""

    retryable = True
    http_status = 503
    help = "Try again in a while, or raise TAKEUP_SSE_CLIENTS_MAX; one connection may name many channels."


class Feed:
    """Tells of jobs, videos and workers to those who listen here."""

    name = "feed"

    def __init__(
        self,
        store: FeedStore,
        bell: Bell,
        *,
        period_s: float = 0.5,
        clients_max: int = 200,
        waiting_max: int = WAITING_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clients_max` may listen at once; nothing is looked at while nobody does."""
        self.period_s = period_s
        self.ear = bell.listen("jobs")
        self._store, self._clock = store, clock
        self._clients_max, self._waiting_max = clients_max, waiting_max
        self._listeners: set[Listener] = set()
        self._joining = 0
        self._lock = asyncio.Lock()
        self._stop: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()
        self._begin(0)

    def _begin(self, low: int) -> None:
        """Nothing is known but where to start."""
        self._low = low
        self._settling = Settling(low)
        self._seen: set[int] = set()
        self._scene = Scene()
        self._last: dict[tuple[str, str], str] = {}
        """How things stood when it was told last, by channel and key."""
        self._state_at = self._workers_at = self._looked_at = float("-inf")

    async def join(self, channels: Sequence[Channel], last_id: str | None = None) -> Listener:
        """A new listener, from now on or from where he was; `leave` must follow."""
        if self._closed.is_set() or len(self._listeners) + self._joining >= self._clients_max:
            raise TooManyListeners(f"{self._clients_max} listen here already, or the server is stopping")
        self._joining += 1
        try:
            async with asyncio.timeout(JOIN_S_MAX), self._lock:
                listener = await self._join(channels, last_id)
        except TimeoutError:
            raise StoreUnavailable("the database did not answer in time") from None
        finally:
            self._joining -= 1
        if self._closed.is_set():
            listener.end("shutdown")
        else:
            self._listeners.add(listener)
            self._run()
        return listener

    def leave(self, listener: Listener) -> None:
        """He listens no more; with the last one the looking ends."""
        self._listeners.discard(listener)
        if not self._listeners and self._stop is not None:
            self._stop.set()
            self._stop = None

    async def close_at(self, stop: asyncio.Event) -> None:
        """Be there until told to stop: what would go on for ever is ended then."""
        await stop.wait()
        await self.close()

    async def close(self) -> None:
        """End everybody, and the looking."""
        self._closed.set()
        for listener in list(self._listeners):
            listener.end("shutdown")
            self.leave(listener)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_S_MAX)

    async def run_once(self) -> bool:
        """One look at what changed, and now and then at how everything stands."""
        await asyncio.sleep(max(self._looked_at + PAUSE_S - self._clock(), 0.0))
        async with self._lock:
            self.ear.take()
            try:
                if self._listeners:
                    await self._look()
            finally:
                self._looked_at = self._clock()
        return False

    def _run(self) -> None:
        if self._stop is None:
            self._stop = asyncio.Event()
            task = asyncio.create_task(keep_running(self, self._stop, self.ear))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _join(self, channels: Sequence[Channel], last_id: str | None) -> Listener:
        """Catch up with the feed, between two of its looks."""
        if not self._listeners:
            self._begin(await self._store.settled())
        known = parse_position(last_id) if last_id else None
        start = known or Position(self._low)
        watch = watch_of(channels)
        look = await self._store.look(watch, start.low, limit=REPLAY_MAX + 1)
        scene = Scene(jobs_of=await self._store.jobs_of_subjects(watch.subjects))
        wanted = {row.id for row in look.rows if row.noun == "job"}
        wanted.update(job_id for one in channels if (job_id := scene.job_id(one)))
        jobs = await self._store.jobs(wanted, with_rungs=scene.with_rungs(channels))
        workers = await self._store.workers() if watch.workers else {}
        pulls = await self._store.pulls(pulls_of(channels))
        scene = replace(scene, jobs=jobs, workers=workers, pulls=pulls)
        for channel in channels:
            if not scene.knows(channel):
                raise NotFound(f"there is nothing that the channel {channel.name!r} could tell of")
        missed = [row for row in look.rows if not start.has(row.seq)]
        lost = ""
        if last_id and (known is None or known.low > look.frontier.newest):
            lost = "unknown position"
        elif last_id and (look.reach is not None or len(missed) > REPLAY_MAX):
            lost = "too long ago"
        listener = Listener(channels, Position(self._low) if lost else start, waiting_max=self._waiting_max)
        if last_id and not lost:
            self._replay(listener, missed, scene)
        else:
            listener.mark(row.seq for row in look.rows)
        listener.settle(self._low)
        if lost:
            listener.restart(reset(lost))
        self._show(listener, scene, is_back=bool(last_id) and not lost)
        return listener

    def _replay(self, listener: Listener, rows: Iterable[LogRow], scene: Scene) -> None:
        """What he missed, in the order of the log; his position moves along with it."""
        for row in rows:
            if row.seq <= self._low:  # nothing can come before it any more
                listener.settle(row.seq - 1)
            listener.tell_row(row.seq, list(scene.said(row, listener.channels).values()))

    def _show(self, listener: Listener, scene: Scene, *, is_back: bool) -> None:
        """How everything stands that he asked about; who is back has heard of every end."""
        for channel in listener.channels:
            if is_back and channel.kind == "transcode_complete":
                continue
            for told in scene.state(channel):
                listener.tell(told)
                self._last.setdefault((told.channel, told.key), told.data)

    async def _look(self) -> None:
        """The log first: how things stand is then no older than it."""
        channels = {channel for listener in self._listeners for channel in listener.channels}
        watch = watch_of(channels)
        look = await self._store.look(watch, self._low)
        if look.jobs_of is not None:
            self._scene = replace(self._scene, jobs_of=look.jobs_of)
        fresh = [row for row in look.rows if row.seq not in self._seen]
        lost = await self._look_at_jobs(channels, fresh)
        self._scene = replace(self._scene, pulls=await self._store.pulls(pulls_of(channels)))
        former = await self._look_at_workers(fresh) if watch.workers else {}
        self._tell(channels, fresh, former, lost)
        low = self._settling.see(look.frontier, self._clock())
        self._low = max(self._low, low if look.reach is None else min(low, look.reach))
        self._seen = {seq for seq in (*self._seen, *(row.seq for row in fresh)) if seq > self._low}
        for listener in self._listeners:
            listener.settle(self._low)

    async def _look_at_jobs(self, channels: set[Channel], fresh: Sequence[LogRow]) -> list[Told]:
        """See again what may have changed; answers with what to say of jobs that are gone."""
        scene = self._scene
        current = {job_id for channel in channels if (job_id := scene.job_id(channel))}
        changed = {row.id for row in fresh if row.noun == "job"}
        wanted = changed | (current - scene.jobs.keys())
        started_at = self._clock()
        is_due = started_at >= self._state_at
        if is_due:
            wanted |= {job_id for job_id in current & scene.jobs.keys() if not scene.jobs[job_id].is_over}
        if not wanted:
            return []
        found = await self._store.jobs(wanted, with_rungs=scene.with_rungs(channels) & wanted)
        if is_due:
            ended_at = self._clock()
            self._state_at = ended_at + max(STATE_S, SHARE * (ended_at - started_at))
        gone = [scene.jobs[job_id] for job_id in (current & wanted & scene.jobs.keys()) - found.keys()]
        kept = {job_id: scene.jobs[job_id] for job_id in (current & scene.jobs.keys()) - wanted}
        self._scene = replace(scene, jobs={**kept, **found})
        return [reset("archived", channel.name) for job in gone for channel in scene.about(job, channels)]

    async def _look_at_workers(self, fresh: Sequence[LogRow]) -> dict[str, WorkerLook]:
        """See all workers again, if it is time; answers with those that are known no more."""
        started_at = self._clock()
        if started_at < self._workers_at and not any(row.noun == "worker" for row in fresh):
            return {}
        workers = await self._store.workers()
        ended_at = self._clock()
        self._workers_at = ended_at + max(WORKERS_S, SHARE * (ended_at - started_at))
        former = {one: look for one, look in self._scene.workers.items() if one not in workers}
        self._scene = replace(self._scene, workers=workers)
        return former

    def _tell(
        self,
        channels: set[Channel],
        fresh: Sequence[LogRow],
        former: dict[str, WorkerLook],
        lost: Sequence[Told],
    ) -> None:
        """Tell everybody what is new to him; nobody is waited for."""
        said = [(row.seq, self._scene.said(row, channels)) for row in fresh]
        heard = {(told.channel, told.key) for _, by_channel in said for told in by_channel.values()}
        news = self._news(channels, heard, former)
        for listener in list(self._listeners):
            for seq, by_channel in said:
                listener.tell_row(seq, [by_channel[one] for one in listener.channels if one in by_channel])
            for told in (told for channel in listener.channels for told in news.get(channel, ())):
                listener.tell(told)
            names = {channel.name for channel in listener.channels} if lost else set()
            for told in (told for told in lost if told.channel in names):
                listener.restart(told)
            if listener.ended:
                self.leave(listener)

    def _news(
        self, channels: set[Channel], heard: set[tuple[str, str]], former: dict[str, WorkerLook]
    ) -> dict[Channel, list[Told]]:
        """What stands otherwise than it was told last, and was not heard just now."""
        news: dict[Channel, list[Told]] = {}
        last: dict[tuple[str, str], str] = {}
        for channel in channels:
            states = list(self._scene.state(channel))
            if channel.kind == "worker_status":
                states += [of_worker(channel, gone_worker(worker_id)) for worker_id in former]
            for told in states:
                place = told.channel, told.key
                last[place] = told.data
                is_news = told.data != self._last.get(place) and place not in heard
                if is_news and channel.kind != "transcode_complete":  # its end stands in the log
                    news.setdefault(channel, []).append(told)
        self._last = last
        return news

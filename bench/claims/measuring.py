"""The interleaved run. A round prepares all tables of a group of cases and lets the cases take short turns.

What disturbs a shared machine lasts seconds, a turn a few tenths of one: so those that are compared are
disturbed alike, and a ratio is taken turn by turn. Only the peers, whose workers drain a queue, have one turn
a round.
"""

import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path
from typing import NamedTuple

from bench.claims.cases import PEERS, STATES, SYSTEMS, Case, Sizes, State, System, groups
from bench.claims.clients import Clients, Close, Go, Open, Turn
from bench.claims.sites import EmbeddedSite, PeerSite, PostgresSite, Site
from bench.turns import Sample, in_order, open_probe
from tests.services import PostgresServer

Samples = dict[str, list[list[Sample]]]
"""For each case a row of turns a round."""

POSTGRES: tuple[System, ...] = ("takeup-postgres", "raw-postgres")
"""The two that share a database, so that they work on the same rows."""

Sites = dict[tuple[System, State], Site]


class Processes(NamedTuple):
    """The clients on asyncio's own loop, and those on the loop that pgqueuer's command uses."""

    plain: Clients
    uvloop: Clients | None

    def of(self, case: Case) -> Clients:
        return self.uvloop if case.system == "pgqueuer" and self.uvloop else self.plain


async def measure(
    server: PostgresServer,
    folder: Path,
    sizes: Sizes,
    *,
    systems: Collection[str] = SYSTEMS,
    states: Collection[str] = STATES,
    say: Callable[[str], None] = print,
) -> Samples:
    """All rounds of all cases of these systems and states."""
    samples: Samples = {}
    every = groups(sizes, systems, states)
    with contextlib.ExitStack() as stack:
        processes = Processes(Clients(2), Clients(2, uses_uvloop=True) if "pgqueuer" in systems else None)
        for clients in filter(None, processes):
            stack.callback(clients.close)
        async with (
            _open_sites({case for cases in every for case in cases}, server, folder, sizes.fill) as sites,
            open_probe(server) as probe,
        ):
            for number in range(sizes.rounds):
                started = time.monotonic()
                for cases in every:
                    await _Round(number, cases, sites, sizes, processes, probe).run(samples)
                say(f"round {number + 1} of {sizes.rounds}: {time.monotonic() - started:.0f} s")
    return samples


@contextlib.asynccontextmanager
async def _open_sites(
    cases: set[Case], server: PostgresServer, folder: Path, fill: int
) -> AsyncIterator[Sites]:
    sites: Sites = {}
    async with contextlib.AsyncExitStack() as stack:
        for system, state in sorted({(case.system, case.state) for case in cases}):
            site: Site
            if system in POSTGRES:
                twin = next((sites[other, state] for other in POSTGRES if (other, state) in sites), None)
                site = twin or await PostgresSite.open(server, state, fill)
            elif system in PEERS:
                site = PeerSite(server, system)
            else:
                site = EmbeddedSite(system.removeprefix("takeup-"), state, folder, fill)
            if site not in sites.values():
                stack.push_async_callback(site.close)
            sites[system, state] = site
        yield sites


class _Round:
    """One round of one group of cases."""

    def __init__(
        self,
        number: int,
        cases: list[Case],
        sites: Sites,
        sizes: Sizes,
        processes: Processes,
        probe: Callable[[], Awaitable[float]],
    ) -> None:
        self._number = number
        self._cases = [case for case in cases if case.system not in PEERS]
        self._peers = [case for case in cases if case.system in PEERS]
        self._sites = sites
        self._sizes = sizes
        self._processes = processes
        self._probe = probe
        self._done: dict[Case, list[int]] = defaultdict(list)

    async def run(self, samples: Samples) -> None:
        await self._prepare()
        for case in self._cases:
            await self._open(case)
        turns: dict[Case, list[Sample]] = defaultdict(list)
        for turn in range(self._sizes.turns):
            for case in in_order(self._cases, self._number * self._sizes.turns + turn):
                turns[case].append(await self._turn(case))
            if turn == self._sizes.turns // 2:
                for case in in_order(self._peers, self._number):
                    turns[case] = [await self._peer_turn(case)]
        for case in self._cases:
            await self._close(case)
        for case, row in turns.items():
            await self._site(case).check(case.system, self._done[case])
            samples.setdefault(case.key, []).append(row)

    async def _prepare(self) -> None:
        """Every site gets the tasks that its cases will do; the raw loop has the same in its own table."""
        needed: dict[Site, dict[System, int]] = defaultdict(lambda: defaultdict(int))
        for case in self._cases:
            count = self._sizes.turns * self._sizes.quota(case) + self._sizes.warm_up(case)
            needed[self._site(case)][case.system] += count * case.clients
        for site, counts in needed.items():
            await site.prepare(max(counts.values()))

    async def _open(self, case: Case) -> None:
        orders = [
            Open(
                case.key,
                case.system,
                self._site(case).url,
                f"client-{i}-{case.batch}",
                case.batch,
                self._sizes.warm_up(case),
            )
            for i in range(case.clients)
        ]
        for warm_ids in await self._processes.of(case).tell(orders):
            self._done[case] += warm_ids

    async def _turn(self, case: Case) -> Sample:
        orders = [Go(case.key, self._sizes.quota(case))] * case.clients
        commit_ms = await self._probe()
        turns: list[Turn] = await self._processes.of(case).tell(orders)
        commit_ms = max(commit_ms, await self._probe())
        for turn in turns:
            self._done[case] += turn.task_ids
        elapsed = max(turn.ended for turn in turns) - min(turn.started for turn in turns)
        return Sample(sum(len(turn.task_ids) for turn in turns) / elapsed, commit_ms)

    async def _peer_turn(self, case: Case) -> Sample:
        await self._site(case).prepare(self._sizes.turns * self._sizes.quota(case) * case.clients)
        await self._open(case)
        sample = await self._turn(case)
        await self._close(case)
        return sample

    async def _close(self, case: Case) -> None:
        await self._processes.of(case).tell([Close(case.key)] * case.clients)

    def _site(self, case: Case) -> Site:
        return self._sites[case.system, case.state]

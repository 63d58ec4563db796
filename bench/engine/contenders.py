"""Who is measured. To add a system: write its `System`, then name it here."""

from functools import partial

from bench.engine.celery_peer import CeleryPeer
from bench.engine.ours import TakeupOnPostgres, TakeupOnSqlite
from bench.engine.postgres_peers import Dbos, PgQueuer, Procrastinate
from bench.engine.raw_loop import RawLoop
from bench.engine.system import Contender

PROCRASTINATE_CONCURRENCY = 20

CONTENDERS = (
    *(
        Contender(
            system="takeup-postgres",
            batch=batch,
            home="postgres",
            open=partial(TakeupOnPostgres, batch, fans_out=True),
            count=40_000,
            quick_count=5_000,
        )
        for batch in (100, 500)
    ),
    Contender(
        system="takeup-postgres",
        variant="jobs",
        batch=100,
        home="postgres",
        open=partial(TakeupOnPostgres, 100, fans_out=False),
        count=20_000,
        quick_count=2_000,
    ),
    Contender(
        system="takeup-sqlite",
        batch=100,
        home="sqlite",
        open=partial(TakeupOnSqlite, 100, fans_out=True),
        count=20_000,
        quick_count=2_000,
    ),
    Contender(
        system="raw-postgres",
        batch=100,
        home="postgres",
        open=partial(RawLoop, 100),
        count=40_000,
        quick_count=2_000,
    ),
    Contender(
        system="procrastinate",
        home="postgres",
        open=partial(Procrastinate, PROCRASTINATE_CONCURRENCY),
        count=1_000,
        quick_count=200,
    ),
    *(
        Contender(
            system="pgqueuer",
            batch=batch,
            home="postgres",
            open=partial(PgQueuer, batch),
            count=40_000,
            quick_count=5_000,
        )
        for batch in (100, 500)
    ),
    Contender(system="dbos", home="postgres", open=Dbos, count=1_000, quick_count=300),
    *(
        Contender(
            system="celery",
            variant=f"{pool}{'-durable' if is_durable else ''}",
            home="redis-durable" if is_durable else "redis",
            is_durable=is_durable,
            open=partial(CeleryPeer, pool),
            count=1_000,
            quick_count=300,
        )
        for pool in ("prefork", "solo")
        for is_durable in (True, False)
    ),
)

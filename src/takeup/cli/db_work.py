"""What `takeup db` does."""

import argparse

from takeup.cli.opening import must_exist, open_store
from takeup.cli.options import settings_of
from takeup.cli.printing import line, print_json
from takeup.core.errors import InvalidInput
from takeup.core.policy import parse_duration
from takeup.store import migrate
from takeup.store.drivers import connect
from takeup.store.ops.check import check as check_database

ARCHIVE_AT_ONCE = 100
AGE_S_MAX = 100 * 365 * 86_400.0


async def upgrade(options: argparse.Namespace) -> int:
    """Apply what is missing and say what that was."""
    from takeup.app import make_folder  # noqa: PLC0415 - only here

    settings = settings_of(options)
    if not settings.database_url:
        make_folder(settings.data_dir)
    driver = await connect(settings.database)
    try:
        applied = await driver.run(migrate.upgrade, driver.dialect)
        version = await driver.run(migrate.check, driver.dialect)
    finally:
        await driver.close()
    if options.json:
        print_json({"schema": version, "applied": applied})
        return 0
    for name in applied:
        line(f"applied {name}")
    line(f"schema {version} is up to date")
    return 0


async def check(options: argparse.Namespace) -> int:
    """Look at the schema, the file, the guards and the rows."""
    settings = settings_of(options)
    must_exist(settings)
    driver = await connect(settings.database)
    try:
        checked = await driver.read(check_database, driver.dialect)
    finally:
        await driver.close()
    if options.json:
        print_json({"schema": checked.version, "findings": checked.findings})
    else:
        for finding in checked.findings:
            line(finding)
        line(f"schema {checked.version}, {len(checked.findings)} findings")
    return 1 if checked.findings else 0


async def archive(options: argparse.Namespace) -> int:
    """Archive in small transactions until nothing is old enough."""
    if options.limit is not None and options.limit < 1:
        raise InvalidInput(f"--limit {options.limit} is not above 0")
    async with open_store(options) as (store, settings):
        text = options.older_than
        older_than_s = settings.archive_after_days * 86_400 if text is None else parse_duration(text)
        if not 0 <= older_than_s <= AGE_S_MAX:
            raise InvalidInput(f"--older-than {text!r} is not a length of time; write it like 12h or 30d")
        jobs: list[str] = []
        while options.limit is None or len(jobs) < options.limit:
            left = ARCHIVE_AT_ONCE if options.limit is None else options.limit - len(jobs)
            moved = await store.recovery.archive(older_than_s, limit=min(left, ARCHIVE_AT_ONCE))
            jobs += moved
            if not moved:
                break
    if options.json:
        print_json({"archived": jobs})
    else:
        line(f"{len(jobs)} jobs archived")
    return 0

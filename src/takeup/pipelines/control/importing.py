"""Bringing an old control table into Takeup: its rows become jobs, the table itself is kept.

By default the very file becomes the database: it is copied first, the old table is renamed and the view takes
its name. Killed at any point, the import goes on where it was when it is run again: a row is imported in one
transaction, and one whose pair has had a job is left alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from takeup.core.control import check_pipeline
from takeup.core.errors import InvalidInput, StoreConfig, StoreError, StoreUnavailable
from takeup.core.pipeline import Pipeline
from takeup.core.points import point
from takeup.core.ports import Clock
from takeup.pipelines.control.backup import back_up
from takeup.pipelines.control.mapping import Judgement, OldRow, Rules, judge, key_of
from takeup.pipelines.control.report import ImportLine, ImportReport
from takeup.pipelines.control.source import (
    OLD_TABLE,
    READ_ROWS,
    TABLE,
    Shape,
    keys_page,
    look,
    move_aside,
    rows_page,
    url_of,
)
from takeup.store.drivers import Driver, connect
from takeup.store.op import Op
from takeup.store.store import Store

ROWS_MAX = 1_000_000
"""How many rows one import may have: its report holds a line of each."""
REASON = "done before the import"

Pages = Callable[[Shape, int], Op[list[OldRow]]]


async def import_control(
    source: str | Path,
    pipeline: Pipeline,
    store: Store | None = None,
    *,
    stages: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> ImportReport:
    """Import the table `pipeline_control` of a DuckDB file, in whatever shape it was left.

    Without a store the file itself becomes the database; with one, its jobs are made there and the file is
    only read. `stages` names the stages that were called differently: {"old name": "new_name"}.
    """
    check_pipeline(pipeline)
    for name in (stages or {}).values():
        pipeline.get(name)
    path = Path(source)
    if not await asyncio.to_thread(path.is_file):
        raise InvalidInput(f"there is no file {path}")
    reader = await connect(url_of(path, is_readonly=True))
    try:
        shape = await reader.read(look, path)
        if store is not None:
            lines = await _import_rows(reader, shape, store, pipeline, stages or {})
            return ImportReport(path, shape.table, None, lines)
    finally:
        await reader.close()
    backup, notes = await _make_room(path, shape)
    own = await Store.open(url_of(path), clock=clock, upgrade=True)
    try:
        aside = await own.driver.read(look, path)
        lines = await _import_rows(own.driver, aside, own, pipeline, stages or {})
    finally:
        await own.close()
    return ImportReport(path, OLD_TABLE, backup, lines, notes)


async def _make_room(path: Path, shape: Shape) -> tuple[Path | None, tuple[str, ...]]:
    """Copy the file and rename the old table, unless that was done before."""
    if shape.is_aside:
        return None, ()
    backup = await asyncio.to_thread(back_up, path)
    point("control import.after backup")
    driver = await connect(url_of(path))
    try:
        indexes = await driver.run(move_aside, driver.dialect)
    except StoreUnavailable:
        raise
    except StoreError as error:
        raise StoreConfig(
            f"{path} cannot become a Takeup database, and is as it was: {error}; import into another one"
        ) from error
    finally:
        await driver.close()
    point("control import.after rename")
    return backup, tuple(f"the index was dropped: {sql}" for sql in indexes)


async def _import_rows(
    reader: Driver, shape: Shape, store: Store, pipeline: Pipeline, stages: Mapping[str, str]
) -> list[ImportLine]:
    rules = Rules(pipeline, await store.read.now(), stages)
    pairs: Counter[tuple[str, int] | None] = Counter()
    async for page in _pages(reader, shape, keys_page):
        pairs.update(key_of(row) for row in page)
    twice = {pair for pair, count in pairs.items() if count > 1}
    lines: list[ImportLine] = []
    async for page in _pages(reader, shape, rows_page):
        verdicts = [(row, _verdict(row, rules, twice)) for row in page]
        lines += await _adopt(store, verdicts)
        point("control import.after batch")
    return lines


def _verdict(row: OldRow, rules: Rules, twice: set[tuple[str, int] | None]) -> Judgement:
    key = key_of(row)
    if key is not None and key in twice:
        return Judgement(notes=["the table has several rows of this pair"])
    return judge(row, rules)


async def _adopt(store: Store, verdicts: Sequence[tuple[OldRow, Judgement]]) -> list[ImportLine]:
    """One transaction for all rows of a page."""
    adoptions = [verdict.adoption for _, verdict in verdicts if verdict.adoption is not None]
    answers = iter(await store.operator.adopt(adoptions, reason=REASON))
    return [_line(row, verdict, next(answers) if verdict.adoption else None) for row, verdict in verdicts]


def _line(row: OldRow, verdict: Judgement, job_id: str | None) -> ImportLine:
    url, iteration = (row.values.get(name) for name in ("url", "iteration"))
    is_judged = verdict.adoption is not None
    return ImportLine(
        row=row.number + 1,
        url="" if url is None else str(url),
        iteration="" if iteration is None else str(iteration),
        outcome="imported" if job_id else "present" if is_judged else "kept",
        task_state=verdict.control if is_judged else None,
        stage=verdict.stage if is_judged else None,
        not_before=verdict.not_before,
        job_id=job_id,
        note="; ".join(verdict.notes),
    )


async def _pages(reader: Driver, shape: Shape, read: Pages) -> AsyncIterator[list[OldRow]]:
    """Every row of the old table, page by page."""
    after = -1
    for _ in range(ROWS_MAX // READ_ROWS):
        page = await reader.read(read, shape, after)
        if page:
            yield page
        if len(page) < READ_ROWS:
            return
        after = page[-1].number
    raise InvalidInput(f"the table {TABLE} has more than {ROWS_MAX} rows; import it in parts")

"""What `takeup verify` does."""

import argparse
import asyncio
from collections.abc import Iterator
from pathlib import Path

from takeup.artifacts import manifest
from takeup.artifacts.files import hash_file
from takeup.artifacts.layout import TaskFolder, split_key
from takeup.artifacts.local import LocalArtifacts
from takeup.cli.opening import open_store
from takeup.cli.printing import line, print_json
from takeup.core.errors import TakeupError
from takeup.history import live
from takeup.store.op import Op, Row, Rows, query
from takeup.store.store import Store

PAGE = 1000


async def verify(options: argparse.Namespace) -> int:
    """Print each violation on a line, then how much was looked at."""
    async with open_store(options) as (store, settings):
        driver = store.driver
        verdict = await driver.read(live.verify, driver.dialect.name, archive=options.archive)
        found = [str(violation) for violation in verdict.violations]
        files = 0
        if options.artifacts:
            files, missing = await check_files(store, settings.storage)
            found += missing
    if options.json:
        counts = {"events": verdict.events, "jobs": verdict.jobs, "archived": verdict.archived}
        print_json({**counts, "files": files, "violations": found})
    else:
        for text in found:
            line(text)
        parts = [f"{verdict.events} events", f"{verdict.jobs} jobs"]
        parts += [f"{verdict.archived} archived jobs"] if options.archive else []
        parts += [f"{files} files"] if options.artifacts else []
        line(f"{', '.join(parts)}, {len(found)} violations")
    return 1 if found else 0


async def check_files(store: Store, storage: Path) -> tuple[int, list[str]]:
    """Whether every output is there as its row says; answers with how many, and what is wrong."""
    count, found = 0, []
    last: tuple[str, int, str] = ("", 0, "")
    staged = StagedFiles(storage)
    while True:
        rows: Rows = await store.driver.read(_page, last)
        for row in rows:
            found += [await asyncio.to_thread(staged.fault, row)]
        count += len(rows)
        if len(rows) < PAGE:
            return count, [text for text in found if text]
        last = (rows[-1]["job_id"], rows[-1]["task_id"], rows[-1]["name"])


def _page(last: tuple[str, int, str]) -> Op[Rows]:
    job_id, task_id, name = last
    return (yield query("verify_artifacts", job_id=job_id, task_id=task_id, name=name, limit_count=PAGE))


class StagedFiles:
    """Finds an output at its public place, or, if its publisher died, where the winner left it."""

    def __init__(self, storage: Path) -> None:
        """Look below this folder."""
        self._storage = storage
        self._artifacts = LocalArtifacts(storage)

    def fault(self, row: Row) -> str:
        """What is wrong with the file of this row; nothing: an empty text."""
        why = ""
        for path in self._places(row):
            why = _differs(path, row)
            if not why:
                return ""
        if self._was_removed(row):
            return ""
        return f"FILE task {row['task_id']} {row['job_id']}: {row['object_key']} {why}"

    def _places(self, row: Row) -> Iterator[Path]:
        yield self._storage / row["object_key"]
        for folder in self._staged(row):
            yield self._artifacts.staged_path(folder) / row["name"]

    def _was_removed(self, row: Row) -> bool:
        """Whether it was only for other stages, and its job is over."""
        try:
            place, _ = split_key(row["object_key"])
        except TakeupError:
            return False
        found = manifest.read(self._storage / place)
        return found is not None and found.keeping == "removed"

    def _staged(self, row: Row) -> list[TaskFolder]:
        try:
            folders = self._artifacts.staged()
        except OSError:
            return []
        return [f for f in folders if f.task_id == row["task_id"] and f.epoch == row["epoch"]]


def _differs(path: Path, row: Row) -> str:
    try:
        sha256, size = hash_file(path)
    except FileNotFoundError:
        return "is missing"
    except (OSError, TakeupError) as error:
        return f"cannot be read: {error}"
    if size != row["size_bytes"]:
        return f"has {size} bytes, not {row['size_bytes']}"
    return "" if sha256 == row["sha256"] else "has another content"

"""Outputs that won and that their maker did not come to publish: whoever needs them makes them visible."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from takeup.artifacts.layout import TaskFolder, split_key
from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import TakeupError
from takeup.core.model import Fate
from takeup.telemetry.logs import logger

Fates = Callable[[Sequence[TaskFolder]], Awaitable[list[Fate]]]

log = logger("late")


async def publish_won(artifacts: LocalArtifacts, fates: Fates, made: Collection[tuple[int, int]]) -> str:
    """Publish what these attempts (task, epoch) left, if it won; why that failed, if it did."""
    staged = await asyncio.to_thread(artifacts.staged)
    folders = [folder for folder in staged if (folder.task_id, folder.epoch) in made]
    why = ""
    for fate in await fates(folders) if folders else ():
        try:
            await asyncio.to_thread(publish_late, artifacts, fate)
        except TakeupError as error:
            why = str(error)
    return why


def publish_late(artifacts: LocalArtifacts, fate: Fate) -> bool:
    """Make visible what won, for a maker that did not come to it; False if it did not win."""
    if fate.fate != "won" or fate.object_key is None:
        return False
    folder = TaskFolder(*fate.folder)
    artifacts.publish(folder, split_key(fate.object_key)[0])
    log.info("published late", task=folder.task_id)
    return True

"""A process that takes, fetches or removes a video, and dies where it was told to."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from takeup.app import App, open_app
from takeup.config import load
from takeup.core.videos import About
from takeup.testing import crash
from tests.videos.making import sound

WAV = sound()


async def body(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def act(app: App, what: str) -> None:
    """Do this, as the server would."""
    if what in ("take", "take what is no media"):
        data = WAV if what == "take" else b"x" * len(WAV)
        await app.intake.take("key:me", len(data), About("A film"), body(data))
    elif what == "take without a length":
        await app.intake.take("key:me", None, About("A film"), body(WAV))
    elif what == "sweep":
        await app.video_keeper().run_once()
    elif what == "pull":
        puller = app.puller()
        while True:  # it dies before it ends
            await puller.run_once()
            await asyncio.sleep(0.01)


async def main(data: Path, what: str) -> None:
    settings = {"pull_http": "allowed", "pull_allowed_networks": "127.0.0.1/32", "pull_lease": 1.0}
    async with open_app(load({}, {"data_dir": data, **settings})) as app:
        crash.arm_from_environment(os.environ)
        await act(app, what)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))

"""What `takeup demo` does."""

import argparse
import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

from takeup.app import open_app
from takeup.artifacts.versions import ENTRY, FACTS, Versions
from takeup.child.below import kill_with_all_below
from takeup.cli.printing import near
from takeup.cli.progress import say
from takeup.config import Settings
from takeup.core.errors import InvalidInput, TakeupError
from takeup.media import binaries
from takeup.media.sample import RATE, make_sample
from takeup.store.ops.read import JobFilter

SEGMENT_S = 6
LOOK_S = 0.1
LOOKS_MAX = 6000
SAMPLE = "sample.mp4"
SHOW_CURSOR = "\x1b[?25h"


class DemoFailed(TakeupError):
    """Something of the demonstration did not go as it should."""

    help = "Run `takeup doctor`, and report what it says."


async def demo(options: argparse.Namespace) -> int:
    """Make, stream, check, kill, resume, compare."""
    show = Show(options.folder)
    show.clear()
    say(f"1. A sample of {options.seconds} s, {options.size}, {RATE} frames a second, with sound")
    await make_sample(binaries.find(), show.sample, options.seconds, options.size)
    say(f"2. An adaptive stream of it, in pieces of work of {SEGMENT_S} s")
    show.takeup(*show.transcode)
    say("3. Every rule for such streams, and every picture against its source")
    show.takeup("check", show.stream, "--source", show.sample)
    say("4. Once more as a new version; every process of it is killed in the middle (kill -9)")
    await show.kill_half_way()
    say("5. The same command again: what was finished is kept, what was cut short is repeated")
    show.takeup(*show.transcode, "--again")
    show.compare()
    say(f"Watch it: takeup watch {show.stream}")
    return 0


class Show:
    """The folder of a demonstration, and the commands that are run in it."""

    def __init__(self, folder: Path) -> None:
        """Data, sample and stream lie in this folder."""
        self.folder = near(folder.absolute())
        self.sample, self.stream, self.data = (self.folder / name for name in (SAMPLE, "stream", "data"))
        segment = ("--segment", SEGMENT_S, "--data", self.data)
        self.transcode: tuple[object, ...] = ("transcode", self.sample, "-o", self.stream, *segment)

    def clear(self) -> None:
        """Begin anew, but only where nothing else lies."""
        if self.folder.exists() and not self.sample.exists() and any(self.folder.iterdir()):
            raise InvalidInput(f"{self.folder} exists and holds something else; name another folder")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def takeup(self, *arguments: object) -> None:
        """Run a command to its end, in plain sight."""
        ended = subprocess.run(_command(*arguments), check=False)  # noqa: S603 - our own command
        if ended.returncode != 0:
            raise DemoFailed(f"takeup {arguments[0]} ended with {ended.returncode}")

    async def kill_half_way(self) -> None:
        """Start the command, wait until half of the segments are made, and end all of it at once."""
        command = _command(*self.transcode, "--again")
        running = subprocess.Popen(command, process_group=0)  # noqa: ASYNC220, S603 - our own command
        try:
            done, total = await self._half(running)
        finally:
            if running.poll() is None:
                kill_with_all_below(running.pid)
            running.wait()
            if sys.stderr.isatty():
                sys.stderr.write(f"{SHOW_CURSOR}\n")
        say(f"   killed when {done} of {total} segments were made")

    async def _half(self, running: "subprocess.Popen[bytes]") -> tuple[int, int]:
        async with open_app(Settings(data_dir=self.data)) as app:
            for _ in range(LOOKS_MAX):
                (job,) = await app.store.read.jobs(JobFilter(), limit=1)
                progress = await app.store.read.progress(job.id)
                (encode,) = (stage for stage in progress.stages if stage.stage == "encode")
                if job.generation > 1 and encode.is_expanded and 2 * encode.done >= encode.total:
                    return encode.done, encode.total
                if running.poll() is not None:
                    break
                await asyncio.sleep(LOOK_S)
        raise DemoFailed("it ended before it could be killed")

    def compare(self) -> None:
        """The version that was cut short must be the same as the one that was not, byte for byte."""
        versions = Versions(self.stream)
        calm, killed = (_contents(versions.path(number)) for number in versions.numbers()[-2:])
        if calm != killed:
            raise DemoFailed("the stream that was killed on its way differs from the other one")
        say(f"   all {len(calm)} files are the same, byte for byte, as without the kill")


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "takeup.cli.main", *map(str, arguments)]


def _contents(folder: Path) -> dict[str, bytes]:
    """Every file but those that name the version."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name != FACTS and file.parent.name != ENTRY
    }

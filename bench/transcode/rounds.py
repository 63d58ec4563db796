"""Takes the turns: every contender once a round with each source, and then a kill in the middle."""

import asyncio
import re
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.transcode import sources
from bench.transcode.contenders import BY_HAND, OURS, Contender, Task
from bench.transcode.metering import Cost, Failed, measure
from bench.transcode.sources import Material
from bench.turns import in_order
from takeup.media import binaries, profile
from takeup.media.choice import choose
from takeup.media.plan import Plan, plan
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools

PROFILE = "web-h264"
SLACK_S = 0.2
KILL_AT = 0.5


class Turn(NamedTuple):
    """One run of one contender."""

    cost: Cost
    bytes: int


class Lost(NamedTuple):
    """What a kill in the middle cost: done before it and in vain."""

    wall_s: float
    cpu_s: float


Turns = dict[str, list[Turn]]


def prepare(material: Material, folder: Path) -> Task:
    """The source, and our plan for it: the ladder that everybody makes."""
    tools = binaries.find()
    source = sources.make(tools.ffmpeg, material, folder)
    return Task(source, asyncio.run(plan_of(source, tools)), tools, folder / "turn")


async def plan_of(source: Path, tools: binaries.Binaries) -> Plan:
    found = await survey(Tools(tools), look_at(source))
    return plan(found.probe, found.index, await choose(tools, profile.load(PROFILE)))


def measure_all(task: Task, contenders: Sequence[Contender], rounds: int, once: Sequence[str] = ()) -> Turns:
    """Round by round, in another order each time; who is slow, or named in `once`, only in the first."""
    turns: Turns = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in in_order(contenders, number):
            if number and (contender.is_slow or contender.name in once):
                continue
            turn = take_turn(task, contender)
            turns[contender.name].append(turn)
            cost = turn.cost
            print(
                f"  {contender.name}: {cost.wall_s:.1f} s, CPU {cost.cpu_s:.1f} s, {turn.bytes / 1e6:.1f} MB"
                f" (others took {cost.others_s:.1f} s)",
                flush=True,
            )
    return turns


def take_turn(task: Task, contender: Contender) -> Turn:
    with_folder(task)
    cost = run(task, contender)
    check(task)
    return Turn(cost, size_of(task.out))


def run(task: Task, contender: Contender, *, kill_after_s: float | None = None) -> Cost:
    command, env = contender.order(task)
    log = task.folder / "words.log"
    return measure(command, env=env, cwd=task.folder, log=log, kill_after_s=kill_after_s)


def with_folder(task: Task) -> None:
    """An empty folder for this turn."""
    shutil.rmtree(task.folder, ignore_errors=True)
    task.folder.mkdir()


def kill_and_resume(task: Task, turns: Turns) -> dict[str, Lost]:
    """Kill everything when half of the usual time is over; we run again, the other begins from nothing."""
    lost = {}
    for contender in (OURS, BY_HAND):
        if not turns.get(contender.name):
            continue
        usual_s = statistics.median(turn.cost.wall_s for turn in turns[contender.name])
        usual_cpu_s = statistics.median(turn.cost.cpu_s for turn in turns[contender.name])
        with_folder(task)
        killed = run(task, contender, kill_after_s=usual_s * KILL_AT)
        lost[contender.name] = Lost(killed.wall_s, killed.cpu_s)
        if contender is OURS:
            resumed = run(task, contender)
            check(task)
            lost[contender.name] = Lost(
                killed.wall_s + resumed.wall_s - usual_s, killed.cpu_s + resumed.cpu_s - usual_cpu_s
            )
    return lost


def check(task: Task) -> None:
    """Every rung must be there, and every playlist must last as long as the source."""
    texts = [file.read_text() for file in task.out.rglob("*.m3u8")]
    lengths = [sum(map(float, re.findall(r"#EXTINF:([\d.]+)", text))) for text in texts if "#EXTINF" in text]
    if len(lengths) < len(task.picture.rungs):
        raise Failed(f"there are {len(lengths)} streams for {len(task.picture.rungs)} rungs")
    wrong = [length for length in lengths if abs(length - task.plan.length_s) > SLACK_S]
    if wrong:
        raise Failed(f"streams of {wrong} s instead of {float(task.plan.length_s)} s")


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())

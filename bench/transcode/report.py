"""The page of a run: what each contender took, how we compare, and what a kill cost."""

from collections.abc import Mapping
from typing import NamedTuple

from bench.tables import about_lines, row, spread, verdict
from bench.transcode.contenders import BY_HAND, OURS
from bench.transcode.rounds import Lost, Turn, Turns

WALL_TARGETS = {"ffmpeg-by-hand": 0.98, "ffmpeg-per-rung": 0.70}
CPU_TARGETS = {"ffmpeg-by-hand": 1.02}
OVERHEAD_TARGET = 0.02
JUDGED_ROUNDS_MIN = 3


class Result(NamedTuple):
    """All that was measured with one source."""

    rungs: tuple[str, ...]
    turns: Turns
    lost: Mapping[str, Lost]
    is_long: bool


def markdown(name: str, result: Result, about: dict[str, str]) -> str:
    lines = [
        "# What it takes to make an adaptive stream",
        "",
        "Written by `bench/transcode`: the same ladder of the same source, made by us and otherwise. A turn",
        "each in every round, in another order each time; ratios are taken within a round.",
        "",
        *about_lines(about),
        *["", f"## {name}: {', '.join(result.rungs)}", "", *costs(result), "", *ratios(result)],
        *["", *overhead(result), "", *losses(result)],
    ]
    return "\n".join(lines) + "\n"


def costs(result: Result) -> list[str]:
    lines = [row("who", "wall s", "CPU s", "MB", "CPU s of the rest of the machine"), row(*["---"] * 5)]
    for name, turns in result.turns.items():
        wall, cpu, others = (
            [getattr(turn.cost, of) for turn in turns] for of in ("wall_s", "cpu_s", "others_s")
        )
        size = spread([turn.bytes / 1e6 for turn in turns], ".1f")
        lines.append(row(name, spread(wall, ".1f"), spread(cpu, ".1f"), size, spread(others, ".1f")))
    return lines


def ratios(result: Result) -> list[str]:
    lines = [row("takeup to", "wall", "target", "CPU", "target", "bytes"), row(*["---"] * 6)]
    ours = result.turns.get(OURS.name, [])
    for name, theirs in result.turns.items():
        if name == OURS.name:
            continue
        pairs = list(zip(ours, theirs, strict=False))  # who is slow has only the first round
        wall = [a.cost.wall_s / b.cost.wall_s for a, b in pairs]
        cpu = [a.cost.cpu_s / b.cost.cpu_s for a, b in pairs]
        size = [a.bytes / b.bytes for a, b in pairs]
        walls, cpus = (judged(wall, WALL_TARGETS.get(name)), judged(cpu, CPU_TARGETS.get(name)))
        lines.append(row(name, spread(wall, ".3f"), walls, spread(cpu, ".3f"), cpus, spread(size, ".3f")))
    return lines


def overhead(result: Result) -> list[str]:
    """What of our CPU time is no tool's."""
    turns = result.turns.get(OURS.name, [])
    shares = [turn.cost.overhead for turn in turns]
    target = judged(shares, OVERHEAD_TARGET if result.is_long else None)
    tools = {tool for turn in turns for tool in turn.cost.tools_s}
    parts = [f"{tool} {spread(tool_seconds(turns, tool), '.1f')} s" for tool in sorted(tools)]
    return [f"Of our CPU time {spread(shares, '.2%')} is no tool's {target}: {', '.join(parts)}."]


def tool_seconds(turns: list[Turn], tool: str) -> list[float]:
    return [turn.cost.tools_s.get(tool, 0.0) for turn in turns]


def losses(result: Result) -> list[str]:
    lines = [row("killed with -9 at half", "wall s lost", "CPU s lost"), row(*["---"] * 3)]
    for name, lost in result.lost.items():
        which = f"{name}, begun again" if name == BY_HAND.name else f"{name}, resumed"
        lines.append(row(which, f"{lost.wall_s:.1f}", f"{lost.cpu_s:.1f}"))
    return lines


def judged(found: list[float], target: float | None) -> str:
    return verdict(found, target, at_most=True, least=JUDGED_ROUNDS_MIN)

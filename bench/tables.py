"""How results are shown: rows of a table, medians with their middle half, and whether a target is met."""

import statistics

JUDGED_TURNS_MIN = 4


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def about_lines(about: dict[str, str]) -> list[str]:
    """What a page says about its run: the command, the machine, the versions."""
    return [f"- {name}: {f'`{text}`' if name == 'command' else text}" for name, text in about.items()]


def spread(numbers: list[float], style: str) -> str:
    """The median, the middle half and how many."""
    if len(numbers) < 2:
        return " ".join(f"{number:{style}} (1)" for number in numbers) or "–"
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return f"{middle:{style}} ({low:{style}}–{high:{style}}, {len(numbers)})"


def verdict(
    free: list[float], target: float | None, *, at_most: bool = False, least: int = JUDGED_TURNS_MIN
) -> str:
    """Where the disk counts, on turns with a free one only: a slow one makes all alike and hides our cost."""
    if target is None:
        return ""
    bound = f"({'≤' if at_most else '≥'} {target})"
    if len(free) < least:
        return f"undecided: too few turns that count {bound}"
    middle = statistics.median(free)
    return f"{'met' if (middle <= target if at_most else middle >= target) else 'MISSED'} {bound}"

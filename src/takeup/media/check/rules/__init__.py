"""All rules, in the order of the checklist."""

from takeup.media.check.rule import Rule
from takeup.media.check.rules import (
    boxes,
    dash,
    dash_times,
    files,
    master,
    pictures,
    playlists,
    rates,
    served,
    sounds,
    source,
    texts,
    times,
)

MODULES = (
    boxes, dash, dash_times, files, master, pictures, playlists, rates, served, sounds, source,
    texts, times,
)  # fmt: skip


def _place(rule: Rule) -> tuple[int, str]:
    number, _, part = rule.id.removeprefix("C").partition(".")
    return int(number), part


RULES: tuple[Rule, ...] = tuple(
    sorted((one for module in MODULES for one in vars(module).values() if isinstance(one, Rule)), key=_place)
)

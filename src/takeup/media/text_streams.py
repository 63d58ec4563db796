"""Text tracks as they are served: one whole file, and pieces on the same edges as those of the picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from takeup.media import webvtt
from takeup.media.plan import Plan
from takeup.media.probe import Text
from takeup.media.streams import grid_of, lead_of
from takeup.media.webvtt import Cue

WHOLE = "text.vtt"
TICKS_A_SECOND = 90_000
"""How HLS counts when it ties the times of a text to those of the picture."""


@dataclass(frozen=True, slots=True)
class TextStream:
    """One text track, ready to be served."""

    name: str
    text: Text
    title: str
    """What people choose it by; no other track of the package has the same."""
    is_default: bool
    whole: bytes
    cues: tuple[Cue, ...]


def text_streams(tracks: Sequence[tuple[Text, Sequence[Cue]]]) -> list[TextStream]:
    """The streams of these tracks; one without a word to show is left out."""
    worded = [(text, cues) for text, cues in tracks if cues]
    default = next((text.stream for text, _ in worded if text.is_default), None)
    titles: list[str] = []
    for text, _ in worded:
        titles.append(_title(text, titles))
    return [
        TextStream(
            name=f"text-{number}",
            text=text,
            title=title,
            is_default=text.stream == default,
            whole=webvtt.write(cues),
            cues=tuple(cues),
        )
        for number, ((text, cues), title) in enumerate(zip(worded, titles, strict=True), 1)
    ]


def _title(text: Text, taken: Sequence[str]) -> str:
    title = text.title or text.language or "text"
    number = 2
    unique = title
    while unique in taken:
        unique, number = f"{title} {number}", number + 1
    return unique


def pieces_of(plan: Plan, cues: Sequence[Cue]) -> Iterator[tuple[bytes, Fraction]]:
    """Every piece with its length; a text that crosses an edge stands in each that it is shown in."""
    grid_s = grid_of(plan.picture)
    count = max(ceil(plan.length_s / grid_s), 1)
    held: list[list[Cue]] = [[] for _ in range(count)]
    for cue in cues:
        first, after = int(cue.start_ms / (grid_s * 1000)), ceil(cue.end_ms / (grid_s * 1000))
        for number in range(first, min(after, count)):
            held[number].append(cue)
    ticks = round(lead_of(plan.picture) * TICKS_A_SECOND)
    tied = f"X-TIMESTAMP-MAP=MPEGTS:{ticks},LOCAL:{webvtt.stamp(0)}"
    for number, shown in enumerate(held):
        yield webvtt.write(shown, tied), min(grid_s, plan.length_s - number * grid_s)

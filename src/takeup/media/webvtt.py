"""WebVTT: texts with times to the millisecond, read leniently and written so that any player reads them."""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from takeup.media.errors import MediaError

MARK = "WEBVTT"
BLOCKS_MAX = 100_000
LINES_MAX = 10
CUE_CHARS_MAX = 1000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
STAMP = r"(?:(\d{2,6}):)?(\d\d):(\d\d)\.(\d{3})"
TIMING = re.compile(rf"{STAMP}[ \t]+-->[ \t]+{STAMP}(?:[ \t]+(.*))?")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
TAG = re.compile(r"(</?[biu]>)")
"""The only markup that is kept; whatever else looks like it is shown as it is."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text and when it is shown; the text is as it stands in the file, escaped."""

    start_ms: int
    end_ms: int
    text: str
    settings: str = ""


def read(data: bytes, *, goes_on: bool = False) -> list[Cue]:
    """The cues of a file. ffmpeg leaves empty lines in a text: with `goes_on` the text goes on after them."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    head, *blocks = re.split(r"\n{2,}", text, maxsplit=BLOCKS_MAX)
    if not re.match(rf"{MARK}(?:\s|\Z)", head):
        raise MediaError(f"a text track does not begin with {MARK}")
    cues: list[Cue] = []
    for block in blocks[:BLOCKS_MAX]:
        lines = block.strip("\n").split("\n")
        place = 0 if goes_on or TIMING.fullmatch(lines[0]) else 1  # a name may stand before the times
        timing = TIMING.fullmatch(lines[place]) if place < len(lines) else None
        if timing is not None:
            cues.append(_cue(timing, "\n".join(lines[place + 1 :])))
        elif goes_on and cues and len(cues[-1].text) < CUE_CHARS_MAX:
            cues[-1] = replace(cues[-1], text=f"{cues[-1].text}\n{block}")
    return cues


def write(cues: Iterable[Cue], *head: str) -> bytes:
    """A file of these cues, with more lines at its head if there are any."""
    lines = [MARK, *head, ""]
    for cue in cues:
        times = f"{stamp(cue.start_ms)} --> {stamp(cue.end_ms)}"
        lines += [f"{times} {cue.settings}".rstrip(), cue.text, ""]
    return "\n".join(lines).encode("utf-8", "replace")


def stamp(ms: int) -> str:
    """A time as WebVTT writes it."""
    hours, rest = divmod(ms, HOUR_MS)
    minutes, rest = divmod(rest, MINUTE_MS)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}.{rest % 1000:03d}"


def clean(text: str) -> str:
    """A stranger's text as it may stand in a cue: bold, italic and underlined, everything else escaped.

    Nothing is left of it that ends a cue, opens another one or is read as markup of any other kind.
    """
    lines = [CONTROL.sub(" ", line).strip() for line in text[:CUE_CHARS_MAX].split("\n")]
    kept = "\n".join([line for line in lines if line][:LINES_MAX])
    return _balanced(kept) if TAG.sub("", kept).strip() else ""


def _balanced(text: str) -> str:
    """Escaped, and with every tag closed that was opened."""
    parts: list[str] = []
    within: list[str] = []
    for part in TAG.split(text):
        if not TAG.fullmatch(part):
            parts.append(html.escape(part, quote=False))
        elif not part.startswith("</"):
            parts.append(part)
            within.append(part[1])
        elif within and within[-1] == part[2]:
            parts.append(part)
            within.pop()
    return "".join([*parts, *(f"</{name}>" for name in reversed(within))])


def _cue(timing: re.Match[str], text: str) -> Cue:
    *numbers, settings = timing.groups()
    hours, minutes, seconds, ms, *end = (int(number or 0) for number in numbers)
    start_ms = hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000 + ms
    hours, minutes, seconds, ms = end
    return Cue(
        start_ms, hours * HOUR_MS + minutes * MINUTE_MS + seconds * 1000 + ms, text, (settings or "").strip()
    )

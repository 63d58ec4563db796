"""Reads segmented WebVTT as a player does."""

import re
from dataclasses import dataclass, field
from fractions import Fraction

from takeup.media.errors import MediaError

CUES_MAX = 100_000
MPEG_TICKS = 90_000
TIME = r"(?:[0-9]{2,6}:)?[0-9]{2}:[0-9]{2}\.[0-9]{3}"
TIMES = re.compile(rf"({TIME})[ \t]+-->[ \t]+({TIME})")
TICKS = re.compile(r"[0-9]{1,15}\Z")
MAP = re.compile(r"X-TIMESTAMP-MAP=(.*)")


@dataclass(frozen=True, slots=True)
class Cue:
    """Some text and when it is shown."""

    start_s: Fraction
    end_s: Fraction
    text: str


@dataclass(slots=True)
class TextPiece:
    """One file of a text track."""

    address: str
    told_s: Fraction
    size: int = 0
    offset_s: Fraction | None = None
    """What is to be added to its times to get those of the media; None if it does not say."""
    cues: list[Cue] = field(default_factory=list)
    fault: str = ""


@dataclass(slots=True)
class TextTrack:
    """One text track of a package."""

    name: str
    pieces: list[TextPiece] = field(default_factory=list)


def scan(piece: TextPiece, data: bytes) -> None:
    """Take the facts of a piece; one that cannot be read says why."""
    piece.size = len(data)
    try:
        _scan(piece, data.decode("utf-8"))
    except UnicodeDecodeError:
        piece.fault = "it is not UTF-8"
    except MediaError as error:
        piece.fault = str(error)


def _scan(piece: TextPiece, text: str) -> None:
    lines = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").splitlines()
    if not lines or lines[0].split()[:1] != ["WEBVTT"]:
        raise MediaError("it does not begin with WEBVTT")
    for block in _blocks(lines):
        for number, line in enumerate(block):
            if match := MAP.match(line):
                piece.offset_s = _offset(match[1])
            if match := TIMES.match(line):
                text = "\n".join(block[number + 1 :])
                piece.cues.append(Cue(_seconds(match[1]), _seconds(match[2]), text))
                break
        if len(piece.cues) > CUES_MAX:
            raise MediaError(f"it has more than {CUES_MAX} cues")


def _blocks(lines: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return found


def _offset(text: str) -> Fraction:
    parts = dict(part.strip().split(":", 1) for part in text.split(",") if ":" in part)
    ticks, local = parts.get("MPEGTS", ""), parts.get("LOCAL", "")
    if not TICKS.match(ticks) or not TIMES.match(f"{local} --> {local}"):
        raise MediaError(f"X-TIMESTAMP-MAP={text} makes no sense")
    return Fraction(int(ticks), MPEG_TICKS) - _seconds(local)


def _seconds(text: str) -> Fraction:
    value = Fraction(0)
    for part in text.split(":"):
        value = value * 60 + Fraction(part)
    return value

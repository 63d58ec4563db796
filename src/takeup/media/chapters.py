"""Chapters: the named parts of a source on the time line of the result, in the forms that players read."""

import html
import json
from collections.abc import Sequence
from fractions import Fraction

from takeup.media import webvtt
from takeup.media.probe import Chapter
from takeup.media.webvtt import Cue

VTT = "chapters.vtt"
JSON = "chapters.json"
SESSION_LINE = f'#EXT-X-SESSION-DATA:DATA-ID="com.apple.hls.chapters",URI="{JSON}"'
"""How a master playlist leads to them."""


def on_time_line(found: Sequence[Chapter], start_s: Fraction, length_s: Fraction) -> tuple[Chapter, ...]:
    """Chapters in order, counted from the first moment of the result and cut to its length."""
    moved = [
        Chapter(max(c.start_s - start_s, Fraction(0)), min(c.end_s - start_s, length_s), c.title)
        for c in found
    ]
    kept = sorted((c for c in moved if c.start_s < c.end_s), key=lambda chapter: chapter.start_s)
    return tuple(
        Chapter(chapter.start_s, chapter.end_s, chapter.title or f"Chapter {number}")
        for number, chapter in enumerate(kept, 1)
    )


def to_vtt(chapters: Sequence[Chapter]) -> bytes:
    """A chapter track as browsers read it."""
    return webvtt.write(
        Cue(round(c.start_s * 1000), round(c.end_s * 1000), html.escape(c.title, quote=False))
        for c in chapters
    )


def to_json(chapters: Sequence[Chapter]) -> str:
    """The list that Apple's players read."""
    listed = [
        {
            "chapter": number,
            "start-time": round(float(chapter.start_s), 3),
            "duration": round(float(chapter.end_s - chapter.start_s), 3),
            "titles": [{"language": "und", "title": chapter.title}],
        }
        for number, chapter in enumerate(chapters, 1)
    ]
    return json.dumps(listed, ensure_ascii=False, indent=1) + "\n"

"""All that a plan rests on, of one source: its facts and its frames, copied first where it cannot be cut."""

from dataclasses import dataclass, replace
from pathlib import Path

from takeup.media.errors import MediaError, TooLarge
from takeup.media.fields import look
from takeup.media.index import Index, index, is_seekable
from takeup.media.probe import DURATION_S_MAX, Probe, probe
from takeup.media.remux import into_matroska
from takeup.media.source import Source
from takeup.media.tools import Tools


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found, and in which file."""

    source: Source
    probe: Probe
    index: Index | None
    is_copied: bool


async def survey(
    tools: Tools, source: Source, copy: Path | None = None, *, frames: Index | None = None
) -> Survey:
    """Look into a source; one that cannot be cut exactly is copied to `copy`, if that is given.

    Its frames are read only where nobody knows them yet, for all of the file is read for them.
    """
    facts = await probe(tools, source)
    is_copied = copy is not None and facts.video is not None and not is_seekable(facts.container)
    if is_copied and copy is not None:
        source = await into_matroska(tools, source, facts, copy)
        facts = replace(await probe(tools, source), chapters=facts.chapters, drawn_texts=facts.drawn_texts)
    if facts.video is not None:
        frames = frames or await index(tools, source, facts.video.stream, facts.video.time_base)
        if not frames.has_all_times:
            raise MediaError("some of its frames have no time, so nobody can say when to show them")
        if frames.length_s > DURATION_S_MAX:  # whatever the container says; a plan is as long as its frames
            raise TooLarge(
                f"its frames span {float(frames.length_s):.0f} s; at most {DURATION_S_MAX} are taken"
            )
        facts = await look(tools, source, facts, frames)
    return Survey(source, facts, frames, is_copied)

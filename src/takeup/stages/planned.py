"""What the stages of transcoding share: the words of the job's spec, the tools of the machine, the plan."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from takeup.child.run import Ended
from takeup.child.trial import can_wait
from takeup.config import load as load_settings
from takeup.core.errors import InvalidSpec
from takeup.media.errors import MediaError
from takeup.media.index import Index
from takeup.media.plan import Plan
from takeup.media.source import Source, look_at, look_at_sparse
from takeup.media.tools import Tools, tools_of

PLAN = "plan.json"
FRAMES = "frames.json"
COPY = "source.mkv"
NAMES_MAX = 64
SECONDS_MAX = 3600


@dataclass(frozen=True, slots=True)
class Stored:
    """The plan as it is kept with the job and in the package: with what it was made for."""

    plan: Plan
    source: Mapping[str, int]
    """What changes when the file does."""
    is_copied: bool
    stages: Mapping[str, list[str]]
    """Which rungs each stage makes."""
    kept_from: int | None = None
    """The version that the other rungs are taken from."""

    def to_json(self) -> str:
        """As it is stored."""
        return json.dumps(
            {
                "plan": self.plan.to_json(),
                "source": dict(self.source),
                "is_copied": self.is_copied,
                "stages": dict(self.stages),
                "kept_from": self.kept_from,
            }
        )

    @classmethod
    def load(cls, file: Path) -> "Stored":
        """As it was stored."""
        values = json.loads(file.read_text("utf-8"))
        return cls(**{**values, "plan": Plan.from_json(values["plan"])})

    def of_rungs(self, names: list[str]) -> Plan:
        """The plan with these rungs alone."""
        picture = self.plan.picture
        if picture is None:
            return self.plan
        rungs = tuple(rung for rung in picture.rungs if rung.name in names)
        return replace(self.plan, picture=replace(picture, rungs=rungs))


def stored_plan(ctx: Any) -> Stored:
    """The plan of this job."""
    return Stored.load(ctx.inputs.only("plan", PLAN).path(PLAN))


def planned_source(ctx: Any, stored: Stored) -> Source:
    """The source, if it is still what was planned for."""
    if stored.is_copied:
        return look_at(ctx.inputs.only("plan", COPY).path(COPY))
    return _unchanged(handed_in(ctx), stored)


async def source_in_parts(ctx: Any, stored: Stored, tools: Tools) -> Source:
    """The same; a worker elsewhere fetches only what is read of it, if it can make a tool wait for that."""
    copy = ctx.sparse(COPY, "plan") if stored.is_copied else ctx.sparse("source")
    if copy is not None and not await can_wait(tools.sandbox):
        ctx.log.warning("no tool can be made to wait for what it reads here; the source is fetched whole")
        copy = None
    if copy is None:
        return planned_source(ctx, stored)
    source = look_at_sparse(copy)
    return source if stored.is_copied else _unchanged(source, stored)


def _unchanged(source: Source, stored: Stored) -> Source:
    if stored.source != source.version:
        raise MediaError(f"{source.path.name} was changed after its plan was made; submit it again")
    return source


def handed_in(ctx: Any) -> Source:
    """The file that is to be transcoded."""
    text_of(ctx, "source")
    return look_at(ctx.file("source"))


def known_frames(ctx: Any) -> Index | None:
    """The frames of the source as they were read for the plan; None if it has no picture."""
    files: list[Path] = ctx.inputs.only("plan", FRAMES).paths(FRAMES)
    return Index.from_json(json.loads(files[0].read_text("utf-8"))) if files else None


def tools_for(ctx: Any) -> Tools:
    """The tools of this machine, each run recorded as a step of the task."""
    settings = load_settings(os.environ, {})

    async def run(command: tuple[object, ...], **options: Any) -> Ended:
        ended: Ended = await ctx.step(*command, kind="media", check=False, **options)
        return ended

    return tools_of(settings, run)


def text_of(ctx: Any, name: str, default: str | None = None) -> str:
    """A text of the spec."""
    value = ctx.spec.get(name, default)
    if not isinstance(value, str) or not value:
        raise InvalidSpec(f"the spec of a transcode needs {name!r}: a text")
    return value


def names_of(ctx: Any, name: str) -> list[str]:
    """A list of names in the spec; empty if it is not there."""
    value = ctx.spec.get(name) or []
    if not isinstance(value, list) or len(value) > NAMES_MAX or not all(isinstance(n, str) for n in value):
        raise InvalidSpec(f"the spec of a transcode may have {name!r}: a list of at most {NAMES_MAX} names")
    return value


def seconds_of(ctx: Any, name: str) -> float | None:
    """A length of the spec, if it is there."""
    value = ctx.spec.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= SECONDS_MAX:
        raise InvalidSpec(f"the spec of a transcode may have {name!r}: from 1 to {SECONDS_MAX} seconds")
    return float(value)

"""Profiles: which codecs, which sizes and how many bits, from a file that people can read and write."""

import tomllib
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from takeup.core.errors import InvalidInput

SHORT_MIN, SHORT_MAX = 2, 4320
KBPS_MAX = 200_000
CRF_MAX = 63
RUNGS_MAX = 16
ENCODERS = {"h264": ("libx264",)}
"""Which encoders make which codec; a profile names one of them, never an option of its own."""
PRESETS = (
    "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow",
)  # fmt: skip


class InvalidProfile(InvalidInput):
    """A profile cannot be used."""

    help = "Correct the value that the message names, or use a profile that comes with Takeup."


@dataclass(frozen=True, slots=True)
class Step:
    """One size that a profile offers."""

    short: int
    crf: int
    max_kbps: int


@dataclass(frozen=True, slots=True)
class AudioRule:
    """How sound is encoded."""

    codec: Literal["aac"]
    kbps_a_channel: int


@dataclass(frozen=True, slots=True)
class Profile:
    """What to make of a source."""

    name: str
    codec: str
    encoder: str
    preset: str
    range: Literal["sdr"]
    audio: AudioRule
    rungs: tuple[Step, ...]


def names() -> list[str]:
    """The profiles that come with Takeup."""
    folder = resources.files("takeup.media") / "profiles"
    return sorted(
        entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")
    )


def load(name: str) -> Profile:
    """A profile by its name, or from a file of one's own."""
    if name in names():
        text = (resources.files("takeup.media") / "profiles" / f"{name}.toml").read_text("utf-8")
    elif name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProfile(f"the profile {name} cannot be read: {error}") from error
    else:
        raise InvalidProfile(
            f"there is no profile {name!r}; there are: {', '.join(names())}, or a file .toml"
        )
    try:
        return read(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InvalidProfile(f"the profile {name} is not TOML: {error}") from error


def read(values: dict[str, Any]) -> Profile:
    """A profile from its values, each checked."""
    audio = AudioRule(**_known(AudioRule, values.get("audio", {}), "audio"))
    steps = [Step(**_known(Step, step, "rungs")) for step in values.get("rungs", [])]
    rest = {name: value for name, value in values.items() if name not in ("audio", "rungs")}
    whole = {**rest, "audio": audio, "rungs": tuple(sorted(steps, key=lambda step: -step.short))}
    profile = Profile(**_known(Profile, whole, "the profile"))
    _check(profile)
    return profile


def _known(kind: type, values: dict[str, Any], where: str) -> dict[str, Any]:
    wanted = {field.name for field in fields(kind)}
    for name in sorted(values.keys() ^ wanted):
        problem = "is missing" if name in wanted else "is not known"
        raise InvalidProfile(f"{where}: {name} {problem}")
    return values


def _check(profile: Profile) -> None:
    _one_of("codec", profile.codec, ENCODERS)
    _one_of("encoder", profile.encoder, ENCODERS[profile.codec])
    _one_of("preset", profile.preset, PRESETS)
    _one_of("range", profile.range, ("sdr",))
    _one_of("audio.codec", profile.audio.codec, ("aac",))
    _within("audio.kbps_a_channel", profile.audio.kbps_a_channel, 16, 256)
    _within("the number of rungs", len(profile.rungs), 1, RUNGS_MAX)
    for step in profile.rungs:
        _within("short", step.short, SHORT_MIN, SHORT_MAX)
        _within("crf", step.crf, 0, CRF_MAX)
        _within("max_kbps", step.max_kbps, 1, KBPS_MAX)
    if len({step.short for step in profile.rungs}) < len(profile.rungs):
        raise InvalidProfile("two rungs have the same short side")


def _one_of(what: str, value: object, allowed: Any) -> None:
    if value not in allowed:
        raise InvalidProfile(f"{what} {value!r} is not one of {', '.join(allowed)}")


def _within(what: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidProfile(f"{what} {value!r} is not a whole number from {least} to {most}")

"""Profiles: which codecs, which sizes and how many bits, from a file that people can read and write."""

import tomllib
from dataclasses import MISSING, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from takeup.core.errors import InvalidInput
from takeup.media.encoders import AUTO, CODECS, ENCODERS, HARDWARE, SOFTWARE, Codec, Range

SHORT_MIN, SHORT_MAX = 2, 4320
KBPS_MAX = 200_000
CRF_MAX = 63
RUNGS_MAX = 16
FAMILIES_MAX = 8
LUFS_MIN, LUFS_MAX = -40, -5


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
class Family:
    """Sizes of one codec and range, between which a player may switch."""

    codec: Codec
    encoder: str
    preset: str
    range: Range
    critical: bool
    """Whether nothing is published without it."""
    rungs: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class AudioRule:
    """How sound is encoded."""

    codec: Literal["aac"]
    kbps_a_channel: int
    loudness_lufs: int | None = None
    """How loud every track is made; None leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What to make of a source; without a family, its sound alone."""

    name: str
    audio: AudioRule
    families: tuple[Family, ...]


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
    families = tuple(_family(family) for family in values.get("families", ()))
    whole = {**values, "audio": audio, "families": families}
    profile = Profile(**_known(Profile, whole, "the profile"))
    _check(profile)
    return profile


def _family(values: dict[str, Any]) -> Family:
    steps = [Step(**_known(Step, step, "rungs")) for step in values.get("rungs", [])]
    whole = {**values, "rungs": tuple(steps)}
    family = Family(**_known(Family, whole, "families"))
    _check_family(family)
    return replace(family, rungs=tuple(sorted(steps, key=lambda step: -step.short)))


def _known(kind: type, values: dict[str, Any], where: str) -> dict[str, Any]:
    wanted = {field.name: field.default is MISSING for field in fields(kind)}
    for name in sorted(values.keys() | wanted.keys()):
        if name not in wanted:
            raise InvalidProfile(f"{where}: {name} is not known")
        if name not in values and wanted[name]:
            raise InvalidProfile(f"{where}: {name} is missing")
    return values


def _check(profile: Profile) -> None:
    _one_of("audio.codec", profile.audio.codec, ("aac",))
    _within("audio.kbps_a_channel", profile.audio.kbps_a_channel, 16, 256)
    if profile.audio.loudness_lufs is not None:
        _within("audio.loudness_lufs", profile.audio.loudness_lufs, LUFS_MIN, LUFS_MAX)
    _within("the number of families", len(profile.families), 0, FAMILIES_MAX)
    if len({(family.codec, family.range) for family in profile.families}) < len(profile.families):
        raise InvalidProfile("two families have the same codec and range")


def _check_family(family: Family) -> None:
    _one_of("codec", family.codec, CODECS)
    named = [name for name, encoder in ENCODERS.items() if encoder.codec == family.codec]
    _one_of("encoder", family.encoder, (AUTO, HARDWARE, *named))
    encoder = ENCODERS.get(family.encoder, SOFTWARE[family.codec])
    _one_of("preset", family.preset, encoder.presets)
    _one_of("range", family.range, ("sdr", "hdr"))
    _one_of("critical", family.critical, (True, False))
    if (family.codec, family.range) == ("h264", "hdr"):
        raise InvalidProfile("h264 is for sdr: hardly anything plays it in ten bits; use av1 or hevc for hdr")
    _within("the number of rungs", len(family.rungs), 1, RUNGS_MAX)
    for step in family.rungs:
        _within("short", step.short, SHORT_MIN, SHORT_MAX)
        _within("crf", step.crf, 0, CRF_MAX)
        _within("max_kbps", step.max_kbps, 1, KBPS_MAX)
    if len({step.short for step in family.rungs}) < len(family.rungs):
        raise InvalidProfile("two rungs have the same short side")


def _one_of(what: str, value: object, allowed: Any) -> None:
    if value not in allowed:
        raise InvalidProfile(f"{what} {value!r} is not one of {', '.join(map(str, allowed))}")


def _within(what: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidProfile(f"{what} {value!r} is not a whole number from {least} to {most}")

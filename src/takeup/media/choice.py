"""Chooses the encoders of a profile once, when the plan is made; a rung never changes its encoder later."""

from collections.abc import Collection
from dataclasses import replace

from takeup.media.abilities import Way, working
from takeup.media.binaries import Binaries
from takeup.media.encoders import candidates
from takeup.media.errors import NoTools
from takeup.media.profile import Family, Profile


async def choose(binaries: Binaries, profile: Profile) -> Profile:
    """The profile with encoders that work here; each that comes into question is tried for real."""
    ways = {
        (encoder.name, family.range)
        for family in profile.families
        for encoder in candidates(family.codec, family.encoder)
    }
    return chosen(profile, await working(binaries, sorted(ways)))


def chosen(profile: Profile, works: Collection[Way]) -> Profile:
    """The same with these found to work; a family that nothing can make falls away unless it is critical."""
    families = [_with_encoder(family, works) for family in profile.families]
    return replace(profile, families=tuple(family for family in families if family is not None))


def _with_encoder(family: Family, works: Collection[Way]) -> Family | None:
    for encoder in candidates(family.codec, family.encoder):
        if (encoder.name, family.range) in works:
            preset = family.preset if family.preset in encoder.presets else encoder.presets[0]
            return replace(family, encoder=encoder.name, preset=preset)
    if family.critical:
        raise NoTools(f"ffmpeg has no encoder that works for {family.codec} in {family.range}")
    return None

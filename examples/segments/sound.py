"""A sound is made, cut into pieces, each piece gets a tremolo, and the pieces are joined again."""

import array
import math
import wave

from takeup import Pipeline

RATE = 44_100

sound = Pipeline("sound", lease="30s")


@sound.stage(phase="planning")
def split(ctx):
    """Say which pieces there are: one task of `shake` is made for each."""
    total, size = (round(ctx.spec[name] * RATE) for name in ("seconds", "piece_seconds"))
    frames = array.array("h", (tone(at, ctx.spec["hertz"]) for at in range(total)))
    starts = range(0, total, size)
    for number, start in enumerate(starts):
        write(ctx.output(f"piece-{number}.wav"), frames[start : start + size])
    return {"segments": [{"start": start} for start in starts]}


@sound.stage(needs=[split], each="segment", retries=3)
def shake(ctx):
    """Work on one piece; the fields of its segment are in the parameters."""
    frames = read(ctx.inputs["split"].path(f"piece-{ctx.segment}.wav"))
    for i, frame in enumerate(frames):
        if i % RATE == 0:
            ctx.progress(100 * i / len(frames), "shaking")
        frames[i] = round(frame * volume(ctx.parameters["start"] + i))
    write(ctx.output("piece.wav"), frames)
    return {"loudest": max(frames)}


@sound.stage(needs=[shake], phase="uploading_outputs")
def join(ctx):
    """Put the pieces together in their order and let a command have its say."""
    pieces = ctx.inputs["shake"]
    frames = array.array("h")
    for path in pieces.paths("piece.wav"):
        frames.extend(read(path))
    target = ctx.output("sound.wav")
    write(target, frames)
    sha256 = ctx.step("sha256sum", target).stdout.split()[0]
    ctx.log.info("joined", pieces=len(pieces.results))
    return {"sha256": sha256, "loudest": max(result["loudest"] for result in pieces.results)}


def tone(at, hertz):
    return round(20_000 * math.sin(2 * math.pi * hertz * at / RATE))


def volume(at):
    return 0.6 + 0.4 * math.sin(2 * math.pi * 5 * at / RATE)


def read(path):
    with wave.open(str(path), "rb") as file:
        return array.array("h", file.readframes(file.getnframes()))


def write(path, frames):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
        file.writeframes(frames.tobytes())

"""Encodes one segment: batch by batch, the source is decoded once a batch for all its rungs.

Pictures are chosen by their number in the plan, never by seconds, so a segment encoded alone is the same as
its part of the whole. One thread an encoder and one build make the bytes the same every time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from pathlib import Path

from takeup.media.bounds import pixels, room_for, time_for
from takeup.media.encoders import ENCODERS, Encoder
from takeup.media.errors import MediaError, ToolFailed
from takeup.media.fmp4 import load
from takeup.media.index import AFTER_KEY_S
from takeup.media.ladder import Rung
from takeup.media.options import options
from takeup.media.plan import Picture, Plan, Segment, vain_s
from takeup.media.source import Source
from takeup.media.tools import STALL_S, OnProgress, Progress, Tools

VERSION = 2
"""Raised when the same plan would give other bytes."""
SCALER = "flags=bicubic"
TO_SDR = "scale=out_primaries=bt709:out_transfer=bt709:out_color_matrix=bt709:out_range=tv:intent=perceptual"
BT709 = "setparams=range=tv:colorspace=bt709:color_primaries=bt709:color_trc=bt709"
FRAGMENTED = "+frag_keyframe+empty_moov+default_base_moof+skip_trailer"
ONE_FILTER = ("-filter_complex_threads", "1")
"""There are as many children as cores: threads that share one picture wait for each other in vain."""
SLOWEST = 4
"""Decoding alone takes at most so many times as long as playing."""
PIXELS_A_BATCH = {"h264": 16_000_000, "hevc": 10_000_000, "av1": 10_000_000}
"""Encoders keep many pictures, so not too many large rungs are made at once; a single one may be larger."""


@dataclass(slots=True)
class Made:
    """What became of one segment: the file of every rung, and why some have none."""

    files: dict[str, Path] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


async def encode(
    tools: Tools,
    source: Source,
    plan: Plan,
    segment: Segment,
    folder: Path,
    *,
    on_progress: OnProgress | None = None,
) -> Made:
    """Make the files of one segment, one a rung; what is not critical may fail without the rest."""
    picture = plan.picture
    if picture is None:
        raise MediaError("the plan has no picture to encode")
    made = Made()
    share = Share(picture.rungs, segment.count, on_progress)
    for batch in batches(picture.rungs):
        try:
            made.files |= await _encode_batch(tools, source, picture, segment, batch, folder, share.tell)
        except (MediaError, ToolFailed) as error:
            if batch[0].is_critical:
                raise
            _remove(batch, folder)
            made.failed |= {rung.name: str(error) for rung in batch}
        share.done(batch)
    return made


def _remove(batch: Iterable[Rung], folder: Path) -> None:
    """What a tool that failed left behind would pass for a file that was made."""
    for rung in batch:
        (folder / name_of(rung)).unlink(missing_ok=True)


def name_of(rung: Rung) -> str:
    """The file of a rung."""
    return f"{rung.name}.mp4"


def batches(rungs: Iterable[Rung]) -> Iterator[tuple[Rung, ...]]:
    """Which rungs are made together: of one family, the critical ones first, not too large in sum."""
    in_order = sorted(rungs, key=lambda rung: not rung.is_critical)
    for (codec, *_), family in groupby(in_order, key=lambda rung: (rung.codec, rung.range)):
        batch: list[Rung] = []
        for rung in family:
            if batch and pixels((*batch, rung)) > PIXELS_A_BATCH[codec]:
                yield tuple(batch)
                batch = []
            batch.append(rung)
        yield tuple(batch)


class Share:
    """How far a segment is, over all its batches: by pixels, and never back."""

    def __init__(self, rungs: Iterable[Rung], count: int, on_progress: OnProgress | None) -> None:
        """Nothing is made yet."""
        self._all = pixels(rungs)
        self._count = count
        self._on_progress = on_progress
        self._pixels = self._bytes = self._batch_bytes = 0
        self._batch = 0

    def tell(self, batch: Sequence[Rung], progress: Progress) -> None:
        """One batch got on."""
        self._batch_bytes = progress.bytes
        frames = min(progress.frames, self._count)
        done = self._pixels * self._count + pixels(batch) * frames
        is_done = progress.is_done and self._pixels + pixels(batch) == self._all
        if self._on_progress is not None:
            self._on_progress(Progress(done // self._all, self._bytes + progress.bytes, is_done))

    def done(self, batch: Sequence[Rung]) -> None:
        """One batch is made, or will not be."""
        self._pixels += pixels(batch)
        self._bytes += self._batch_bytes
        self._batch_bytes = 0


async def _encode_batch(
    tools: Tools,
    source: Source,
    picture: Picture,
    segment: Segment,
    batch: tuple[Rung, ...],
    folder: Path,
    tell: Callable[[Sequence[Rung], Progress], None],
) -> dict[str, Path]:
    files = {rung.name: folder / name_of(rung) for rung in batch}
    encoder = ENCODERS[batch[0].encoder]
    in_vain_s = SLOWEST * float(vain_s(picture, segment))
    before = [*encoder.device, *seek_to(picture, segment), *_decoding(encoder)]
    after = [*ONE_FILTER, "-filter_complex", pictures_of(picture, segment, batch)]
    after += _outputs(picture, segment, batch, files)
    await tools.ffmpeg(
        source,
        before,
        after,
        writes=[folder],
        on_progress=lambda progress: tell(batch, progress),
        stall_s=STALL_S + in_vain_s,
        wall_s=time_for(segment.count, batch) + in_vain_s,
        bytes_max=room_for(segment.count / picture.rate, batch),
        devices=encoder.devices,
    )
    for name, file in files.items():
        _check(picture, segment, name, file)
    return files


def _check(picture: Picture, segment: Segment, name: str, file: Path) -> None:
    """Every frame is there, and the keys stand where every other rung has them."""
    movie = load(file)
    if movie.count != segment.count:
        raise MediaError(
            f"segment {segment.number} of {name} has {movie.count} frames instead of {segment.count}"
        )
    if movie.keys != list(range(0, segment.count, picture.keys_every)):
        raise MediaError(f"segment {segment.number} of {name} has key frames in other places than planned")


def seek_to(picture: Picture, segment: Segment) -> list[str]:
    """Start at a frame that can be decoded."""
    start = segment.seek * picture.time_base + AFTER_KEY_S
    skip = ["-seek_timestamp", "1", "-ss", decimal(start), "-noaccurate_seek"] if segment.number else []
    return ["-copyts", "-reinit_filter", "0", *skip]  # a source may change its size; the filters go on


def _decoding(encoder: Encoder) -> list[str]:
    """One thread decodes: there are as many children as cores, and more threads cost more than they bring.

    Only an encoder outside the processor is fast enough to wait for it.
    """
    return [] if encoder.devices else ["-threads", "1"]


def pictures_of(picture: Picture, segment: Segment, rungs: Sequence[Rung]) -> str:
    """The filters: by number, upright, with square pixels, in every size; the rungs are of one family."""
    rate = f"{picture.rate.numerator}/{picture.rate.denominator}"
    chain = [f"setpts=PTS-({picture.zero})"]
    if picture.deinterlace:
        chain.append("scale,bwdif=mode=send_frame")  # it takes most forms of pixels, not all
    chain += [
        f"fps=fps={rate}:start_time={decimal(segment.first / picture.rate)}:round=near",
        f"trim=end_frame={segment.count}",
        f"settb={picture.rate.denominator}/{picture.rate.numerator}",
        "setpts=N",
    ]
    if picture.hdr and rungs[0].range == "sdr":
        chain += [TO_SDR, "format=yuv420p"]
    elif picture.is_plain:
        chain.append(BT709)  # so that the scaler has nothing to do where the size stays
    makers = [_maker(rung, rungs) for rung in rungs]
    scaled = []
    for number, (rung, maker) in enumerate(zip(rungs, makers, strict=True)):
        takers = [f"[p{n}]" for n, other in enumerate(makers) if other == number]
        fork = f",split={1 + len(takers)}[v{number}]{''.join(takers)}" if takers else f"[v{number}]"
        scaled.append(f"[p{number}]{_scaled(picture, rung, is_halved=maker is not None)}{fork}")
    direct = [f"[p{number}]" for number, maker in enumerate(makers) if maker is None]
    split = f"split={len(direct)}{''.join(direct)}"
    return ";".join([f"[0:{picture.stream}]" + ",".join([*chain, split]), *scaled])


def _maker(rung: Rung, rungs: Sequence[Rung]) -> int | None:
    """Which of these rungs has the pictures that this one halves, while they are still in memory."""
    shared = (n for n, larger in enumerate(rungs) if larger.size == rung.via)
    return None if ENCODERS[rung.encoder].uploads else next(shared, None)


def _scaled(picture: Picture, rung: Rung, *, is_halved: bool) -> str:
    """The pictures of a rung, of the source or of the rung twice as large; the same ones, whoever shares."""
    chain = [] if is_halved or not rung.via else _sized(picture, rung, rung.via, is_first=True)
    chain += _sized(picture, rung, rung.size, is_first=not (is_halved or chain))
    return ",".join([*chain, "hwupload"] if ENCODERS[rung.encoder].uploads else chain)


def _sized(picture: Picture, rung: Rung, size: str, *, is_first: bool) -> list[str]:
    """One size; SDR is told to be BT.709, and made so if it is not: untold, players guess by the size."""
    scale = f"scale=s={size}:{SCALER}"
    if rung.range == "sdr" and not picture.hdr and is_first:
        scale += f":in_color_matrix={picture.matrix}:out_color_matrix=bt709:out_range=tv"
    told = [BT709] if rung.range == "sdr" else []
    return [scale, "setsar=1", *told, f"format={ENCODERS[rung.encoder].pixel_format(rung.range)}"]


def _outputs(picture: Picture, segment: Segment, rungs: Sequence[Rung], files: dict[str, Path]) -> list[str]:
    outputs: list[str] = []
    for number, rung in enumerate(rungs):
        outputs += [
            "-map", f"[v{number}]", *options(rung, picture.keys_every, is_first=segment.first == 0),
            "-map_metadata", "-1", "-map_chapters", "-1",
            "-video_track_timescale", str(timescale(picture.rate)),
            "-f", "mp4", "-use_editlist", "0", "-movflags", FRAGMENTED, f"file:{files[rung.name]}",
        ]  # fmt: skip
    return outputs


def timescale(rate: Fraction) -> int:
    """Ticks a second in which every frame has a whole number of ticks."""
    return rate.numerator


def decimal(seconds: Fraction) -> str:
    """A time as ffmpeg reads it, to the microsecond."""
    micros = round(seconds * 1_000_000)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"
